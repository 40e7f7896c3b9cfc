// SPDX-License-Identifier: GPL-2.0

//! A place for a pool.

use crate::host::pressure::Gauge;
use crate::policy::Order;
use core::sync::atomic::AtomicU64;

/// A place for a pool. Its pool may end and begin again.
pub(super) struct Pool<L> {
    pub(super) settings: L,
    pub(super) gauge: Gauge<AtomicU64>,
}

/// What was last set of a pool.
#[derive(Clone, Copy, Default)]
pub(super) struct Settings {
    /// The weight when pages are divided; `None` while there is no pool.
    pub(super) share: Option<u32>,
    /// The order in which pages leave, also those of a pool that has ended; `None` before the
    /// first pool has begun.
    pub(super) order: Option<Order>,
}
