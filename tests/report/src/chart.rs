// SPDX-License-Identifier: GPL-2.0-only

//! Charts as inline SVG without scripts, fonts or external resources.
//!
//! A [`Timeline`] is a stack of panels with a common time axis; a [`Ladder`] compares a few
//! situations in each row on a logarithmic axis; [`Bars`] has values of items, [`Lines`] curves
//! over a quantity, and [`Spread`] histograms of latencies. Colours are Okabe and Ito's, which
//! everyone can distinguish, and are never the only mark.
//!
//! Labels are on lines of their own. Their lengths are estimated from above, so that no label
//! overlaps another.

mod bars;
mod ladder;
mod legend;
mod lines;
mod palette;
mod panel;
mod scale;
mod spread;
mod timeline;

pub use bars::{Bar, Bars};
pub use ladder::{Ladder, Rung};
pub use lines::{Line, Lines};
pub use palette::{GREY, colour};
pub use panel::{Panel, Series, Style};
pub use spread::{Spread, Strip};
pub use timeline::{Band, Mark, Timeline};

use maud::{Markup, html};

/// Width of every chart, in units of which a letter has about seven: some 60 letters.
const WIDTH: f64 = 440.0;

/// Returns a picture of a height with a description for readers who cannot see it.
fn picture(about: &str, height: f64, content: &Markup) -> Markup {
    html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (height) }
            role="img" aria-label=(about)
            font-family="system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
            font-size="13"
        { (content) }
    }
}
