// SPDX-License-Identifier: GPL-2.0-only

//! The host: [`call`] makes a hypercall, [`channel`] makes calls in a session, and [`session`]
//! begins and ends sessions. [`worker`] is the background job, with its times in [`schedule`] and
//! the state of the hooks in [`attachment`]. [`flushes`] are page ranges that the host can free.

pub(crate) mod attachment;
pub(crate) mod call;
pub(crate) mod channel;
pub(crate) mod flushes;
pub(crate) mod schedule;
pub(crate) mod session;
pub(crate) mod worker;
