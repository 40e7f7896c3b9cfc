// SPDX-License-Identifier: GPL-2.0

//! From what an application's page says to the figure that is meant.

use super::exposition::{Found, Metric};
use crate::config::{Kind, Source};
use std::time::Duration;

/// Turns pages into figures; counters need two.
#[derive(Debug)]
pub struct Figures {
    metric: Metric,
    kind: Kind,
    scale: f64,
    /// Which part of a histogram lies below the figure, 0 to 1.
    part: f64,
    last: Option<(Duration, Found)>,
}

/// Pages further apart say nothing about now.
const LONGEST: Duration = Duration::from_secs(300);

impl Figures {
    /// For a source; `percentile` (0 to 100) is taken from histograms.
    pub fn new(source: &Source, percentile: f64) -> Self {
        Self {
            // The file was checked; nothing is found by a metric without a name.
            metric: Metric::parse(&source.metric).unwrap_or_default(),
            kind: source.kind,
            scale: source.scale,
            part: percentile / 100.0,
            last: None,
        }
    }

    /// The figure of a page that was read at a time; `None` if there is none, or none yet.
    pub fn take(&mut self, now: Duration, page: &str) -> Option<f64> {
        let found = self.metric.find(page);
        if self.kind == Kind::Gauge {
            return found
                .largest
                .map(|value| value * self.scale)
                .filter(is_figure);
        }
        let (then, before) = self.last.replace((now, found.clone()))?;
        let time = now.checked_sub(then)?;
        if time.is_zero() || time > LONGEST {
            return None;
        }
        let figure = match self.kind {
            // A counter that fell is that of a new process: it tells from the next page on.
            Kind::Counter => (found.sum? - before.sum?) / time.as_secs_f64(),
            _ => quantile(&before.buckets, &found.buckets, self.part)?,
        };
        Some(figure * self.scale).filter(is_figure)
    }
}

/// What can be a figure at all.
fn is_figure(value: &f64) -> bool {
    value.is_finite() && *value >= 0.0
}

/// The quantile of what was added to cumulative buckets, along straight lines within a bucket as
/// Prometheus does it.
fn quantile(before: &[(f64, f64)], now: &[(f64, f64)], part: f64) -> Option<f64> {
    if before.len() != now.len() {
        return None;
    }
    let added: Vec<(f64, f64)> = before
        .iter()
        .zip(now)
        .map(|(before, now)| (now.0, now.1 - before.1))
        .collect();
    let all = added.last()?.1;
    if all <= 0.0 {
        return None;
    }
    let wanted = all * part;
    let at = added.iter().position(|bucket| bucket.1 >= wanted)?;
    let (low, below) = at.checked_sub(1).map_or((0.0, 0.0), |at| added[at]);
    let (high, upto) = added[at];
    if high.is_infinite() {
        // Beyond the last bound nothing is known but that it is beyond.
        return Some(low);
    }
    let inside = if upto > below {
        (wanted - below) / (upto - below)
    } else {
        1.0
    };
    Some(low + (high - low) * inside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Origin;

    fn figures(metric: &str, kind: Kind, scale: f64) -> Figures {
        let source = Source {
            origin: Origin::File("/x".into()),
            metric: metric.into(),
            kind,
            scale,
            timeout: Duration::from_secs(1),
            every: None,
        };
        Figures::new(&source, 90.0)
    }

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn gauges_are_taken_as_they_are() {
        let mut gauge = figures("", Kind::Gauge, 2.0);
        assert_eq!(gauge.take(at(0), "21\n"), Some(42.0));
        assert_eq!(gauge.take(at(1), "-1\n"), None);
        assert_eq!(gauge.take(at(1), "garbage"), None);
    }

    #[test]
    fn counters_make_rates() {
        let mut counter = figures("a_total", Kind::Counter, 1.0);
        assert_eq!(counter.take(at(0), "a_total 100\n"), None);
        assert_eq!(counter.take(at(5), "a_total 600\n"), Some(100.0));
        assert_eq!(counter.take(at(10), "a_total 10\n"), None);
        assert_eq!(counter.take(at(15), "a_total 20\n"), Some(2.0));
        assert_eq!(counter.take(at(15), "a_total 30\n"), None);
        assert_eq!(counter.take(at(9000), "a_total 40\n"), None);
        assert_eq!(counter.take(at(9001), "other 1\n"), None);
        assert_eq!(counter.take(at(9002), "a_total 50\n"), None);
    }

    #[test]
    fn histograms_make_percentiles() {
        let page = |a: u32, b: u32, c: u32| {
            format!(
                "t_bucket{{le=\"0.1\"}} {a}\nt_bucket{{le=\"0.5\"}} {b}\n\
                 t_bucket{{le=\"+Inf\"}} {c}\n"
            )
        };
        let mut histogram = figures("t_bucket", Kind::Histogram, 1000.0);
        assert_eq!(histogram.take(at(0), &page(1000, 1000, 1000)), None);
        // Of 100 new ones 80 are below 0.1, 20 between 0.1 and 0.5: the 90th lies halfway.
        let figure = histogram.take(at(5), &page(1080, 1100, 1100)).unwrap();
        assert!((figure - 300.0).abs() < 1e-6, "{figure}");
        assert_eq!(histogram.take(at(10), &page(1080, 1100, 1100)), None);
        assert_eq!(histogram.take(at(15), &page(1080, 1100, 1200)), Some(500.0));
    }
}
