// SPDX-License-Identifier: GPL-2.0-only

//! Allocation flags that determine which cgroup is charged.

use kernel::alloc::flags::{__GFP_NOWARN, GFP_KERNEL_ACCOUNT};
use kernel::alloc::Flags;

/// Returns the flags for memory that belongs to one VM. It is allocated in a call of that VM, whose
/// thread is in the VMM's cgroup, so that this cgroup is charged. A failure is reported to the
/// guest, and not in the kernel log.
///
/// Memory of the index is not charged. It is bounded by a fixed fraction of the tier's capacity. If
/// it were charged, all puts of a VM would fail while the VMM's cgroup is at its limit, which is
/// usual for cgroups with page cache.
pub(crate) fn charged() -> Flags {
    GFP_KERNEL_ACCOUNT | __GFP_NOWARN
}
