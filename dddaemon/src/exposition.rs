// SPDX-License-Identifier: GPL-2.0-only

//! Pages of metrics, in the formats that Prometheus reads.
//!
//! Both formats have the same metrics with the same names. They differ in the metadata of counters
//! and info metrics, and in what has to be absent: OpenMetrics allows the count of a histogram only
//! beside its sum, which the modules do not know.

use ddabi::pool::Histogram;
use std::fmt::Write;

/// Format of a page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format {
    /// Prometheus' text format, version 0.0.4.
    Text,
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
}

impl Format {
    /// Returns the format's media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Units that OpenMetrics declares if the name of a metric ends in one.
const UNITS: [&str; 3] = ["bytes", "ratio", "seconds"];

/// Bounds of the buckets of durations: those from 512 ns to 1 s. The modules' buckets below are
/// added to the first one, those above to the last one.
const FIRST_BUCKET: usize = 8;
const LAST_BUCKET: usize = 29;

/// Labels of a sample, as they are written.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Labels(String);

impl Labels {
    /// Returns these labels and one more, whose value may contain any characters.
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut labels = self.0.clone();
        if !labels.is_empty() {
            labels.push(',');
        }
        labels.push_str(name);
        labels.push_str("=\"");
        for letter in value.chars() {
            match letter {
                '\\' => labels.push_str("\\\\"),
                '"' => labels.push_str("\\\""),
                '\n' => labels.push_str("\\n"),
                letter => labels.push(letter),
            }
        }
        labels.push('"');
        Self(labels)
    }
}

/// Value of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A count, or an exact size.
    Whole(u64),
    /// Any other number.
    Real(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Whole(value.into())
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Whole(value.into())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

/// Type of a metric.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
    Info,
}

/// A page that is being written.
#[derive(Debug)]
pub struct Page {
    format: Format,
    text: String,
}

impl Page {
    /// Begins a page.
    pub const fn new(format: Format) -> Self {
        Self {
            format,
            text: String::new(),
        }
    }

    /// Begins a counter, whose name ends in `_total`.
    pub fn counter<'a>(&'a mut self, name: &'a str, help: &'a str) -> Family<'a> {
        debug_assert!(name.ends_with("_total"), "{name}");
        Family::new(self, Kind::Counter, name, help)
    }

    /// Begins a gauge.
    pub fn gauge<'a>(&'a mut self, name: &'a str, help: &'a str) -> Family<'a> {
        Family::new(self, Kind::Gauge, name, help)
    }

    /// Begins a histogram.
    pub fn histogram<'a>(&'a mut self, name: &'a str, help: &'a str) -> Family<'a> {
        Family::new(self, Kind::Histogram, name, help)
    }

    /// Begins a metric that only has labels, and whose name ends in `_info`.
    pub fn info<'a>(&'a mut self, name: &'a str, help: &'a str) -> Family<'a> {
        debug_assert!(name.ends_with("_info"), "{name}");
        Family::new(self, Kind::Info, name, help)
    }

    /// Ends the page.
    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    fn sample(&mut self, name: &str, labels: &Labels, value: Value) {
        self.text.push_str(name);
        if !labels.0.is_empty() {
            self.text.push('{');
            self.text.push_str(&labels.0);
            self.text.push('}');
        }
        self.text.push(' ');
        // Writing to a string cannot fail.
        let _ = match value {
            Value::Whole(value) => write!(self.text, "{value}"),
            Value::Real(value) if value == f64::INFINITY => write!(self.text, "+Inf"),
            Value::Real(value) if value == f64::NEG_INFINITY => write!(self.text, "-Inf"),
            Value::Real(value) => write!(self.text, "{value}"),
        };
        self.text.push('\n');
    }
}

/// A metric with all its samples. It is left out if it has none.
#[derive(Debug)]
pub struct Family<'a> {
    page: &'a mut Page,
    kind: Kind,
    name: &'a str,
    help: &'a str,
    begun: bool,
}

impl<'a> Family<'a> {
    fn new(page: &'a mut Page, kind: Kind, name: &'a str, help: &'a str) -> Self {
        Self {
            page,
            kind,
            name,
            help,
            begun: false,
        }
    }

