// SPDX-License-Identifier: GPL-2.0

//! What the module does with the host: [`call`] makes a hypercall, [`link`] keeps the session,
//! [`worker`] is the background job, [`flushes`] are the ranges that the host holds in vain.

pub(crate) mod call;
pub(crate) mod flushes;
pub(crate) mod link;
pub(crate) mod worker;
