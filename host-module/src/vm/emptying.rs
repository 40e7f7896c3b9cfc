// SPDX-License-Identifier: GPL-2.0-only

//! Empties pools and sessions that may no longer keep pages, in the background, so that no vCPU
//! waits for that.

use crate::ffi::queue;
use crate::memory::gfp_nowarn;
use crate::state::host;
use crate::vm::demotion::demote_all;
use crate::vm::session::Session;
use crate::vm::teardown::FEW;
use ddcore::host::cause::Cause;
use ddcore::host::evict::{evict, evict_all, evict_pool, Freed};
use ddcore::host::walk::empty;
use ddcore::host::{Host as _, Session as _};
use kernel::sync::Arc;

/// Frees the pages of a pool that was destroyed, or evicts those of a pool that may no longer keep
/// pages. The pages of a pool that was set to use only the SSD tier are demoted.
///
/// One task for each session does this in the background, so that a guest that changes its pools
/// without end occupies no more of the work queue than that. The slot of a destroyed pool is not
/// reused until its pages are freed.
pub(crate) fn empty_pool(session: &Arc<Session>, number: u32) {
    let Some(pool) = session.pool_slot(number) else {
        return;
    };
    if pool.gauge.held() + pool.log.holding.places() <= FEW {
        empty_now(session, number, false);
        return;
    }
    pool.emptying.mark();
    if !session.emptying.claim() {
        return;
    }
    let background = session.clone();
    if !queue::spawn(gfp_nowarn(), move || empty_marked(&background, true)) {
        empty_marked(session, false);
    }
}

/// Empties the marked pools of a session, whose emptying was claimed. Waits for devices if
/// `may_wait` is set.
fn empty_marked(session: &Session, may_wait: bool) {
    let pools = || (0..session.pool_count()).filter_map(|n| Some((n, session.pool_slot(n)?)));
    loop {
        for (number, pool) in pools() {
            if pool.emptying.take() {
                empty_now(session, number, may_wait);
            }
        }
        session.emptying.end();
        // A pool may have been marked behind the last one, or before the claim ended.
        if !pools().any(|(_, pool)| pool.emptying.is_marked()) || !session.emptying.claim() {
            break;
        }
    }
}

/// Implements [`empty_pool`]. Waits for devices if `may_wait` is set.
fn empty_now(session: &Session, number: u32, may_wait: bool) {
    match session.pool(number) {
        Some(pool) if pool.settings().is_on() => {
            let freed = demote_all(session, number, pool, may_wait);
            // The pool may have been set to use memory again.
            let left = match pool.share() {
                0 => pool.gauge.held(),
                _ => 0,
            };
            let evicted = evict(session, (number, Cause::Weight), left, None::<&()>);
            let freed = Freed {
                evicted: freed.evicted + evicted,
                ..freed
            };
            if let Some(host) = host().filter(|_| freed.total() > 0) {
                host.evicted(&freed);
            }
        }
        Some(_) => _ = evict_pool(session, (number, Cause::Weight), u64::MAX),
        None => _ = empty(session, number),
    }
    if let Some(place) = session
        .pool_slot(number)
        .filter(|_| session.ssd_share(number) == 0)
    {
        place.log.close(None);
    }
}

/// Evicts the pages of a session whose VM no longer has a weight. Returns the number of pages that
/// are evicted in the background.
pub(crate) fn evict_session(session: &Arc<Session>) -> u64 {
    let background = session.clone();
    let evict = |session: &Session| _ = evict_all(session, u64::MAX, Cause::Weight);
    let used = session.used() + session.state().ssd();
    if used > FEW && queue::spawn(gfp_nowarn(), move || evict(&background)) {
        return used;
    }
    evict(session);
    0
}
