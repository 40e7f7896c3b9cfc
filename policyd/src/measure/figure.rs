// SPDX-License-Identifier: GPL-2.0-only

//! Computes figures from the values on applications' pages.

use super::exposition::{Found, Metric, Search};
use crate::config::{Kind, Source};
use std::{collections::BTreeMap, time::Duration};

/// Turns pages into figures. Counters need two pages.
#[derive(Debug)]
pub struct Figures {
    metric: Metric,
    kind: Kind,
    scale: f64,
    /// The quantile that is taken of a histogram, 0 to 1.
    part: f64,
    /// The upper limit of the figure, if the target has one.
    target: Option<f64>,
    last: Option<(Duration, Found)>,
}

/// The longest time between two pages of which a rate is computed.
const MAX_INTERVAL: Duration = Duration::from_secs(300);

impl Figures {
    /// Creates the state for a source. `percentile` (0 to 100) is taken from histograms.
    pub fn new(source: &Source, percentile: f64) -> Self {
        Self {
            // The metric is valid, because the file was checked. A metric without a name finds no
            // value.
            metric: Metric::parse(&source.metric).unwrap_or_default(),
            kind: source.kind,
            scale: source.scale,
            part: percentile / 100.0,
            target: None,
            last: None,
        }
    }

    /// Adds a target. If it lies beyond the last bound of a histogram, the histogram cannot show
    /// that it is met.
    #[must_use]
    pub fn with_target(self, target: Option<f64>) -> Self {
        Self { target, ..self }
    }

    /// Returns a search for the metric in a page that arrives in pieces.
    pub fn search(&self) -> Search {
        Search::new(&self.metric)
    }

    /// Returns the figure of a page that was read at `now`; `None` if there is none, or none yet.
    pub fn take(&mut self, now: Duration, page: &str) -> Option<f64> {
        let found = self.metric.find(page);
        self.take_found(now, found)
    }

    /// Returns the figure of the values of a page that was read at `now`.
    pub fn take_found(&mut self, now: Duration, found: Found) -> Option<f64> {
        if self.kind == Kind::Gauge {
            return found
                .largest
                .map(|value| value * self.scale)
                .filter(is_figure);
        }
        let (then, before) = self.last.replace((now, found.clone()))?;
        let time = now.checked_sub(then)?;
        if time.is_zero() || time > MAX_INTERVAL {
            return None;
        }
        let added = added(&before, &found);
        let figure = match self.kind {
            Kind::Counter => {
                let values = added.iter().flatten().map(|(_, value)| value);
                (!added.is_empty()).then(|| values.sum::<f64>() / time.as_secs_f64())?
            }
            _ => {
                let beyond = |low: f64| self.target.is_some_and(|it| it >= low * self.scale);
                match quantile(&by_bound(&added), self.part)? {
                    // The quantile may be far above, so that it is not known whether a target there
                    // is met.
                    Quantile::Above(low) if beyond(low) => return None,
                    Quantile::At(value) | Quantile::Above(value) => value,
                }
            }
        };
        Some(figure * self.scale).filter(is_figure)
    }
}

/// The values of a series, with upper bounds if it is that of a histogram.
type Values = Vec<(Option<f64>, f64)>;

/// Returns the increase of each series that both pages have. A series that fell is that of a new
/// process. A series that is new, or fell, is used from the next page on, because its value is the
/// sum over its whole life.
fn added(before: &Found, now: &Found) -> Vec<Values> {
    let series = now.series.iter().filter_map(|(series, now)| {
        let before = before.series.get(series)?;
        if before.len() != now.len() {
            return None;
        }
        let pairs = before.iter().zip(now);
        let added: Values = pairs
            .map(|(before, now)| (now.0, now.1 - before.1))
            .collect();
        added
            .iter()
            .all(|(_, added)| *added >= 0.0)
            .then_some(added)
    });
    series.collect()
}

