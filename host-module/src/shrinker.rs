// SPDX-License-Identifier: GPL-2.0-only

//! The shrinker: gives memory back when the host runs short of it, down to the floor (invariant 17).
//!
//! The limit of the tier falls when pages are given back, and pages beyond the limit are
//! evicted by Algorithm 1, so that weights decide whether the tier or its host is full
//! (invariant 27).

use crate::counters::totals;
use crate::ffi::queue;
use crate::state::Host;
use ddcore::host::room;

/// Pages given back in a step. Other tasks may evict between two steps.
const STEP: u64 = 1024;

/// The least number of pages given back before the kernel kills a task: 256 MiB, if available.
const RESCUE: u64 = 1 << 16;

/// One part in so many of the available pages is given back before the kernel kills a task.
const RESCUE_PART: u64 = 8;

/// Returns the number of pages above the floor.
pub(crate) fn count(host: &Host) -> u64 {
    room::surplus(host)
}

/// Gives up to `pages` back and returns their number.
///
/// The caller may hold any lock under which the kernel allocates. It may wait for a running
/// eviction, because that neither allocates nor waits for a task that does.
pub(crate) fn scan(host: &Host, pages: u64) -> u64 {
    let freed = room::give_back(host, pages);
    totals().shrunk.add(freed);
    if freed == 0 && count(host) > 0 {
        totals().shrink_refused.add(1);
    }
    freed
}

/// Gives more pages back than the shrinker would, because the kernel is about to kill a task for
/// lack of memory. Returns their number; if it is not 0, the kernel tries to allocate again first.
pub(crate) fn rescue(host: &Host) -> u64 {
    let wanted = (count(host) / RESCUE_PART).max(RESCUE);
    let mut freed = 0;
    while freed < wanted {
        let got = scan(host, STEP.min(wanted - freed));
        if got == 0 {
            break;
        }
        freed += got;
        queue::cond_resched();
    }
    freed
}