    fn begin(&mut self) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let is_open = self.page.format == Format::OpenMetrics;
        // In OpenMetrics a suffix that the type demands is not part of the name.
        let (name, kind) = match self.kind {
            Kind::Counter if is_open => (self.name.trim_end_matches("_total"), "counter"),
            Kind::Counter => (self.name, "counter"),
            Kind::Gauge => (self.name, "gauge"),
            Kind::Histogram => (self.name, "histogram"),
            Kind::Info if is_open => (self.name.trim_end_matches("_info"), "info"),
            Kind::Info => (self.name, "gauge"),
        };
        let text = &mut self.page.text;
        for part in [
            "# HELP ",
            name,
            " ",
            self.help,
            "\n# TYPE ",
            name,
            " ",
            kind,
        ] {
            text.push_str(part);
        }
        let unit = name.rsplit_once('_').map(|(_, end)| end);
        if let Some(unit) = unit.filter(|unit| is_open && UNITS.contains(unit)) {
            for part in ["\n# UNIT ", name, " ", unit] {
                text.push_str(part);
            }
        }
        text.push('\n');
    }

    /// Adds a sample of a counter or a gauge.
    pub fn add(&mut self, labels: &Labels, value: impl Into<Value>) -> &mut Self {
        self.begin();
        self.page.sample(self.name, labels, value.into());
        self
    }

    /// Adds a sample of a gauge whose value may be unknown.
    pub fn add_known(&mut self, labels: &Labels, value: Option<impl Into<Value>>) -> &mut Self {
        match value {
            Some(value) => self.add(labels, value),
            None => self,
        }
    }

    /// Adds the durations that a module counted. Their sum is not known and therefore absent.
    pub fn add_durations(&mut self, labels: &Labels, durations: &Histogram) -> &mut Self {
        self.begin();
        let bucket = format!("{}_bucket", self.name);
        let mut count = 0u64;
        for (index, in_bucket) in durations.iter().enumerate() {
            count = count.wrapping_add(*in_bucket);
            if (FIRST_BUCKET..=LAST_BUCKET).contains(&index) {
                // The last whole nanosecond that the bucket counts.
                let bound = ((2u64 << index) - 1) as f64 / 1e9;
                let labels = labels.with("le", &bound.to_string());
                self.page.sample(&bucket, &labels, count.into());
            }
        }
        let all = labels.with("le", "+Inf");
        self.page.sample(&bucket, &all, count.into());
        if self.page.format == Format::Text {
            let name = format!("{}_count", self.name);
            self.page.sample(&name, labels, count.into());
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(format: Format) -> String {
        let mut page = Page::new(format);
        let labels = Labels::default().with("name", "a\"b\\c\nd");
        page.info("x_build_info", "Version").add(&labels, true);
        page.counter("x_read_bytes_total", "Read")
            .add(&labels, 7u64)
            .add(&Labels::default(), 8u64);
        page.gauge("x_pressure_ratio", "Pressure")
            .add(&Labels::default(), 0.25);
        page.gauge("x_unknown", "Left out")
            .add_known(&Labels::default(), None::<f64>);
        page.finish()
    }

    #[test]
    fn the_text_format_has_full_names() {
        let wanted = "# HELP x_build_info Version\n# TYPE x_build_info gauge\n\
                      x_build_info{name=\"a\\\"b\\\\c\\nd\"} 1\n\
                      # HELP x_read_bytes_total Read\n# TYPE x_read_bytes_total counter\n\
                      x_read_bytes_total{name=\"a\\\"b\\\\c\\nd\"} 7\nx_read_bytes_total 8\n\
                      # HELP x_pressure_ratio Pressure\n# TYPE x_pressure_ratio gauge\n\
                      x_pressure_ratio 0.25\n";
        assert_eq!(page(Format::Text), wanted);
    }

    #[test]
    fn openmetrics_has_bare_names_units_and_an_end() {
        let wanted = "# HELP x_build Version\n# TYPE x_build info\n\
                      x_build_info{name=\"a\\\"b\\\\c\\nd\"} 1\n\
                      # HELP x_read_bytes Read\n# TYPE x_read_bytes counter\n\
                      # UNIT x_read_bytes bytes\n\
                      x_read_bytes_total{name=\"a\\\"b\\\\c\\nd\"} 7\nx_read_bytes_total 8\n\
                      # HELP x_pressure_ratio Pressure\n# TYPE x_pressure_ratio gauge\n\
                      # UNIT x_pressure_ratio ratio\nx_pressure_ratio 0.25\n# EOF\n";
        assert_eq!(page(Format::OpenMetrics), wanted);
    }

    #[test]
    fn buckets_are_cumulative_and_in_seconds() {
        let mut durations = Histogram::default();
        durations[0] = 1;
        durations[9] = 2;
        durations[31] = 4;
        let write = |format| {
            let mut page = Page::new(format);
            page.histogram("x_seconds", "Time")
                .add_durations(&Labels::default(), &durations);
            page.finish()
        };
        let text = write(Format::Text);
        let buckets: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("x_seconds_bucket"))
            .collect();
        assert_eq!(buckets.len(), 23);
        assert_eq!(buckets[0], "x_seconds_bucket{le=\"0.000000511\"} 1");
        assert_eq!(buckets[1], "x_seconds_bucket{le=\"0.000001023\"} 3");
        assert_eq!(buckets[21], "x_seconds_bucket{le=\"1.073741823\"} 3");
        assert_eq!(buckets[22], "x_seconds_bucket{le=\"+Inf\"} 7");
        assert!(text.ends_with("\nx_seconds_count 7\n"), "{text}");
        let open = write(Format::OpenMetrics);
        assert!(!open.contains("_count") && !open.contains("_sum"), "{open}");
    }

    #[test]
    fn numbers_that_are_not_finite_have_their_names() {
        let mut page = Page::new(Format::Text);
        let none = Labels::default();
        page.gauge("x", "X")
            .add(&none, f64::INFINITY)
            .add(&none, f64::NEG_INFINITY)
            .add(&none, f64::NAN);
        let text = page.finish();
        assert!(text.ends_with("x +Inf\nx -Inf\nx NaN\n"), "{text}");
    }
}
