// SPDX-License-Identifier: GPL-2.0

//! Giving memory back when the host runs short of it, down to the floor (invariant 17).
//!
//! What is given is no longer the tier's: its limit falls, and the pages that are beyond it go by
//! Algorithm 1, so that weights rule whether the tier or its host is full (invariant 27).

use crate::counters::TOTALS;
use crate::ffi::queue;
use crate::state::Host;
use ddcore::host::room;

/// Pages given in a step, between which others may evict.
const STEP: u64 = 1024;

/// Least that is given before the kernel kills a task: 256 MiB, if there is as much.
const RESCUE: u64 = 1 << 16;

/// The part of what can be given that is given before the kernel kills a task.
const RESCUE_PART: u64 = 8;

/// Pages above the floor.
pub(crate) fn count(host: &Host) -> u64 {
    room::surplus(host)
}

/// Gives up to `pages` back; returns how many.
///
/// The caller may hold any lock under which the kernel allocates. It waits here for evictions
/// under way, which neither allocate nor wait for a task that does.
pub(crate) fn scan(host: &Host, pages: u64) -> u64 {
    let freed = room::give_back(host, &mut host.vms.lock(), pages);
    TOTALS.shrunk.add(freed);
    if freed == 0 && count(host) > 0 {
        TOTALS.shrink_refused.add(1);
    }
    freed
}

/// Gives more pages back than the shrinker would, because the kernel is about to kill a task for
/// memory. Returns how many; if there are any, the kernel tries again before it kills.
pub(crate) fn rescue(host: &Host) -> u64 {
    let wanted = (count(host) / RESCUE_PART).max(RESCUE);
    let mut freed = 0;
    while freed < wanted {
        let got = scan(host, STEP.min(wanted - freed));
        if got == 0 {
            break;
        }
        freed += got;
        queue::breathe();
    }
    freed
}
