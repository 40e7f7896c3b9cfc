// SPDX-License-Identifier: GPL-2.0

//! Prometheus' text format, as far as one metric of a page needs it.
//!
//! Pages come from applications and may be garbage: a line that makes no sense is skipped. One
//! metric is looked for and a page is gone through once, without keeping it, which is why this is
//! not a general parser.

use std::collections::BTreeMap;

/// A metric by name, and labels it must have.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Metric {
    name: String,
    labels: BTreeMap<String, String>,
}

/// What a page says about a metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The sum over all series that match; `None` if there is none.
    pub sum: Option<f64>,
    /// The largest value of them.
    pub largest: Option<f64>,
    /// Sums of a histogram's buckets, by upper bound, as the page has them: cumulative.
    pub buckets: Vec<(f64, f64)>,
}

impl Metric {
    /// Reads `name` or `name{label="value",…}`; an empty text means the first number of a page
    /// that is no more than numbers.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let (name, labels, rest) =
            series(text.trim()).ok_or_else(|| format!("`{text}` is not of the form {FORM}"))?;
        if !rest.trim().is_empty() {
            return Err(format!("`{rest}` after the metric; the form is {FORM}"));
        }
        Ok(Self {
            name: name.into(),
            labels: labels.into_iter().collect(),
        })
    }

    /// Looks for the metric in a page.
    pub fn find(&self, page: &str) -> Found {
        let mut found = Found::default();
        let mut buckets: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        for line in page.lines() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if self.name.is_empty() {
                found.sum = line.split_whitespace().next().and_then(number);
                found.largest = found.sum;
                if found.sum.is_some() {
                    break;
                }
                continue;
            }
            let Some((labels, value)) = self.sample(line) else {
                continue;
            };
            if let Some(bound) = labels.get("le").and_then(|bound| bound.parse().ok()) {
                add_bucket(&mut buckets, bound, value);
            }
            found.sum = Some(found.sum.unwrap_or(0.0) + value);
            found.largest = Some(found.largest.map_or(value, |largest| largest.max(value)));
        }
        found.buckets = buckets.into_values().collect();
        found.buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        found
    }

    /// The labels and the value of a line, if it is about this metric.
    fn sample(&self, line: &str) -> Option<(BTreeMap<String, String>, f64)> {
        // Most lines are about something else; this is cheap.
        if !line.starts_with(&self.name) {
            return None;
        }
        let (name, labels, rest) = series(line)?;
        if name != self.name {
            return None;
        }
        let labels: BTreeMap<String, String> = labels.into_iter().collect();
        let ours = self
            .labels
            .iter()
            .all(|(label, value)| labels.get(label) == Some(value));
        let value = rest.split_whitespace().next().and_then(number)?;
        ours.then_some((labels, value))
    }
}

const FORM: &str = "name{label=\"value\"}";

/// More bounds than any histogram has are not collected.
const MOST_BUCKETS: usize = 512;

fn add_bucket(buckets: &mut BTreeMap<u64, (f64, f64)>, bound: f64, value: f64) {
    if buckets.len() < MOST_BUCKETS || buckets.contains_key(&bound.to_bits()) {
        let bucket = buckets.entry(bound.to_bits()).or_insert((bound, 0.0));
        bucket.1 += value;
    }
}

/// A number that is one; neither infinite nor NaN.
fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

type Series<'a> = (&'a str, Vec<(String, String)>, &'a str);

/// Splits a line into name, labels and what follows.
fn series(line: &str) -> Option<Series<'_>> {
    let end = line
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))
        .unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    match rest.strip_prefix('{') {
        None => Some((name, Vec::new(), rest)),
        Some(inside) => {
            let (labels, rest) = labels(inside)?;
            Some((name, labels, rest))
        }
    }
}

/// Reads labels up to the closing brace.
fn labels(mut text: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        text = text.trim_start_matches([' ', ',']);
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (label, rest) = text.split_once('=')?;
        let rest = rest.trim_start().strip_prefix('"')?;
        let (value, rest) = quoted(rest)?;
        labels.push((label.trim().into(), value));
        text = rest;
    }
}

/// Reads up to the closing quote; `\\`, `\"` and `\n` are escapes.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            _ => value.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: &str = r#"
# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{server="a",code="200"} 100 1700000000000
requests_total{server="a",code="404"} 5
requests_total{server="b \"x\"\\",code="200"} 7
requests_total_more 1000
up 1
broken{ 3
broken{a="b} 3
temperature NaN
seconds_bucket{le="0.1",h="1"} 2
seconds_bucket{le="0.5",h="1"} 3
seconds_bucket{le="+Inf",h="1"} 4
seconds_bucket{le="0.1",h="2"} 1
"#;

    fn sum(metric: &str) -> Option<f64> {
        Metric::parse(metric).unwrap().find(PAGE).sum
    }

    #[test]
    fn series_that_match_are_added() {
        assert_eq!(sum("requests_total"), Some(112.0));
        assert_eq!(sum(r#"requests_total{server="a"}"#), Some(105.0));
        assert_eq!(sum(r#"requests_total{ server="b \"x\"\\" , }"#), Some(7.0));
        assert_eq!(sum("requests"), None);
        assert_eq!(sum("up"), Some(1.0));
        assert_eq!(sum("broken"), None);
        assert_eq!(sum("temperature"), None);
    }

    #[test]
    fn histograms_are_added_by_bound() {
        let found = Metric::parse("seconds_bucket").unwrap().find(PAGE);
        let inf = f64::INFINITY;
        assert_eq!(found.buckets, [(0.1, 3.0), (0.5, 3.0), (inf, 4.0)]);
    }

    #[test]
    fn a_bare_number_will_do() {
        let metric = Metric::parse("").unwrap();
        assert_eq!(metric.find("\n# x\n 12.5 ops\n3\n").sum, Some(12.5));
        assert_eq!(metric.find("no number\n").sum, None);
    }

    #[test]
    fn wrong_metrics_are_refused() {
        for text in ["1a", "a b", "a{b}", "a{b=c}", "a{b=\"c\"", "{}"] {
            assert!(Metric::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn garbage_survives(page in "(?s).{0,400}", metric in "[a-z]{1,3}(\\{a=\"[a-z]\"\\})?") {
            let metric = Metric::parse(&metric).unwrap();
            let found = metric.find(&page);
            prop_assert!(found.sum.is_none_or(f64::is_finite));
        }
    }
}
