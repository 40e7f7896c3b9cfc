// SPDX-License-Identifier: GPL-2.0-only

//! A chart of factors, with a row for each subject and a dot for each situation.

use maud::{Markup, html};

use super::{
    WIDTH, file,
    label::{LINE, bold, centred, width, wrapped, wrapped_bold},
    legend::Legend,
    palette::{GRID, INK},
    picture,
    scale::{self, Scale},
};

const LEFT: f64 = 14.0;
const RIGHT: f64 = WIDTH - 14.0;
/// Left of names and names of situations.
const EDGE: f64 = 8.0;
/// Height of the dots of a row, below its name.
const DOTS: f64 = 30.0;
/// Radius of a dot. Dots that are nearer to each other than this are one below the other.
const RADIUS: f64 = 6.5;
/// The distance from the middle of a row that dots may have.
const SPREAD: f64 = 10.0;
const FOOT: f64 = 44.0;
/// Least distance between the numbers of two ticks.
const APART: f64 = 6.0;

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
        let (content, height) = self.rows();
        picture(&self.about, height, &content)
    }

    /// Returns the same as a file of its own.
    pub fn file(&self) -> String {
        let (content, height) = self.rows();
        file(&self.about, (WIDTH, height), &content)
    }

    /// Returns the rows and their height.
    fn rows(&self) -> (Markup, f64) {
        let names = self.situations.iter();
        let legend = Legend::new(names.map(|(name, colour)| (name.as_str(), *colour)), EDGE);
        let head = legend.height() + 8.0;
        let names: Vec<_> = self.rows.iter().map(Rung::lines).collect();
        let mut tops = Vec::new();
        let mut bottom = head;
        for lines in &names {
            tops.push(bottom);
            bottom += LINE * lines.len() as f64 + DOTS;
        }
        let (least, most) = self.range();
        let scale = Scale::new((least.ln(), most.ln()), (LEFT, RIGHT));
        let axis = wrapped(&self.axis, WIDTH - 2.0 * EDGE);
        let content = html! {
            (legend.draw(0.0))
            @for (tick, is_named) in named(&ticks(least, most), &scale) {
                @let x = scale.at(tick.ln());
                @let strong = tick == 1.0;
                line x1=(x) x2=(x) y1=(head) y2=(bottom)
                    stroke=(if strong { INK } else { GRID }) {}
                @if is_named {
                    @let factor = times(tick);
                    text x=(centred(x, &factor)) y=(bottom + 18.0) text-anchor="middle"
                        fill=(INK) { (factor) }
                }
            }
            @for ((row, lines), &top) in self.rows.iter().zip(&names).zip(&tops) {
                (self.row(row, lines, top, &scale))
            }
            @for (number, line) in axis.iter().enumerate() {
                text x=(WIDTH / 2.0) y=(bottom + 38.0 + LINE * number as f64)
                    text-anchor="middle" fill=(INK) { (line) }
            }
        };
        (content, bottom + FOOT + LINE * (axis.len() - 1) as f64)
    }

    fn row(&self, row: &Rung, lines: &[String], top: f64, scale: &Scale) -> Markup {
        let y = top + LINE * lines.len() as f64 + DOTS / 2.0;
        let factors = row.factors.iter().zip(&self.situations);
        let places = factors.filter_map(|(factor, (_, colour))| {
            let factor = factor.filter(|factor| *factor > 0.0)?;
            Some((scale.at(factor.ln()), *colour))
        });
        let mut places: Vec<(f64, &str)> = places.collect();
        places.sort_by(|one, other| one.0.total_cmp(&other.0));
        let ends = places.first().zip(places.last());
        html! {
            @for (number, line) in lines.iter().enumerate() {
                @let top = top + LINE * number as f64;
                // Lines of the grid do not cross the name.
                rect x=(EDGE - 2.0) y=(top + 1.0) width=(bold(line) + 6.0) height=(LINE)
                    fill="#ffffff" {}
                text x=(EDGE) y=(top + 15.0) font-weight="600" fill=(INK) { (line) }
            }
            @if let Some((first, last)) = ends.filter(|(first, last)| first.0 < last.0) {
                line x1=(first.0) x2=(last.0) y1=(y) y2=(y) stroke="#b8b8b8" stroke-width="2" {}
            }
            @for near in places.chunk_by(|one, other| other.0 - one.0 < RADIUS) {
                @for (number, (x, colour)) in near.iter().enumerate() {
                    @let step = (2.0 * SPREAD / near.len() as f64).min(RADIUS + 3.0);
                    @let middle = (near.len() - 1) as f64 / 2.0;
                    circle cx=(x) cy=(y + (number as f64 - middle) * step) r=(RADIUS)
                        fill=(colour) stroke="#ffffff" {}
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

impl Rung {
    /// Returns the lines of its name, behind which is the factor of the last situation, where no
    /// dot is.
    fn lines(&self) -> Vec<String> {
        let mut measured = self.factors.iter().flatten();
        let last = measured.rfind(|factor| **factor > 0.0);
        let end = last.map(|factor| format!(": {}×", short(*factor)));
        let name = format!("{}{}", self.name, end.unwrap_or_default());
        wrapped_bold(&name, WIDTH - 2.0 * EDGE)
    }
}

/// Returns the number of a tick.
fn times(tick: f64) -> String {
    format!("{}×", scale::number(tick))
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
    let ends = |tick: f64| {
        let (number, x) = (times(tick), scale.at(tick.ln()));
        let (middle, half) = (centred(x, &number), width(&number) / 2.0);
        (middle - half - APART, middle + half)
    };
    let one = ends(1.0);
    let mut last = f64::NEG_INFINITY;
    let mut named = Vec::new();
    for &tick in ticks {
        let (left, right) = ends(tick);
        let is_beside = right <= one.0 || left >= one.1;
        let is_named = tick == 1.0 || (left >= last && is_beside);
        if is_named {
            last = right;
        }
        named.push((tick, is_named));
    }
    named
}

fn short(factor: f64) -> String {
    match factor {
        factor if factor >= 99.5 => format!("{factor:.0}"),
        factor if factor >= 1.995 => format!("{factor:.1}"),
        factor => format!("{factor:.2}"),
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
        assert!(text.contains("web: 10.0×"), "{text}");
    }

    #[test]
    fn equal_factors_are_seen_each() {
        let ladder = Ladder {
            about: String::new(),
            axis: String::new(),
            situations: ["a", "b", "c"]
                .map(|name| (name.to_owned(), "#000000"))
                .into(),
            rows: vec![Rung {
                name: "web".to_owned(),
                factors: [1.0, 1.0, 1.01].map(Some).into(),
            }],
        };
        let text = ladder.svg().into_string();
        let heights = text.split(" cy=\"").skip(4);
        let heights: Vec<&str> = heights.filter_map(|rest| rest.split('"').next()).collect();
        assert!(heights.len() == 3 && heights[0] != heights[1], "{text}");
        assert!(heights[1] != heights[2], "{text}");
        assert_eq!(
            [0.538, 1.05, 12.6, 120.4].map(short),
            ["0.54", "1.05", "12.6", "120"]
        );
    }

    #[test]
    fn numbers_of_ticks_keep_apart() {
        let (least, most) = (0.02_f64, 120.0_f64);
        let scale = Scale::new((least.ln(), most.ln()), (LEFT, RIGHT));
        let named = named(&ticks(least, most), &scale);
        let places = named.iter().filter(|(_, is_named)| *is_named);
        let places: Vec<(f64, f64)> = places
            .map(|(tick, _)| {
                let (number, x) = (times(*tick), scale.at(tick.ln()));
                let (middle, half) = (centred(x, &number), width(&number) / 2.0);
                (middle - half, middle + half)
            })
            .collect();
        assert!(places.windows(2).all(|pair| pair[1].0 - pair[0].1 >= APART));
        assert!(named.contains(&(1.0, true)) && places.len() > 4);
    }
}
