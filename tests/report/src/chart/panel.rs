// SPDX-License-Identifier: GPL-2.0-only

//! One panel of a timeline: curves over time.

use maud::{Markup, html};

use super::{
    WIDTH,
    label::{LINE, width, wrapped_bold},
    legend::Legend,
    palette::{GRID, INK},
    scale::{self, Scale},
};

/// Curves with one vertical axis.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Title with the unit.
    pub title: String,
    /// Height of the axis.
    pub height: f64,
    /// Top of the axis; the largest value if `None`.
    pub max: Option<f64>,
    /// The curves.
    pub series: Vec<Series>,
    /// Whether the curves are named above the panel.
    pub labels: bool,
}

/// A curve, whose parts are not connected.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name, or nothing.
    pub label: String,
    /// Its colour.
    pub colour: &'static str,
    /// How it is drawn.
    pub style: Style,
    /// Its points.
    pub parts: Vec<Vec<(f64, f64)>>,
}

/// The style of a curve.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Style {
    /// A line above a tinted area.
    Area,
    /// A line.
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

/// Height between the title or the names of the curves and the top of the axis, whose number is
/// beside it.
const ABOVE: f64 = 12.0;
/// Room beside titles and names.
const EDGE: f64 = 8.0;
/// Distance of a number from the axis.
const BESIDE: f64 = 8.0;

impl Panel {
    fn top_value(&self) -> f64 {
        let parts = self.series.iter().flat_map(|series| &series.parts);
        let values = parts.flatten().map(|&(_, value)| value);
        self.max
            .unwrap_or_else(|| scale::ceiling(values.fold(0.0, f64::max) * 1.02))
            .max(f64::MIN_POSITIVE)
    }

    /// Returns the lines of the title.
    fn title(&self) -> Vec<String> {
        wrapped_bold(&self.title, WIDTH - 2.0 * EDGE)
    }

    /// Returns the values that have a number beside the axis.
    fn ticks(&self) -> Vec<f64> {
        let count = if self.height < 100.0 { 2 } else { 4 };
        scale::ticks(self.top_value(), count)
    }

    /// Returns the room that the numbers left of the axis need.
    pub(super) fn left(&self) -> f64 {
        let ticks = self.ticks().into_iter();
        let widths = ticks.map(|tick| width(&scale::number(tick)));
        widths.fold(0.0, f64::max) + BESIDE
    }

    /// Returns the names of the curves.
    fn legend(&self) -> Legend<'_> {
        let named = self
            .series
            .iter()
            .filter(|one| self.labels && !one.label.is_empty());
        Legend::new(named.map(|one| (one.label.as_str(), one.colour)), EDGE)
    }

    /// Returns the height above the axis, for the title and the names of the curves.
    pub(super) fn head(&self) -> f64 {
        LINE * self.title().len() as f64 + ABOVE + self.legend().height()
    }

    /// Draws the panel. The axis begins at the frame's top.
    pub(super) fn draw(&self, frame: &Frame) -> Markup {
        let legend = self.legend();
        let upper = frame.top - ABOVE - legend.height();
        let title = self.title();
        let first = upper - 4.0 - LINE * (title.len() - 1) as f64;
        let bottom = frame.top + self.height;
        let most = self.top_value();
        let values = Scale::new((0.0, most), (bottom, frame.top));
        html! {
            @for (number, line) in title.iter().enumerate() {
                text.outlined x=(EDGE) y=(first + LINE * number as f64) font-weight="600"
                    fill=(INK) { (line) }
            }
            (legend.draw(upper))
            @for tick in self.ticks() {
                @let y = values.at(tick);
                line x1=(frame.left) x2=(frame.right) y1=(y) y2=(y) stroke=(GRID) {}
                text x=(frame.left - BESIDE) y=(y + 4.0) text-anchor="end" fill=(INK) {
                    (scale::number(tick))
                }
            }
            @for series in &self.series {
                @for part in series.parts.iter().filter(|part| part.len() > 1) {
                    (series.draw(part, frame, &values, bottom))
                }
            }
        }
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

/// Returns a path of straight lines.
pub(super) fn line(places: &[(f64, f64)]) -> String {
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
}