/// Returns the sums of buckets, sorted by their bounds.
fn by_bound(added: &[Values]) -> Vec<(f64, f64)> {
    let mut sums: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for (bound, added) in added.iter().flatten() {
        if let Some(bound) = bound {
            sums.entry(bound.to_bits()).or_insert((*bound, 0.0)).1 += added;
        }
    }
    let mut sums: Vec<(f64, f64)> = sums.into_values().collect();
    sums.sort_by(|a, b| a.0.total_cmp(&b.0));
    sums
}

/// Returns whether a value can be a figure: finite, and not negative.
fn is_figure(value: &f64) -> bool {
    value.is_finite() && *value >= 0.0
}

/// The position of a quantile.
enum Quantile {
    /// About this value.
    At(f64),
    /// Above the last bound, which is given.
    Above(f64),
}

/// Returns the quantile of cumulative buckets. It is interpolated linearly within a bucket, as
/// Prometheus does.
fn quantile(added: &[(f64, f64)], part: f64) -> Option<Quantile> {
    let all = added.last()?.1;
    if all <= 0.0 {
        return None;
    }
    let wanted = all * part;
    let at = added.iter().position(|bucket| bucket.1 >= wanted)?;
    let (low, below) = at.checked_sub(1).map_or((0.0, 0.0), |at| added[at]);
    let (high, upto) = added[at];
    if high.is_infinite() {
        return Some(Quantile::Above(low));
    }
    let inside = if upto > below {
        (wanted - below) / (upto - below)
    } else {
        1.0
    };
    Some(Quantile::At(low + (high - low) * inside))
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
        // Of 100 new values, 80 are below 0.1 and 20 between 0.1 and 0.5: the 90th is halfway.
        let figure = histogram.take(at(5), &page(1080, 1100, 1100)).unwrap();
        assert!((figure - 300.0).abs() < 1e-6, "{figure}");
        assert_eq!(histogram.take(at(10), &page(1080, 1100, 1100)), None);
        assert_eq!(histogram.take(at(15), &page(1080, 1100, 1200)), Some(500.0));
    }

    /// One page lacks a series that the others have.
    #[test]
    fn series_are_rated_each_by_itself() {
        let mut counter = figures("a_total", Kind::Counter, 1.0);
        let page =
            |one: u32, two: u32| format!("a_total{{x=\"1\"}} {one}\na_total{{x=\"2\"}} {two}\n");
        assert_eq!(counter.take(at(0), &page(1000, 50)), None);
        assert_eq!(counter.take(at(5), "a_total{x=\"2\"} 60\n"), Some(2.0));
        assert_eq!(counter.take(at(10), &page(1010, 70)), Some(2.0));
        assert_eq!(counter.take(at(15), &page(1020, 80)), Some(4.0));
        // One of several processes starts again.
        assert_eq!(counter.take(at(20), &page(3, 100)), Some(4.0));
        let mut histogram = figures("t_bucket", Kind::Histogram, 1.0);
        let page = |one: u32, two: u32| {
            format!(
                "t_bucket{{le=\"1\",x=\"1\"}} {one}\nt_bucket{{le=\"+Inf\",x=\"1\"}} {one}\n\
                 t_bucket{{le=\"1\",x=\"2\"}} 0\nt_bucket{{le=\"+Inf\",x=\"2\"}} {two}\n"
            )
        };
        assert_eq!(histogram.take(at(0), &page(0, 5000)), None);
        assert_eq!(histogram.take(at(5), &page(100, 3)), Some(0.9));
    }

    /// It is not known whether a target beyond the last bound is met.
    #[test]
    fn values_beyond_the_last_bound_are_unknown() {
        let page =
            |count: u32| format!("t_bucket{{le=\"0.5\"}} 0\nt_bucket{{le=\"+Inf\"}} {count}\n");
        for (target, figure) in [(400.0, Some(500.0)), (500.0, None), (700.0, None)] {
            let histogram = figures("t_bucket", Kind::Histogram, 1000.0);
            let mut histogram = histogram.with_target(Some(target));
            assert_eq!(histogram.take(at(0), &page(0)), None);
            assert_eq!(histogram.take(at(5), &page(10)), figure, "{target}");
        }
    }
}
