// SPDX-License-Identifier: GPL-2.0-only

//! The series that the dashboard shows of a run, for its picture in the book.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use serde::Serialize;

use super::{
    dashboard::{Query, dashboard},
    prometheus::{Labels, Prometheus},
};

/// Seconds between two points, as between two scrapes.
const STEP_S: u32 = 5;
/// What Grafana takes as the range of a rate at this interval.
const WINDOW: &str = "20s";
/// Alerts that fired since the point before, because each of them ends soon after it was seen.
const FIRING: &str = "max_over_time(ALERTS{alertstate=\"firing\"}[5s])";

/// Series by the titles of their panels, and alerts that fired.
#[derive(Debug, Serialize)]
struct Recorded<'a> {
    kernel: &'a str,
    date: String,
    step_s: u32,
    panels: BTreeMap<String, Vec<Curve>>,
    alerts: Vec<Curve>,
}

/// A series: its name in the legend, and its points.
#[derive(Debug, Serialize)]
struct Curve {
    name: String,
    /// The seconds since the beginning, and the value, which is null if it is not a number.
    points: Vec<(f64, f64)>,
}

/// The part of a run that is recorded.
pub(super) struct Run<'a> {
    pub(super) kernel: &'a str,
    pub(super) start: SystemTime,
    pub(super) end: SystemTime,
}

/// Writes what the dashboard shows of a run.
pub(super) fn write(prometheus: &Prometheus, run: &Run<'_>, path: &Path) -> Result<()> {
    let Run { kernel, start, end } = *run;
    let second = |time: SystemTime| time.duration_since(UNIX_EPOCH).map(|age| age.as_secs());
    let (from, to) = (second(start)?, second(end)?);
    let curves = |expression: &str, legend: &str| -> Result<Vec<Curve>> {
        let series = prometheus.range(expression, (from, to), STEP_S)?;
        let curves = series.into_iter().map(|(labels, points)| Curve {
            name: named(legend, &labels),
            points: points
                .into_iter()
                .map(|(at, value)| (at - from as f64, rounded(value)))
                .collect(),
        });
        Ok(curves.collect())
    };
    let mut panels = BTreeMap::<_, Vec<_>>::new();
    for query in dashboard(WINDOW)? {
        let Query {
            panel,
            expression,
            legend,
        } = query;
        let found = curves(&expression, &legend)?;
        panels.entry(panel).or_default().extend(found);
    }
    let date = humantime::format_rfc3339_seconds(start).to_string();
    let recorded = Recorded {
        kernel,
        date: date.chars().take(10).collect(),
        step_s: STEP_S,
        panels,
        alerts: curves(FIRING, "{{alertname}}")?,
    };
    Ok(fs::write(path, serde_json::to_string(&recorded)? + "\n")?)
}

/// Returns a legend with the values of labels in the places of their names.
fn named(legend: &str, labels: &Labels) -> String {
    let put = |name: String, (label, value): (&String, &String)| {
        name.replace(&format!("{{{{{label}}}}}"), value)
    };
    labels.iter().fold(legend.to_owned(), put)
}

/// Returns a value with the digits that a picture shows.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legends_have_values_of_labels() {
        let labels = [("vm_name", "one"), ("container", "shop")];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let name = named("{{vm_name}}/{{container}}", &Labels::from(labels));
        assert_eq!(name, "one/shop");
        assert_eq!(rounded(123_456.0), 123_500.0);
        assert!(rounded(f64::NAN).is_nan());
    }
}
