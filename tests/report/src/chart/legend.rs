// SPDX-License-Identifier: GPL-2.0-only

//! Names of colours, in as many lines as they need.

use maud::{Markup, html};

use super::{
    WIDTH,
    label::{LINE, width},
    palette::INK,
};

/// Width of a mark, and distance between two names.
const MARK: f64 = 18.0;
const GAP: f64 = 16.0;

/// Names with colours.
#[derive(Clone, Debug, Default)]
pub(super) struct Legend<'a> {
    /// Line, horizontal position, name and colour.
    places: Vec<(usize, f64, &'a str, &'a str)>,
    lines: usize,
}

impl<'a> Legend<'a> {
    /// Places names from left to right, in lines between `left` and the right edge of a chart.
    pub(super) fn new(names: impl IntoIterator<Item = (&'a str, &'a str)>, left: f64) -> Self {
        Self::within(names, (left, WIDTH))
    }

    /// Places names in lines between two positions.
    pub(super) fn within(
        names: impl IntoIterator<Item = (&'a str, &'a str)>,
        (left, right): (f64, f64),
    ) -> Self {
        let mut this = Self::default();
        let (mut line, mut x) = (0, left);
        for (name, colour) in names {
            let needed = MARK + width(name);
            if x > left && x + needed > right {
                (line, x) = (line + 1, left);
            }
            this.places.push((line, x, name, colour));
            this.lines = line + 1;
            x += needed + GAP;
        }
        this
    }

    pub(super) fn height(&self) -> f64 {
        self.lines as f64 * LINE
    }

    /// Draws it below `top`.
    pub(super) fn draw(&self, top: f64) -> Markup {
        html! {
            @for (line, x, name, colour) in &self.places {
                @let y = top + LINE * (*line as f64 + 0.5);
                circle cx=(x + 5.0) cy=(y) r="5" fill=(colour) {}
                text.outlined x=(x + 14.0) y=(y + 4.5) fill=(INK) { (name) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_apart_and_inside() {
        let names = [
            "one FIFO for all",
            "weights",
            "weights and the default policy",
            "x",
        ];
        let legend = Legend::new(names.map(|name| (name, "#000000")), 8.0);
        assert_eq!(legend.lines, 2);
        for pair in legend.places.windows(2) {
            let (first, second) = (&pair[0], &pair[1]);
            let end = first.1 + MARK + width(first.2);
            assert!(end <= WIDTH && (second.0 > first.0 || second.1 >= end + GAP));
        }
    }
}
