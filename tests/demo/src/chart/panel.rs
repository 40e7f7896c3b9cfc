// SPDX-License-Identifier: GPL-2.0-only

//! One panel of a timeline: curves over time.

use maud::{Markup, html};

use super::{
    palette::{GRID, INK},
    scale::{self, Scale},
};

/// Curves with one vertical axis.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    /// Title with the unit.
    pub(crate) title: String,
    pub(crate) height: f64,
    /// Top of the axis; the largest value if `None`.
    pub(crate) most: Option<f64>,
    pub(crate) series: Vec<Series>,
    /// Whether the curves are labelled at their ends.
    pub(crate) labels: bool,
}

/// A curve, whose parts are not connected.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) label: String,
    pub(crate) colour: &'static str,
    pub(crate) style: Style,
    pub(crate) parts: Vec<Vec<(f64, f64)>>,
}

/// The style of a curve.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Style {
    /// A line above a tinted area.
    Area,
    Line,
    /// Dashed steps, for target values.
    Steps,
}

/// The position of a panel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) time: Scale,
}

impl Panel {
    fn top_value(&self) -> f64 {
        let parts = self.series.iter().flat_map(|series| &series.parts);
        let values = parts.flatten().map(|&(_, value)| value);
        self.most
            .unwrap_or_else(|| scale::ceiling(values.fold(0.0, f64::max) * 1.02))
            .max(f64::MIN_POSITIVE)
    }

    pub(super) fn draw(&self, frame: &Frame) -> Markup {
        let bottom = frame.top + self.height;
        let most = self.top_value();
        let values = Scale::new((0.0, most), (bottom, frame.top));
        let count = if self.height < 100.0 { 2 } else { 4 };
        html! {
            text x=(frame.left) y=(frame.top - 8.0) font-weight="600" fill=(INK) { (self.title) }
            @for tick in scale::ticks(most, count) {
                @let y = values.at(tick);
                line x1=(frame.left) x2=(frame.right) y1=(y) y2=(y) stroke=(GRID) {}
                text x=(frame.left - 8.0) y=(y + 4.0) text-anchor="end" fill=(INK) {
                    (scale::number(tick))
                }
            }
            @for series in &self.series {
                @for part in series.parts.iter().filter(|part| part.len() > 1) {
                    (series.draw(part, frame, &values, bottom))
                }
            }
            @if self.labels {
                @for (y, series) in self.labelled(&values, frame.top, bottom) {
                    text x=(frame.right + 8.0) y=(y + 4.0) fill=(series.colour) font-weight="600" {
                        (series.label)
                    }
                }
            }
        }
    }

    /// Returns the positions of the labels, at the ends of their curves and without overlap.
    fn labelled(&self, values: &Scale, top: f64, bottom: f64) -> Vec<(f64, &Series)> {
        const APART: f64 = 16.0;
        let mut labels: Vec<(f64, &Series)> = self
            .series
            .iter()
            .filter(|series| !series.label.is_empty())
            .filter_map(|series| {
                let end = series.parts.iter().rev().find_map(|part| part.last())?;
                Some((values.at(end.1), series))
            })
            .collect();
        labels.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut lowest = top - APART;
        for (y, _) in &mut labels {
            *y = y.max(lowest + APART);
            lowest = *y;
        }
        let mut highest = bottom + APART;
        for (y, _) in labels.iter_mut().rev() {
            *y = y.min(highest - APART);
            highest = *y;
        }
        labels
    }
}

impl Series {
    fn draw(&self, part: &[(f64, f64)], frame: &Frame, values: &Scale, bottom: f64) -> Markup {
        let place = |&(time, value): &(f64, f64)| (frame.time.at(time), values.at(value));
        let places: Vec<(f64, f64)> = part.iter().map(place).collect();
        let (first, last) = (places[0].0, places[places.len() - 1].0);
        html! {
            @match self.style {
                Style::Area => {
                    path d={ (line(&places)) "L" (last) "," (bottom) "L" (first) "," (bottom) "Z" }
                        fill=(self.colour) fill-opacity="0.18" {}
                    path d=(line(&places)) fill="none" stroke=(self.colour) stroke-width="2"
                        stroke-linejoin="round" {}
                }
                Style::Line => {
                    path d=(line(&places)) fill="none" stroke=(self.colour) stroke-width="2"
                        stroke-linejoin="round" {}
                }
                Style::Steps => {
                    path d=(steps(&places)) fill="none" stroke=(self.colour) stroke-width="1.5"
                        stroke-dasharray="5 4" {}
                }
            }
        }
    }
}

fn line(places: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (number, (x, y)) in places.iter().enumerate() {
        let verb = if number == 0 { 'M' } else { 'L' };
        path.push_str(&format!("{verb}{x},{y}"));
    }
    path
}

/// Returns steps, in which a value holds until the next one.
fn steps(places: &[(f64, f64)]) -> String {
    let mut path = format!("M{},{}", places[0].0, places[0].1);
    for pair in places.windows(2) {
        if pair[0].1 != pair[1].1 {
            path.push_str(&format!("H{}V{}", pair[1].0, pair[1].1));
        }
    }
    path.push_str(&format!("H{}", places[places.len() - 1].0));
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_keep_their_level() {
        let places = [(0.0, 5.0), (1.0, 5.0), (2.0, 3.0), (3.0, 3.0)];
        assert_eq!(steps(&places), "M0,5H2V3H3");
        assert_eq!(line(&places[..2]), "M0,5L1,5");
    }

    #[test]
    fn labels_keep_apart_inside_the_panel() {
        let series = |end: f64| Series {
            label: "x".to_owned(),
            colour: "#000000",
            style: Style::Line,
            parts: vec![vec![(0.0, 0.0), (1.0, end)]],
        };
        let panel = Panel {
            title: String::new(),
            height: 100.0,
            most: Some(100.0),
            series: vec![series(1.0), series(2.0), series(0.0)],
            labels: true,
        };
        let values = Scale::new((0.0, 100.0), (100.0, 0.0));
        let places: Vec<f64> = panel
            .labelled(&values, 0.0, 100.0)
            .iter()
            .map(|label| label.0)
            .collect();
        assert_eq!(places, [68.0, 84.0, 100.0]);
    }
}
