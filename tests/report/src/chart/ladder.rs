// SPDX-License-Identifier: GPL-2.0-only

//! A chart of factors, with a row for each subject and a dot for each situation.

use maud::{Markup, html};

use super::{
    WIDTH,
    legend::{LINE, Legend, width},
    palette::{GRID, INK},
    picture,
    scale::{self, Scale},
};

const LEFT: f64 = 14.0;
const RIGHT: f64 = WIDTH - 14.0;
/// Height of a row: its name, and its dots.
const ROW: f64 = LINE + 30.0;
const FOOT: f64 = 44.0;
/// Least distance between two ticks, which have up to four letters.
const APART: f64 = 36.0;

/// Rows of dots on a logarithmic axis of factors.
#[derive(Clone, Debug)]
pub struct Ladder {
    /// Description for readers who cannot see it.
    pub about: String,
    /// Label of the axis.
    pub axis: String,
    /// The situations: their names and colours.
    pub situations: Vec<(String, &'static str)>,
    /// The rows.
    pub rows: Vec<Rung>,
}

/// One row.
#[derive(Clone, Debug)]
pub struct Rung {
    /// Its name.
    pub name: String,
    /// A factor for each situation; `None` if it was not measured.
    pub factors: Vec<Option<f64>>,
}

impl Ladder {
    /// Draws the rows.
    pub fn svg(&self) -> Markup {
        let names = self.situations.iter();
        let legend = Legend::new(
            names.map(|(name, colour)| (name.as_str(), *colour)),
            LEFT - 6.0,
        );
        let head = legend.height() + 8.0;
        let bottom = head + ROW * self.rows.len() as f64;
        let (least, most) = self.range();
        let scale = Scale::new((least.ln(), most.ln()), (LEFT, RIGHT));
        let content = html! {
            (legend.draw(0.0))
            @for (tick, is_named) in named(&ticks(least, most), &scale) {
                @let x = scale.at(tick.ln());
                @let strong = tick == 1.0;
                line x1=(x) x2=(x) y1=(head) y2=(bottom)
                    stroke=(if strong { INK } else { GRID }) {}
                @if is_named {
                    text x=(x) y=(bottom + 18.0) text-anchor="middle" fill=(INK) {
                        (scale::number(tick)) "×"
                    }
                }
            }
            @for (number, row) in self.rows.iter().enumerate() {
                (self.row(row, head + ROW * number as f64, &scale))
            }
            text x=(WIDTH / 2.0) y=(bottom + 38.0) text-anchor="middle" fill=(INK) {
                (self.axis)
            }
        };
        picture(&self.about, bottom + FOOT, &content)
    }

    fn row(&self, row: &Rung, top: f64, scale: &Scale) -> Markup {
        let y = top + LINE + 12.0;
        let places: Vec<(f64, f64, &str)> = row
            .factors
            .iter()
            .zip(&self.situations)
            .filter_map(|(factor, (_, colour))| {
                let factor = (*factor)?;
                (factor > 0.0).then(|| (scale.at(factor.ln()), factor, *colour))
            })
            .collect();
        let first = places
            .iter()
            .map(|place| place.0)
            .fold(f64::INFINITY, f64::min);
        let last = places.iter().map(|place| place.0).fold(LEFT, f64::max);
        // The factor of the last situation is behind the name, where no dot is.
        let end = places.last().map(|place| format!(": {} ×", short(place.1)));
        let name = format!("{}{}", row.name, end.unwrap_or_default());
        // Lines of the grid do not cross the name.
        let paper = width(&name) + 6.0;
        html! {
            rect x=(LEFT - 8.0) y=(top + 1.0) width=(paper) height=(LINE) fill="#ffffff" {}
            text x=(LEFT - 6.0) y=(top + 15.0) font-weight="600" fill=(INK) { (name) }
            @if first < last {
                line x1=(first) x2=(last) y1=(y) y2=(y) stroke="#b8b8b8" stroke-width="2" {}
            }
            @for (x, _, colour) in &places {
                circle cx=(x) cy=(y) r="6.5" fill=(colour) stroke="#ffffff" {}
            }
        }
    }

    /// Returns the range from the smallest to the largest factor, with some margin.
    fn range(&self) -> (f64, f64) {
        let factors = self.rows.iter().flat_map(|row| &row.factors);
        let factors = factors.flatten().filter(|factor| **factor > 0.0);
        let (least, most) = factors.fold((1.0, 1.0), |(least, most): (f64, f64), factor| {
            (least.min(*factor), most.max(*factor))
        });
        ((least * 0.8).min(0.8), (most * 1.25).max(2.0))
    }
}

/// Returns common factors as ticks.
fn ticks(least: f64, most: f64) -> Vec<f64> {
    let decades = [0.01, 0.1, 1.0, 10.0, 100.0];
    let all = decades
        .into_iter()
        .flat_map(|decade| [1.0, 2.0, 5.0].map(|factor| factor * decade));
    all.filter(|tick| (least..=most).contains(tick)).collect()
}

/// Returns whether there is enough space for the number of each tick. There always is for that of
/// 1.
fn named(ticks: &[f64], scale: &Scale) -> Vec<(f64, bool)> {
    let one = scale.at(0.0);
    let mut last = f64::NEG_INFINITY;
    let mut named = Vec::new();
    for &tick in ticks {
        let x = scale.at(tick.ln());
        let is_free = x >= last + APART && (x - one).abs() >= APART;
        let is_named = tick == 1.0 || is_free;
        if is_named {
            last = x;
        }
        named.push((tick, is_named));
    }
    named
}

fn short(factor: f64) -> String {
    match factor >= 9.95 {
        true => format!("{factor:.0}"),
        false => format!("{factor:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_include_one() {
        let ladder = Ladder {
            about: String::new(),
            axis: String::new(),
            situations: vec![("a".to_owned(), "#000000"), ("b".to_owned(), "#111111")],
            rows: vec![Rung {
                name: "web".to_owned(),
                factors: vec![Some(1.0), Some(10.0)],
            }],
        };
        assert_eq!(ladder.range(), (0.8, 12.5));
        assert_eq!(ticks(0.8, 12.5), [1.0, 2.0, 5.0, 10.0]);
        let text = ladder.svg().into_string();
        assert_eq!(text.matches("<circle").count(), 4);
        assert!(text.contains("web: 10 ×"), "{text}");
    }

    #[test]
    fn numbers_of_ticks_keep_apart() {
        let (least, most) = (0.02_f64, 120.0_f64);
        let scale = Scale::new((least.ln(), most.ln()), (LEFT, RIGHT));
        let named = named(&ticks(least, most), &scale);
        let places = named.iter().filter(|(_, is_named)| *is_named);
        let places: Vec<f64> = places.map(|(tick, _)| scale.at(tick.ln())).collect();
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= APART));
        assert!(named.contains(&(1.0, true)) && places.len() > 4);
    }
}
