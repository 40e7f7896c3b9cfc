// SPDX-License-Identifier: GPL-2.0-only

//! Values of items, each a bar below its name, beside reference values.

use maud::{Markup, html};

use super::{
    WIDTH,
    label::{LINE, width},
    legend::Legend,
    palette::{GREY, INK, colour},
    scale::{self, Scale},
    titled,
};

const LEFT: f64 = 8.0;
const BAR: f64 = 13.0;
const GAP: f64 = 7.0;

/// Bars with a title.
#[derive(Clone, Debug)]
pub struct Bars {
    /// Title.
    pub title: String,
    /// What the values are.
    pub unit: &'static str,
    /// Names of the values and of the reference values.
    pub names: [&'static str; 2],
    /// The items.
    pub bars: Vec<Bar>,
}

/// The name of an item, its value and its reference value, if there is one.
pub type Bar = (String, f64, Option<f64>);

impl Bars {
    /// Draws the bars.
    pub fn svg(&self) -> Markup {
        let bars = self.bars.iter();
        let values = bars.flat_map(|(_, value, reference)| [Some(*value), *reference]);
        let values: Vec<f64> = values.flatten().collect();
        let most = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let room = values.iter().map(|value| width(&scale::number(*value)));
        let room = room.fold(0.0, f64::max) + 8.0;
        let scale = Scale::new((0.0, most), (LEFT, WIDTH - room));
        let kinds = self.names.into_iter().zip([colour(0), GREY]);
        let legend = match values.len() > self.bars.len() {
            true => Legend::new(kinds, LEFT),
            false => Legend::default(),
        };
        let mut y = LINE + legend.height();
        let mut rows = Vec::new();
        for bar in &self.bars {
            rows.push((bar, y));
            let count = if bar.2.is_some() { 2.0 } else { 1.0 };
            y += LINE + count * (BAR + 2.0) + GAP;
        }
        let content = html! {
            text x=(LEFT) y="13" fill=(INK) { (self.unit) }
            (legend.draw(LINE))
            @for ((name, value, reference), top) in &rows {
                text x=(LEFT) y=(top + 14.0) fill=(INK) { (name) }
                (strip(top + LINE, *value, colour(0), &scale))
                @if let Some(reference) = reference {
                    (strip(top + LINE + BAR + 2.0, *reference, GREY, &scale))
                }
            }
        };
        titled(&self.title, y, &content)
    }
}

fn strip(y: f64, value: f64, colour: &str, scale: &Scale) -> Markup {
    let end = scale.at(value.max(0.0));
    html! {
        rect x=(LEFT) y=(y) width=(end - LEFT) height=(BAR) fill=(colour) {}
        text x=(end + 5.0) y=(y + BAR - 2.0) fill=(INK) { (scale::number(value)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_beside_their_values() {
        let bars = Bars {
            title: "hits".into(),
            unit: "%",
            names: ["ours", "paper"],
            bars: vec![
                ("web".into(), 40.0, Some(80.0)),
                ("mail".into(), 20.0, None),
            ],
        };
        let text = bars.svg().into_string();
        assert_eq!(text.matches("<rect").count(), 3);
        assert!(text.contains(">ours</text>") && text.contains(">paper</text>"));
        assert!(!text.contains("NaN"));
    }
}
