// SPDX-License-Identifier: GPL-2.0-only

//! Calls of guests: [`dispatch`] parses the registers and the request and returns the outcome,
//! [`operation`] carries the request out, [`put`] and [`get`] access the guest's pages, and
//! [`answer`] writes the answer page.

pub(crate) mod answer;
pub(crate) mod dispatch;
pub(crate) mod get;
pub(crate) mod operation;
pub(crate) mod put;
