// SPDX-License-Identifier: GPL-2.0-only

//! Draws the dashboard for Grafana as Grafana arranges it, with the series that Prometheus answered
//! in a run of the scenario `monitoring`, which writes them as `dashboard.json`.

use std::{collections::BTreeMap, fs};

use ddreport::{
    chart::{self, Tile},
    picture,
};
use maud::html;
use serde::Deserialize;

const DASHBOARD: &str = include_str!("../../../packaging/monitoring/doubledecker.json");
/// `dashboard.json` of a run.
const RECORDED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/results/dashboard.json"
);

/// Width and height of a cell of the grid, which has 24 columns.
const CELL: (f64, f64) = (41.0, 26.0);
const COLUMNS: f64 = 24.0;
const GAP: f64 = 8.0;
/// Height of the title.
const HEAD: f64 = 40.0;

#[derive(Deserialize)]
struct Dashboard {
    title: String,
    panels: Vec<Panel>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Panel {
    title: String,
    r#type: String,
    grid_pos: Place,
    #[serde(default)]
    field_config: FieldConfig,
}

#[derive(Deserialize)]
struct Place {
    x: f64,
    y: f64,
    w: f64,
    h: f64,
}

#[derive(Default, Deserialize)]
struct FieldConfig {
    defaults: Defaults,
    overrides: Vec<Override>,
}

#[derive(Default, Deserialize)]
struct Defaults {
    unit: String,
    max: Option<f64>,
    #[serde(default)]
    thresholds: Thresholds,
}

/// Colours of values, each from a value on; the first one has none.
#[derive(Default, Deserialize)]
struct Thresholds {
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    color: String,
    value: Option<f64>,
}

/// The colour of the curves whose names a regular expression describes.
#[derive(Deserialize)]
struct Override {
    matcher: Matcher,
    properties: Vec<Property>,
}

#[derive(Deserialize)]
struct Matcher {
    options: String,
}

#[derive(Deserialize)]
struct Property {
    value: FixedColor,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FixedColor {
    fixed_color: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recorded {
    kernel: String,
    date: String,
    step_s: f64,
    panels: BTreeMap<String, Vec<Curve>>,
    alerts: Vec<Curve>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Curve {
    name: String,
    points: Vec<(f64, Option<f64>)>,
}

/// Returns the factor and the name of a unit of Grafana, for values up to `largest`.
fn unit(name: &str, largest: f64) -> (f64, &'static str) {
    let binary = |names: [&'static str; 3]| match largest {
        largest if largest >= f64::from(1 << 30) => (1.0 / f64::from(1 << 30), names[2]),
        largest if largest >= f64::from(1 << 20) => (1.0 / f64::from(1 << 20), names[1]),
        _ => (1.0 / 1024.0, names[0]),
    };
    match name {
        "bytes" => binary([" (KiB)", " (MiB)", " (GiB)"]),
        "Bps" => binary([" (KiB/s)", " (MiB/s)", " (GiB/s)"]),
        "ops" => (1.0, " (1/s)"),
        "percentunit" => (100.0, " (%)"),
        "s" if largest < 1e-3 => (1e6, " (µs)"),
        "s" if largest < 1.0 => (1e3, " (ms)"),
        "s" => (1.0, " (s)"),
        "none" => (1.0, ""),
        other => panic!("there is no unit {other}"),
    }
}

impl Curve {
    /// Returns its connected points, whose values are multiplied.
    fn parts(&self, factor: f64, step_s: f64) -> Vec<Vec<(f64, f64)>> {
        let points = self.points.iter();
        let points = points.filter_map(|(at, value)| Some((*at, (*value)? * factor)));
        let points: Vec<_> = points.collect();
        let parts = points.chunk_by(|one, next| next.0 - one.0 < step_s * 1.5);
        parts.map(<[_]>::to_vec).collect()
    }
}

impl FieldConfig {
    /// Returns the colour behind the last value of a curve. The expressions of the dashboard are
    /// the ends of names.
    fn behind(&self, curve: &Curve) -> &'static str {
        let end = |one: &Override| {
            let end = one.matcher.options.trim_matches('/').strip_suffix('$');
            curve
                .name
                .ends_with(end.expect("an expression for the end"))
        };
        let last = curve.points.iter().rev().find_map(|point| point.1);
        let mut steps = self.defaults.thresholds.steps.iter();
        let step = steps.rfind(|step| step.value.is_none_or(|from| last >= Some(from)));
        let mut overrides = self.overrides.iter().filter(|one| end(one));
        let color = match overrides.next() {
            Some(one) => one.properties[0].value.fixed_color.as_str(),
            None => step.map_or("green", |step| step.color.as_str()),
        };
        match color {
            "green" => "#00734f",
            "orange" => "#a84a00",
            "red" => "#b3261e",
            other => panic!("there is no colour {other}"),
        }
    }
}

impl Panel {
    fn tile(&self, recorded: &Recorded, seconds: f64) -> Tile {
        let curves = &recorded.panels[&self.title];
        let values = curves.iter().flat_map(|one| &one.points);
        let most = values.filter_map(|(_, value)| *value).fold(0.0, f64::max);
        let Defaults {
            unit: name, max, ..
        } = &self.field_config.defaults;
        let (factor, unit) = unit(name, max.unwrap_or(most));
        let behind = curves.iter().map(|one| self.field_config.behind(one));
        let behind = behind.collect();
        let curves = curves.iter();
        let curves = curves.map(|one| (one.name.clone(), one.parts(factor, recorded.step_s)));
        Tile {
            title: format!("{}{unit}", self.title),
            seconds,
            max: max.map(|most| most * factor),
            last: self.r#type == "stat",
            curves: curves.collect(),
            behind,
        }
    }
}

/// Draws the dashboard, and the alerts that fired below it.
fn draw(dashboard: &Dashboard, recorded: &Recorded) -> String {
    let all = recorded.panels.values().flatten().chain(&recorded.alerts);
    let times = all.flat_map(|curve| &curve.points).map(|point| point.0);
    let seconds = times.fold(0.0, f64::max);
    let ends = dashboard
        .panels
        .iter()
        .map(|one| one.grid_pos.y + one.grid_pos.h);
    let bottom = HEAD + ends.fold(0.0, f64::max) * CELL.1 + 2.0 * GAP;
    let width = COLUMNS * CELL.0 + GAP;
    let about = format!(
        "The dashboard {} for Grafana, with the series of a run of the scenario monitoring on \
         {} (kernel {})",
        dashboard.title, recorded.date, recorded.kernel
    );
    let content = html! {
        text x=(GAP) y="26" font-size="18" font-weight="600" fill="#222222" { (dashboard.title) }
        @for panel in &dashboard.panels {
            @let Place { x, y, w, h } = panel.grid_pos;
            @let place = (GAP + x * CELL.0, HEAD + y * CELL.1);
            @if panel.r#type == "row" {
                text x=(place.0) y=(place.1 + 18.0) font-size="15" font-weight="600"
                    fill="#222222" { (panel.title) }
            } @else {
                (panel.tile(recorded, seconds).draw(place, (w * CELL.0 - GAP, h * CELL.1 - GAP)))
            }
        }
        text x=(GAP) y=(bottom + 14.0) font-size="15" font-weight="600" fill="#222222" {
            "Alerts that fired"
        }
        @for (number, alert) in recorded.alerts.iter().enumerate() {
            @let y = bottom + 24.0 + 22.0 * number as f64;
            text x=(GAP) y=(y + 13.0) fill="#222222" { (alert.name) }
            @for part in alert.parts(1.0, recorded.step_s) {
                @let from = part[0].0 / seconds * (width - 390.0);
                @let to = (part[part.len() - 1].0 + recorded.step_s) / seconds * (width - 390.0);
                rect x=(round(280.0 + from)) y=(y) width=(round(to - from)) height="16"
                    fill="#d55e00" {}
                text x=(round(286.0 + to)) y=(y + 13.0) fill="#222222" { "from " (part[0].0) " s" }
            }
        }
    };
    let height = bottom + 24.0 + 22.0 * recorded.alerts.len() as f64 + GAP;
    chart::file(&about, (width, height), &content)
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Returns a series for each panel, with a gap.
fn invented(dashboard: &Dashboard) -> Recorded {
    let curve = |name: &str| Curve {
        name: name.to_owned(),
        points: vec![
            (0.0, Some(0.5)),
            (5.0, Some(2.0)),
            (10.0, None),
            (15.0, Some(1.0)),
        ],
    };
    let panels = dashboard
        .panels
        .iter()
        .filter(|panel| panel.r#type != "row");
    let names = [
        "can be spared l1",
        "too slow /dev/mapper/cache",
        "capacity l1",
        "floor",
    ];
    let curves = |panel: &Panel| (panel.title.clone(), names.map(curve).into());
    Recorded {
        kernel: "7.2.12".to_owned(),
        date: "2026-01-01".to_owned(),
        step_s: 5.0,
        panels: panels.map(curves).collect(),
        alerts: vec![curve("DoubleDeckerDeviceFailed")],
    }
}

#[test]
fn all_panels_are_drawn() {
    let dashboard: Dashboard = serde_json::from_str(DASHBOARD).unwrap();
    let svg = draw(&dashboard, &invented(&dashboard));
    for panel in &dashboard.panels {
        assert!(
            svg.contains(&format!(">{}", panel.title)),
            "{}",
            panel.title
        );
    }
    assert!(svg.contains("from 15 s") && !svg.contains("NaN") && !svg.contains("inf"));
    let panels = dashboard
        .panels
        .iter()
        .filter(|one| one.r#type == "timeseries");
    // Two parts of each of four curves.
    assert_eq!(svg.matches("<path").count(), panels.count() * 8);
}

#[test]
fn the_picture_shows_a_run() {
    let dashboard: Dashboard = serde_json::from_str(DASHBOARD).unwrap();
    let recorded = fs::read_to_string(RECORDED).expect("a run was recorded");
    let recorded: Recorded = serde_json::from_str(&recorded).unwrap();
    picture::assert("dashboard.svg", &draw(&dashboard, &recorded));
}
