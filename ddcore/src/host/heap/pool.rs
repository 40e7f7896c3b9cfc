// SPDX-License-Identifier: GPL-2.0-only

//! A slot for a pool.

use crate::host::pressure::Gauge;
use crate::policy::Order;
use core::sync::atomic::AtomicU64;

/// A slot for a pool, which may be destroyed and created again.
pub(super) struct Pool<L> {
    pub(super) settings: L,
    pub(super) gauge: Gauge<AtomicU64>,
}

/// The last settings of a pool.
#[derive(Clone, Copy, Default)]
pub(super) struct Settings {
    /// The weight with which the memory tier is divided; `None` while there is no pool.
    pub(super) share: Option<u32>,
    /// The order in which pages are evicted, including those of a destroyed pool. `None` until the
    /// first pool is created.
    pub(super) order: Option<Order>,
}
