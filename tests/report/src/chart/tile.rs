// SPDX-License-Identifier: GPL-2.0-only

//! A panel of a dashboard, in a rectangle of any size.

use maud::{Markup, html};

use super::{
    label::LINE,
    legend::Legend,
    palette::{GREY, GRID, INK, colour},
    panel::line,
    scale::{self, Scale},
};

/// Left of the axis, for its numbers; around everything else.
const LEFT: f64 = 58.0;
const EDGE: f64 = 10.0;

/// Connected points of a curve: times and values.
type Part = Vec<(f64, f64)>;

/// Curves over time, or last values, with a title.
#[derive(Clone, Debug)]
pub struct Tile {
    /// Title, with the unit.
    pub title: String,
    /// Length of the time axis, in seconds.
    pub seconds: f64,
    /// Top of the axis; the largest value if `None`.
    pub max: Option<f64>,
    /// Whether only the last values are shown.
    pub last: bool,
    /// Names of the curves, with their points. Parts of a curve are not connected.
    pub curves: Vec<(String, Vec<Part>)>,
    /// For each last value, the colour behind it, which is dark.
    pub behind: Vec<&'static str>,
}

impl Tile {
    /// Draws it with its left upper corner at (`x`, `y`).
    pub fn draw(&self, (x, y): (f64, f64), (width, height): (f64, f64)) -> Markup {
        let points = self.curves.iter().flat_map(|(_, parts)| parts.iter());
        html! {
            g transform={ "translate(" (x) " " (y) ")" } {
                rect width=(width) height=(height) rx="4" fill="none" stroke=(GRID) {}
                text x=(EDGE) y="20" font-weight="600" fill=(INK) { (self.title) }
                @if points.flatten().next().is_none() {
                    text x=(width / 2.0) y=(height / 2.0) text-anchor="middle" fill=(GREY) {
                        "No data"
                    }
                } @else if self.last {
                    (self.values(width))
                } @else {
                    (self.curves(width, height))
                }
            }
        }
    }

    fn values(&self, width: f64) -> Markup {
        let last = |parts: &Vec<Part>| Some(parts.last()?.last()?.1);
        html! {
            @for (number, (name, parts)) in self.curves.iter().enumerate() {
                @let top = 32.0 + 44.0 * number as f64;
                rect x=(EDGE) y=(top) width=(width - 2.0 * EDGE) height="38" rx="4"
                    fill=(self.behind[number]) {}
                text x=(2.0 * EDGE) y=(top + 24.0) fill="#ffffff" { (name) }
                @if let Some(value) = last(parts) {
                    text x=(width - 2.0 * EDGE) y=(top + 25.0) text-anchor="end" fill="#ffffff"
                        font-size="18" font-weight="600" { (scale::number(value)) }
                }
            }
        }
    }

    fn curves(&self, width: f64, height: f64) -> Markup {
        let names = self.curves.iter().enumerate();
        let names = names.map(|(number, (name, _))| (name.as_str(), colour(number)));
        let legend = Legend::within(names, (EDGE, width - EDGE));
        let (top, right) = (36.0, width - 1.5 * EDGE);
        let bottom = height - legend.height() - LINE - 8.0;
        let parts = || self.curves.iter().flat_map(|(_, parts)| parts.iter());
        let largest = parts().flatten().map(|point| point.1).fold(0.0, f64::max);
        let most = self.max.unwrap_or(match largest > 0.0 {
            true => scale::ceiling(largest * 1.02),
            false => 1.0,
        });
        let across = Scale::new((0.0, self.seconds), (LEFT, right));
        let up = Scale::new((0.0, most), (bottom, top));
        let place = |&(at, value): &(f64, f64)| (across.at(at), up.at(value));
        html! {
            @for tick in scale::ticks(most, if bottom - top < 100.0 { 2 } else { 4 }) {
                @let y = up.at(tick);
                line x1=(LEFT) x2=(right) y1=(y) y2=(y) stroke=(GRID) {}
                text x=(LEFT - 6.0) y=(y + 4.0) text-anchor="end" fill=(INK) {
                    (scale::number(tick))
                }
            }
            @for tick in scale::ticks(self.seconds, 4) {
                text x=(across.at(tick)) y=(bottom + 17.0) text-anchor="middle" fill=(INK) {
                    (scale::number(tick)) @if tick > 0.0 { " s" }
                }
            }
            @for (number, (_, parts)) in self.curves.iter().enumerate() {
                @for part in parts {
                    @let places: Vec<_> = part.iter().map(place).collect();
                    path d=(line(&places)) fill="none" stroke=(colour(number)) stroke-width="2"
                        stroke-linejoin="round" stroke-linecap="round" {}
                }
            }
            (legend.draw(bottom + LINE + 2.0))
        }
    }
}
