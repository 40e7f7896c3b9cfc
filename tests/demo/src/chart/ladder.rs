// SPDX-License-Identifier: GPL-2.0-only

//! A chart of factors, with a row for each subject and a dot for each situation.

use maud::{Markup, html};

use super::{
    palette::{GRID, INK},
    scale::{self, Scale},
};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 900.0;
const HEAD: f64 = 34.0;
const ROW: f64 = 44.0;
const FOOT: f64 = 44.0;

/// Rows of dots on a logarithmic axis of factors.
#[derive(Clone, Debug)]
pub(crate) struct Ladder {
    /// Description for readers who cannot see it.
    pub(crate) about: String,
    /// Label of the axis.
    pub(crate) axis: String,
    /// The situations: their names and colours.
    pub(crate) situations: Vec<(String, &'static str)>,
    pub(crate) rows: Vec<Rung>,
}

/// One row.
#[derive(Clone, Debug)]
pub(crate) struct Rung {
    pub(crate) name: String,
    /// A factor for each situation; `None` if it was not measured.
    pub(crate) factors: Vec<Option<f64>>,
}

impl Ladder {
    pub(crate) fn svg(&self) -> Markup {
        let bottom = HEAD + ROW * self.rows.len() as f64;
        let (least, most) = self.range();
        let scale = Scale::new((least.ln(), most.ln()), (LEFT, RIGHT));
        html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (bottom + FOOT) }
                role="img" aria-label=(self.about)
                font-family="system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
                font-size="13"
            {
                (self.legend())
                @for tick in ticks(least, most) {
                    @let x = scale.at(tick.ln());
                    @let strong = tick == 1.0;
                    line x1=(x) x2=(x) y1=(HEAD) y2=(bottom)
                        stroke=(if strong { INK } else { GRID }) {}
                    text x=(x) y=(bottom + 18.0) text-anchor="middle" fill=(INK) {
                        (scale::number(tick)) "×"
                    }
                }
                @for (number, row) in self.rows.iter().enumerate() {
                    (self.row(row, HEAD + ROW * (number as f64 + 0.5), &scale))
                }
                text x=((LEFT + RIGHT) / 2.0) y=(bottom + 38.0) text-anchor="middle" fill=(INK) {
                    (self.axis)
                }
            }
        }
    }

    fn legend(&self) -> Markup {
        html! {
            @for (number, (name, colour)) in self.situations.iter().enumerate() {
                @let x = LEFT + 6.0 + 210.0 * number as f64;
                circle cx=(x) cy="12" r="6" fill=(colour) {}
                text x=(x + 12.0) y="16.5" fill=(INK) { (name) }
            }
        }
    }

    fn row(&self, row: &Rung, y: f64, scale: &Scale) -> Markup {
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
        let end = places.last().map(|place| (place.0, place.1));
        html! {
            text x=(LEFT - 14.0) y=(y + 4.5) text-anchor="end" font-weight="600" fill=(INK) {
                (row.name)
            }
            @if first < last {
                line x1=(first) x2=(last) y1=(y) y2=(y) stroke="#b8b8b8" stroke-width="2" {}
            }
            @for (x, _, colour) in &places {
                circle cx=(x) cy=(y) r="6.5" fill=(colour) stroke="#ffffff" {}
            }
            @if let Some((x, factor)) = end {
                text x=(x) y=(y - 11.0) text-anchor="middle" font-weight="600" fill=(INK) {
                    (short(factor)) "×"
                }
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
        assert_eq!(ladder.svg().into_string().matches("<circle").count(), 4);
    }
}
