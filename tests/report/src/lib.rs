// SPDX-License-Identifier: GPL-2.0-only

//! Reports of demo, benchmarks and figures: one self-contained HTML file each, with charts.
//!
//! [`mod@page`] is the template of all pages, and [`chart`] draws. Both are made for a telephone
//! first: a chart is about as wide as a telephone, in units of the size of its letters, so that it
//! is readable there without scrolling. On a wider screen charts are next to each other.
//! [`gain`] judges a gain by a paper's.
//! [`picture`] compares pictures of the documents with those that tests draw.

pub mod chart;
pub mod gain;
pub mod page;
pub mod picture;

pub use page::{Promise, page, promises, write};
