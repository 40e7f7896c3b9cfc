// SPDX-License-Identifier: GPL-2.0-only

//! Charts as inline SVG without scripts, fonts or external resources.
//!
//! A [`Timeline`] is a stack of panels with a common time axis; a [`Ladder`] compares a few
//! situations in each row on a logarithmic axis. Colours are Okabe and Ito's, which everyone can
//! distinguish, and are never the only mark: lines are labelled at their ends, and entitlements are
//! dashed.

mod ladder;
mod palette;
mod panel;
mod scale;
mod timeline;

pub(crate) use ladder::{Ladder, Rung};
pub(crate) use palette::{GREY, colour};
pub(crate) use panel::{Panel, Series, Style};
pub(crate) use timeline::{Band, Mark, Timeline};
