// SPDX-License-Identifier: GPL-2.0-only

//! Reports: one self-contained HTML file each.

mod curves;
mod demo;
mod page;

pub(crate) use curves::{own_share, own_work, shares, timeline};
pub(crate) use demo::demo_page;
pub(crate) use page::{changes, page, promises, write};
