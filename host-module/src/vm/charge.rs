// SPDX-License-Identifier: GPL-2.0-only

//! Who pays for memory.

use kernel::alloc::flags::{__GFP_NOWARN, GFP_KERNEL_ACCOUNT};
use kernel::alloc::Flags;

/// How what belongs to one VM is allocated: in a call of that VM, whose thread is in the VMM's
/// cgroup, so that it is charged there. If there is no memory, the guest learns of it, not the log.
///
/// The index is not allocated so: its memory is within a fixed part of the tier's capacity, and a
/// cgroup that is at its limit, as those with page cache are, would end all puts of its VM.
pub(crate) fn charged() -> Flags {
    GFP_KERNEL_ACCOUNT | __GFP_NOWARN
}
