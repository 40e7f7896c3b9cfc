// SPDX-License-Identifier: GPL-2.0-only

//! Parser of Prometheus' text format for one metric of a page.
//!
//! Pages come from applications and may be garbage, so that malformed lines are skipped. This is no
//! general parser: it looks for one metric, and reads a page once, as it arrives and without
//! keeping it.

use anyhow::{Result, bail};
use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
};

/// A metric by its name, and the labels that it must have.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Metric {
    name: String,
    labels: BTreeMap<String, String>,
}

/// Values of a metric on a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The sum over all matching series; `None` if there are none.
    pub sum: Option<f64>,
    /// The largest value of the matching series.
    pub largest: Option<f64>,
    /// Sums of a histogram's buckets by upper bound. They are cumulative, as on the page.
    pub buckets: Vec<(f64, f64)>,
    /// The values of each series, with the upper bounds of a histogram's buckets.
    pub(super) series: BTreeMap<u64, Vec<(Option<f64>, f64)>>,
}

impl Metric {
    /// Parses `name` or `name{label="value",…}`. An empty text stands for the first number of a
    /// page that has only numbers.
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

    /// Looks for the metric in a page, up to the limit of its length.
    pub fn find(&self, page: &str) -> Found {
        let mut search = Search::new(self);
        // If the page is too long, the values before the limit count.
        let _ = search.feed(page.as_bytes());
        search.end()
    }

    /// Returns the labels and the value of a line, if it is about this metric.
    fn sample(&self, line: &str) -> Option<(BTreeMap<String, String>, f64)> {
        // Most lines are about another metric, which this cheap comparison finds.
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

/// Looks for a metric in a page that arrives in pieces, of which it keeps one line.
#[derive(Debug)]
pub struct Search {
    metric: Metric,
    found: Found,
    values: usize,
    /// The current line, unless it is too long.
    line: Vec<u8>,
    skips: bool,
    bytes: usize,
    done: bool,
}

impl Search {
    /// The longest page, in bytes.
    pub const MAX_BYTES: usize = 256 << 10;

    /// Creates a search for a metric.
    pub fn new(metric: &Metric) -> Self {
        Self {
            metric: metric.clone(),
            found: Found::default(),
            values: 0,
            line: Vec::new(),
            skips: false,
            bytes: 0,
            done: false,
        }
    }

    /// Reads the next piece of the page.
    pub fn feed(&mut self, piece: &[u8]) -> Result<()> {
        self.bytes += piece.len();
        if self.bytes > Self::MAX_BYTES {
            bail!("has more than {} KiB", Self::MAX_BYTES >> 10);
        }
        let mut lines = piece.split(|byte| *byte == b'\n');
        let last = lines.next_back().unwrap_or_default();
        for line in lines {
            self.append(line);
            self.end_line()?;
        }
        self.append(last);
        Ok(())
    }

    /// Returns the values at the end of the page.
    pub fn end(mut self) -> Found {
        // The last line cannot exceed a limit that ends the search.
        let _ = self.end_line();
        let mut buckets: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        for (bound, value) in self.found.series.values().flatten() {
            if let Some(bound) = bound {
                buckets.entry(bound.to_bits()).or_insert((*bound, 0.0)).1 += value;
            }
        }
        self.found.buckets = buckets.into_values().collect();
        self.found.buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.found
    }

    fn append(&mut self, part: &[u8]) {
        if self.line.len() + part.len() > MAX_LINE_LEN {
            self.skips = true;
            self.line.clear();
        }
        if !self.skips {
            self.line.extend_from_slice(part);
        }
    }

    fn end_line(&mut self) -> Result<()> {
        let line = std::mem::take(&mut self.line);
        let taken = match std::mem::take(&mut self.skips) || self.done {
            true => Ok(()),
            // Invalid UTF-8 is replaced, so that the line does not match.
            false => self.take(String::from_utf8_lossy(&line).trim()),
        };
        self.line = line;
        self.line.clear();
        taken
    }

    fn take(&mut self, line: &str) -> Result<()> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let found = &mut self.found;
        if self.metric.name.is_empty() {
            found.sum = line.split_whitespace().next().and_then(number);
            found.largest = found.sum;
            self.done = found.sum.is_some();
            found
                .series
                .extend(found.sum.map(|sum| (0, vec![(None, sum)])));
            return Ok(());
        }
        let Some((mut labels, value)) = self.metric.sample(line) else {
            return Ok(());
        };
        self.values += 1;
        if self.values > MAX_VALUES {
            bail!("more than {MAX_VALUES} series match; name labels in `metric`");
        }
        found.sum = Some(found.sum.unwrap_or(0.0) + value);
        found.largest = Some(found.largest.map_or(value, |largest| largest.max(value)));
        let bound: Option<f64> = labels.remove("le").and_then(|bound| bound.parse().ok());
        let mut hasher = DefaultHasher::new();
        labels.hash(&mut hasher);
        let values = found.series.entry(hasher.finish()).or_default();
        values.push((bound.filter(|bound| !bound.is_nan()), value));
        Ok(())
    }
}

/// The longest line, in bytes. Longer ones are skipped.
const MAX_LINE_LEN: usize = 8 << 10;

/// The most values of a metric, which are kept until the next page.
const MAX_VALUES: usize = 1024;

const FORM: &str = "name{label=\"value\"}";

/// Parses a finite number.
fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

type Series<'a> = (&'a str, Vec<(String, String)>, &'a str);

/// Splits a line into the name, the labels and the rest.
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

/// Parses labels up to the closing brace.
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

/// Parses a text up to the closing quote. `\\`, `\"` and `\n` are escapes.
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
    fn a_page_may_be_a_bare_number() {
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

    #[test]
    fn pages_come_in_pieces() {
        let metric = Metric::parse("requests_total").unwrap();
        for size in [1, 2, 7, 64, 10_000] {
            let mut search = Search::new(&metric);
            for piece in PAGE.as_bytes().chunks(size) {
                search.feed(piece).unwrap();
            }
            assert_eq!(search.end(), metric.find(PAGE), "{size}");
        }
    }

    #[test]
    fn endless_pages_are_given_up() {
        let metric = Metric::parse("up").unwrap();
        let mut search = Search::new(&metric);
        let piece = [0xff; 4096];
        let fed = (0..1000).take_while(|_| search.feed(&piece).is_ok());
        assert_eq!(fed.count(), Search::MAX_BYTES / piece.len());
        assert!(search.line.capacity() <= 2 * MAX_LINE_LEN);
        let mut search = Search::new(&metric);
        search.feed(&[b'x'; MAX_LINE_LEN + 1]).unwrap();
        search.feed(b"up 1\nup 2\n").unwrap();
        assert_eq!(search.end().sum, Some(2.0), "a long line is skipped whole");
        let many: String = (0..2000)
            .map(|at| format!("up{{a=\"{at}\"}} 1\n"))
            .collect();
        assert!(Search::new(&metric).feed(many.as_bytes()).is_err());
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
