// SPDX-License-Identifier: GPL-2.0-only

//! The shrinker gives memory back when the host is short of it, down to the floor (invariant 17).
//!
//! Giving pages back lowers the limit of the tier, and pages beyond the limit are evicted by
//! Algorithm 1. Weights thus decide which VMs lose pages, no matter whether the tier or the host is
//! full (invariant 27). The kernel asks for pages of the NUMA node that is short of memory, so that
//! VMs with their pages on other nodes lose none.

use crate::counters::totals;
use crate::ffi::{page, queue};
use crate::state::Host;
use ddcore::host::room;

/// Number of pages freed in a step. Other tasks may evict between two steps.
const STEP: u64 = 1024;

/// Minimum number of pages freed before the OOM killer runs: 256 MiB, if available.
const RESCUE: u64 = 1 << 16;

/// Divisor for the part of the pages above the floor that is freed before the OOM killer runs.
const RESCUE_PART: u64 = 8;

/// Returns the number of pages above the floor.
pub(crate) fn count(host: &Host) -> u64 {
    room::surplus(host)
}

/// Returns the number of pages of a NUMA node that can be given back.
pub(crate) fn count_on(host: &Host, node: usize) -> u64 {
    count(host).min(page::on_node(node))
}

/// Gives up to `pages` pages back and returns their number. If a NUMA node is given, they are pages
/// of VMs that have most of their pages there, if there are such VMs.
///
/// The caller may hold any lock under which the kernel allocates memory. It may wait for a running
/// eviction, because that neither allocates nor waits for a task that does.
pub(crate) fn scan(host: &Host, pages: u64, node: Option<usize>) -> u64 {
    let freed = room::give_back(host, pages, node);
    totals().shrunk.add(freed);
    if freed == 0 && count(host) > 0 {
        totals().shrink_refused.add(1);
    }
    freed
}

/// Gives more pages back than the shrinker would, because the OOM killer is about to run. Returns
/// their number; if it is not 0, the kernel first tries again to allocate.
pub(crate) fn rescue(host: &Host) -> u64 {
    let wanted = (count(host) / RESCUE_PART).max(RESCUE);
    let mut freed = 0;
    while freed < wanted {
        let got = scan(host, STEP.min(wanted - freed), None);
        if got == 0 {
            break;
        }
        freed += got;
        queue::cond_resched();
    }
    freed
}
