// SPDX-License-Identifier: GPL-2.0-only

//! Demotion of a pool that was set to use only the SSD tier.

use crate::ffi::queue;
use crate::vm::pool::Pool;
use crate::vm::session::Session;
use crate::vm::teardown::FEW;
use ddcore::host::cause::Cause;
use ddcore::host::evict::Freed;
use ddcore::host::relocate::demote;
use ddcore::host::Session as _;
use kernel::sync::atomic::{ordering::Relaxed, Atomic};
use kernel::time::delay::fsleep;
use kernel::time::Delta;

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
pub(super) fn demote_all(session: &Session, number: u32, pool: &Pool, may_wait: bool) -> Freed {
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
