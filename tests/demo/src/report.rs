// SPDX-License-Identifier: GPL-2.0-only

//! Reports: one self-contained HTML file each.

mod curves;
mod demo;
mod section;

pub(crate) use curves::{own_share, own_work, shares, timeline};
pub(crate) use ddreport::{page, write};
pub(crate) use demo::demo_page;
pub(crate) use section::{changes, promises};
