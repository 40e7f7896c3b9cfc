// SPDX-License-Identifier: GPL-2.0-only

//! Charts as inline SVG: no scripts, no fonts, nothing to fetch.
//!
//! A [`Timeline`] is a stack of panels over one time axis; a [`Ladder`] compares
//! a few situations per row on a logarithmic axis. Colours are told apart by
//! everybody (Okabe and Ito's), and never carry meaning alone: lines are
//! labelled where they end, entitlements are dashed.

mod ladder;
mod palette;
mod panel;
mod scale;
mod timeline;

pub(crate) use ladder::{Ladder, Rung};
pub(crate) use palette::{GREY, colour};
pub(crate) use panel::{Panel, Series, Style};
pub(crate) use timeline::{Band, Mark, Timeline};
