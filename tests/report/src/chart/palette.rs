// SPDX-License-Identifier: GPL-2.0-only

//! Okabe and Ito's colours, in the order in which neighbours differ most.

const COLOURS: [&str; 6] = [
    "#0072b2", // blue
    "#d55e00", // vermilion
    "#009e73", // bluish green
    "#cc79a7", // reddish purple
    "#56b4e9", // sky blue
    "#e69f00", // orange
];

/// Colour of minor elements.
pub const GREY: &str = "#767676";

/// Lines of grids and axes.
pub(crate) const GRID: &str = "#e3e3e3";
/// Text.
pub(crate) const INK: &str = "#222222";

/// Returns the colour of the series of a number.
pub fn colour(number: usize) -> &'static str {
    COLOURS[number % COLOURS.len()]
}
