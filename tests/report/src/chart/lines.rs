// SPDX-License-Identifier: GPL-2.0-only

//! Curves over a quantity.

use maud::{Markup, html};

use super::{
    WIDTH,
    label::LINE,
    legend::Legend,
    palette::{GRID, INK, colour},
    panel::line,
    scale::{self, Scale},
    titled,
};

const LEFT: f64 = 52.0;
/// Half of the last tick of the axis, of four letters, is right of it.
const RIGHT: f64 = WIDTH - 20.0;
const HEIGHT: f64 = 190.0;
const FOOT: f64 = 44.0;

/// The points of a curve, from left to right.
pub type Points = Vec<(f64, f64)>;

/// A named curve.
pub type Line = (String, Points);

/// Curves with a title.
#[derive(Clone, Debug)]
pub struct Lines {
    /// Title.
    pub title: String,
    /// Label of the horizontal axis.
    pub x: &'static str,
    /// Label of the vertical axis.
    pub y: &'static str,
    /// The curves.
    pub lines: Vec<Line>,
}

impl Lines {
    /// Draws the curves.
    pub fn svg(&self) -> Markup {
        let most = |pick: fn(&(f64, f64)) -> f64| {
            let values = self
                .lines
                .iter()
                .flat_map(|(_, points)| points.iter().map(pick));
            values.fold(f64::MIN_POSITIVE, f64::max)
        };
        let (width, height) = (most(|point| point.0), scale::ceiling(most(|point| point.1)));
        let names = self.lines.iter().enumerate();
        let names = names.map(|(number, (name, _))| (name.as_str(), colour(number)));
        let legend = Legend::new(names, 8.0);
        let top = legend.height() + LINE + 12.0;
        let bottom = top + HEIGHT;
        let across = Scale::new((0.0, width), (LEFT, RIGHT));
        let up = Scale::new((0.0, height), (bottom, top));
        let content = html! {
            (legend.draw(0.0))
            text x="8" y=(top - 15.0) fill=(INK) { (self.y) }
            @for tick in scale::ticks(height, 4) {
                @let y = up.at(tick);
                line x1=(LEFT) x2=(RIGHT) y1=(y) y2=(y) stroke=(GRID) {}
                text x=(LEFT - 8.0) y=(y + 4.0) text-anchor="end" fill=(INK) {
                    (scale::number(tick))
                }
            }
            line x1=(LEFT) x2=(RIGHT) y1=(bottom) y2=(bottom) stroke=(INK) {}
            @for tick in scale::ticks(width, 5) {
                @let x = across.at(tick);
                line x1=(x) x2=(x) y1=(bottom) y2=(bottom + 5.0) stroke=(INK) {}
                text x=(x) y=(bottom + 19.0) text-anchor="middle" fill=(INK) {
                    (scale::number(tick))
                }
            }
            text x=((LEFT + RIGHT) / 2.0) y=(bottom + 38.0) text-anchor="middle" fill=(INK) {
                (self.x)
            }
            @for (number, (_, points)) in self.lines.iter().enumerate() {
                @let places: Vec<_> = points.iter().map(|(x, y)| (across.at(*x), up.at(*y))).collect();
                path d=(line(&places)) fill="none" stroke=(colour(number)) stroke-width="2"
                    stroke-linejoin="round" {}
            }
        };
        titled(&self.title, bottom + FOOT, &content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_curve_has_a_name() {
        let lines = Lines {
            title: "hits".into(),
            x: "MiB",
            y: "%",
            lines: vec![
                ("ours".to_owned(), vec![(0.0, 1.0), (10.0, 3.0)]),
                ("a & b".to_owned(), vec![(0.0, 2.0), (5.0, 1.0)]),
            ],
        };
        let text = lines.svg().into_string();
        assert_eq!(text.matches("<path").count(), 2);
        assert!(text.contains(">a &amp; b</text>"));
        assert!(!text.contains("NaN") && !text.contains("inf"));
    }
}
