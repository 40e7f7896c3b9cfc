// SPDX-License-Identifier: GPL-2.0-only

//! Data that exists in several copies, so that processors do not contend for one.

use kernel::cpu::{nr_cpu_ids, CpuId};

/// Number of copies. On a machine with more processors, several processors share a copy.
pub(crate) const STRIPES: usize = 64;

/// Returns the copy that the current processor uses, out of the [`count`] copies of this machine.
/// The task may move to another processor, as for [`current`].
pub(crate) fn own<T>(copies: &[T]) -> Option<&T> {
    copies.get(current())
}

/// Returns the number of copies that the processors of this machine use.
pub(crate) fn count() -> usize {
    (nr_cpu_ids() as usize).clamp(1, STRIPES)
}

/// Returns the number of the copy that the current processor uses, below [`STRIPES`]. The task may
/// move to another processor afterwards, so that each copy must be atomic or have a lock of its
/// own.
pub(crate) fn current() -> usize {
    CpuId::current().as_u32() as usize % STRIPES
}
