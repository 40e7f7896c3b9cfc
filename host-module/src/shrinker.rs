// SPDX-License-Identifier: GPL-2.0

//! Giving memory back when the host runs short of it, down to the floor, from everyone in
//! proportion to what it holds (invariant 17).

use crate::host::Host;
use crate::mutation::mutated;

/// Pages above the floor.
pub(crate) fn count(host: &Host) -> u64 {
    host.tier.used().saturating_sub(host.tier.floor())
}

/// Gives up to `pages` back; says how many. Nothing if somebody is evicting already: the caller
/// may be waiting for memory while it holds what that one needs.
pub(crate) fn scan(host: &Host, pages: u64) -> u64 {
    if mutated(c"shrinker-deaf") {
        return 0;
    }
    let Some(mut roster) = host.vms.try_lock() else {
        return 0;
    };
    let pages = pages.min(count(host));
    let used = host.tier.used().max(1);
    let mut freed = 0;
    for at in 0..roster.vms().len() {
        let Some(session) = roster.session(at) else {
            continue;
        };
        let pools = roster.scratch();
        session.entities(pools);
        for (pool, entity) in pools.iter().enumerate() {
            // Rounded up, so that small pools give something too.
            let share = (entity.used.saturating_mul(pages) / used + 1).min(entity.used);
            freed += session.evict(pool as u32, share.min(pages - freed));
            if freed >= pages {
                break;
            }
        }
    }
    host.tier.totals.shrunk.add(freed);
    freed
}
