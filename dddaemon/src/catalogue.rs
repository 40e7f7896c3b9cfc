// SPDX-License-Identifier: GPL-2.0-only

//! Reads a page in the text format, and compares it with `docs/users/metrics.md`, for the tests of
//! the daemons.

use crate::{
    exposition::{Format, Page},
    metrics::Write,
};
use std::collections::{BTreeMap, BTreeSet};

/// A metric of a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metric {
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    /// Its help text.
    pub help: String,
    /// Names of its labels, without that of buckets.
    pub labels: BTreeSet<String>,
    /// Its series: end of the name and labels, as they are written.
    pub series: BTreeMap<String, f64>,
}

/// Returns the metrics of a page by their names, or a description of its error.
pub fn read(page: &str) -> Result<BTreeMap<String, Metric>, String> {
    let mut metrics: BTreeMap<String, Metric> = BTreeMap::new();
    let mut last = String::new();
    for line in page.lines() {
        let wrong = |what: &str| format!("{what}: {line}");
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').ok_or_else(|| wrong("no help"))?;
            let metric = Metric {
                help: help.into(),
                ..Metric::default()
            };
            if metrics.insert(name.into(), metric).is_some() {
                return Err(wrong("a metric that was there"));
            }
            last = name.into();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let kind = rest.strip_prefix(&last).ok_or_else(|| wrong("no help"))?;
            let metric = metrics.get_mut(&last).ok_or_else(|| wrong("no help"))?;
            metric.kind = kind.trim().into();
        } else {
            let metric = metrics.get_mut(&last).ok_or_else(|| wrong("no type"))?;
            sample(&last, metric, line).map_err(|what| wrong(&what))?;
        }
    }
    for (name, metric) in &metrics {
        check(name, metric).map_err(|what| format!("{name}: {what}"))?;
    }
    Ok(metrics)
}

fn sample(name: &str, metric: &mut Metric, line: &str) -> Result<(), String> {
    let (series, value) = line.rsplit_once(' ').ok_or("no value")?;
    let rest = series.strip_prefix(name).ok_or("another metric's name")?;
    let value: f64 = value
        .replace("+Inf", "inf")
        .parse()
        .map_err(|_| "no number")?;
    let (suffix, labels) = match rest.split_once('{') {
        Some((suffix, labels)) => (suffix, labels.strip_suffix('}').ok_or("an open brace")?),
        None => (rest, ""),
    };
    let suffixes: &[&str] = match metric.kind.as_str() {
        "histogram" => &["_bucket", "_count", "_sum"],
        _ => &[""],
    };
    if !suffixes.contains(&suffix) {
        return Err("a name that the type does not have".into());
    }
    let names = labels.split("\",").filter(|label| !label.is_empty());
    for label in names {
        let (name, _) = label.split_once("=\"").ok_or("no label")?;
        metric.labels.insert(name.into());
    }
    metric.labels.remove("le");
    match metric.series.insert(rest.into(), value) {
        None => Ok(()),
        Some(_) => Err("a series that was there".into()),
    }
}

/// Checks rules that `promtool check metrics` does not check.
fn check(name: &str, metric: &Metric) -> Result<(), String> {
    let is_word = |text: &str| {
        let mut letters = text.chars();
        letters
            .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
    };
    if !is_word(name) || !metric.labels.iter().all(|label| is_word(label)) {
        return Err("letters beside a-z, 0-9 and _".into());
    }
    if (metric.kind == "counter") != name.ends_with("_total") {
        return Err("only counters, and all of them, end in _total".into());
    }
    for unit in [
        "percent",
        "pages",
        "page",
        "milliseconds",
        "ms",
        "us",
        "mib",
        "kib",
    ] {
        if name.split('_').any(|part| part == unit) {
            return Err(format!("{unit} is not a base unit"));
        }
    }
    if metric.series.is_empty() || metric.kind.is_empty() {
        return Err("no series, or no type".into());
    }
    Ok(())
}

/// Returns metrics as rows of a table in Markdown: name, type, labels, meaning.
fn rows(metrics: &BTreeMap<String, Metric>) -> String {
    let row = |(name, metric): (&String, &Metric)| {
        let labels: Vec<String> = metric.labels.iter().map(|it| format!("`{it}`")).collect();
        let labels = match labels.is_empty() {
            true => "–".into(),
            false => labels.join(", "),
        };
        format!(
            "| `{name}` | {} | {labels} | {} |\n",
            metric.kind, metric.help
        )
    };
    metrics.iter().map(row).collect()
}

/// Returns the page of a report.
pub fn text<R>(report: &R, write: Write<R>, format: Format) -> String {
    let mut page = Page::new(format);
    write(report, &mut page);
    page.finish()
}

/// Returns the metrics on the page of a report.
///
/// # Panics
///
/// Panics if the page breaks a rule.
pub fn metrics<R>(report: &R, write: Write<R>) -> BTreeMap<String, Metric> {
    let text = text(report, write, Format::Text);
    read(&text).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"))
}

/// Checks that `docs/users/metrics.md` lists the metrics on the page of a report, and no other
/// whose name begins with `prefix`. A daemon calls this with a report that has everything.
///
/// # Panics
///
/// Panics if it does not, with the rows that it should have.
pub fn assert_documented<R>(prefix: &str, report: &R, write: Write<R>) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/users/metrics.md");
    let document = std::fs::read_to_string(path).expect("the document");
    let begin = format!("| `{prefix}");
    let told: String = document
        .lines()
        .filter(|line| line.starts_with(&begin))
        .flat_map(|line| [line, "\n"])
        .collect();
    let rows = rows(&metrics(report, write));
    assert_eq!(
        told, rows,
        "docs/users/metrics.md should have these rows:\n{rows}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_pages_are_noticed() {
        let page = |name: &str, kind: &str, samples: &str| {
            read(&format!(
                "# HELP {name} It\n# TYPE {name} {kind}\n{samples}\n"
            ))
        };
        assert!(page("x_total", "counter", "x_total 1").is_ok());
        assert!(page("x", "gauge", "x{a=\"1\",b=\"c,d\"} +Inf\nx NaN").is_ok());
        for (name, kind, samples) in [
            ("x", "counter", "x 1"),
            ("x_total", "gauge", "x_total 1"),
            ("x_percent", "gauge", "x_percent 1"),
            ("x", "gauge", "x 1\nx 2"),
            ("x", "gauge", "y 1"),
            ("x", "gauge", "x one"),
            ("x", "gauge", "x_bucket 1"),
            ("X", "gauge", "X 1"),
            ("x", "gauge", "# HELP x It"),
        ] {
            assert!(
                page(name, kind, samples).is_err(),
                "{name} {kind} {samples}"
            );
        }
    }
}
