// SPDX-License-Identifier: GPL-2.0

//! A call of a guest: [`dispatch`] takes it from its registers to its outcome, and [`operation`]
//! carries it out, with what a [`put`] and a [`get`] need of the guest. [`answer`] is what the guest
//! is told.

pub(crate) mod answer;
pub(crate) mod dispatch;
pub(crate) mod get;
pub(crate) mod operation;
pub(crate) mod put;
