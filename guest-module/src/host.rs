// SPDX-License-Identifier: GPL-2.0

//! What the module does with the host: [`call`] makes a hypercall, [`channel`] makes it in the
//! session, which [`session`] begins and ends,
//! [`worker`] is the background job, [`flushes`] are the ranges that the host holds in vain.

pub(crate) mod attachment;
pub(crate) mod call;
pub(crate) mod channel;
pub(crate) mod flushes;
pub(crate) mod schedule;
pub(crate) mod session;
pub(crate) mod worker;
