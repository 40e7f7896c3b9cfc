// SPDX-License-Identifier: GPL-2.0-only

//! Frees pages of ended sessions and pools in the background, so that no vCPU waits for that.
//!
//! Until they are freed, the pages count as used. Therefore a guest cannot occupy more memory than
//! the tier has by registering repeatedly, and [`Teardowns`] bounds the memory of its ended
//! sessions.

use crate::ffi::queue;
use crate::memory::gfp_nowarn;
use crate::state::host;
use crate::vm::pool::Pool;
use crate::vm::session::Session;
use ddcore::host::cause::Cause;
use ddcore::host::evict::{evict, evict_all, evict_pool, Freed};
use ddcore::host::relocate::demote;
use ddcore::host::walk::{drain, empty, shards_of_task};
use ddcore::host::{Host as _, Session as _};
use kernel::alloc::AllocError;
use kernel::prelude::*;
use kernel::sync::atomic::{ordering::Relaxed, Atomic};
use kernel::sync::Arc;
use kernel::time::delay::fsleep;
use kernel::time::Delta;

/// Number of pages that are freed synchronously, which takes less than a millisecond.
const FEW: u64 = 2048;

/// Pause between two steps of a demotion, in which devices can write pages.
const PAUSE: Delta = Delta::from_millis(5);

/// Number of consecutive pauses after which the remaining pages of a pool are evicted.
const MAX_PAUSES: u32 = 200;

/// Number of pages that are demoted at a time.
const STEP: u64 = 512;

/// Maximum number of pools that are demoted in the background at a time. Guests determine the
/// number of pools, and must not be able to occupy the work queue with demotions.
const MAX_MOVES: u32 = 8;

/// Number of pools that are being demoted in the background.
static MOVES: Atomic<u32> = Atomic::new(0);

/// Number of tasks that free the pages of a session in parallel.
const TASKS: usize = 4;

/// Maximum number of ended sessions of a VM whose pages are freed in the background. The pages of
/// further sessions are freed by the vCPU that ends them.
const MAX_SESSIONS: u32 = 2;

/// Number of ended sessions of a VM whose pages are being freed in the background.
pub(crate) struct Teardowns(Atomic<u32>);

impl Teardowns {
    pub(crate) fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(Self(Atomic::new(0)), gfp_nowarn())?)
    }

    /// Frees all pages of a session that has ended.
    pub(crate) fn add(this: &Arc<Self>, session: &Arc<Session>) {
        let pages = session.used() + session.state().ssd();
        let teardown = match pages > FEW && this.0.load(Relaxed) < MAX_SESSIONS {
            true => Teardown::new(this, session).ok(),
            false => None,
        };
        for task in 0..TASKS {
            let shards = shards_of_task(task, TASKS, session.shards.len());
            let spawned = teardown.as_ref().is_some_and(|one| {
                let (one, shards) = (one.clone(), shards.clone());
                queue::spawn(gfp_nowarn(), move || _ = drain(&*one.session, shards))
            });
            if !spawned {
                drain(&**session, shards);
            }
        }
    }
}

/// An ended session whose pages are being freed. It counts as a teardown until the last task drops
/// it.
struct Teardown {
    teardowns: Arc<Teardowns>,
    session: Arc<Session>,
}

impl Teardown {
    fn new(teardowns: &Arc<Teardowns>, session: &Arc<Session>) -> Result<Arc<Self>, AllocError> {
        teardowns.0.add(1, Relaxed);
        let this = Self {
            teardowns: teardowns.clone(),
            session: session.clone(),
        };
        Arc::new(this, gfp_nowarn())
    }
}

impl Drop for Teardown {
    fn drop(&mut self) {
        self.teardowns.0.fetch_sub(1, Relaxed);
    }
}

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

/// A demotion in the background, counted in [`MOVES`] until it is dropped.
struct Move(());

impl Move {
    /// Begins a demotion, unless there are [`MAX_MOVES`] already.
    fn begin() -> Option<Self> {
        let this = Self(());
        // Dropping `this` subtracts it again.
        (MOVES.fetch_add(1, Relaxed) < MAX_MOVES).then_some(this)
    }
}

impl Drop for Move {
    fn drop(&mut self) {
        MOVES.fetch_sub(1, Relaxed);
    }
}

/// Demotes the pages that a pool has in the memory tier now, as long as its settings require that.
/// Those that may not go to the SSD tier are evicted. Returns the numbers of pages. If `may_wait`
/// is set, this waits while devices are busy; otherwise it demotes only a few pages.
fn demote_all(session: &Session, number: u32, pool: &Pool, may_wait: bool) -> Freed {
    let demote = |pages| demote(session, (number, Cause::Weight), pages, None::<&()>);
    let goes = || pool.share() == 0 && session.ssd_share(number) > 0 && !queue::is_leaving();
    let held = pool.gauge.held();
    let Some(_move) = may_wait.then(Move::begin).flatten() else {
        return match goes() {
            true => demote(held.min(FEW)),
            false => Freed::default(),
        };
    };
    let (mut freed, mut pauses) = (Freed::default(), 0);
    while pauses < MAX_PAUSES && freed.total() < held && pool.gauge.held() > 0 && goes() {
        // The pages that wait to be written are bounded, and puts and other demotions need room
        // among them, too.
        let step = match session.ssd.is_busy() {
            true => Freed::default(),
            false => demote(STEP.min(held - freed.total())),
        };
        freed.evicted += step.evicted;
        freed.demoted += step.demoted;
        pauses = if step.total() > 0 { 0 } else { pauses + 1 };
        if step.total() == 0 {
            session.ssd.hurry();
            fsleep(PAUSE);
        }
    }
    freed
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
