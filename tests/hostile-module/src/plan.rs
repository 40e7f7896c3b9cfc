// SPDX-License-Identifier: GPL-2.0-only

//! What the workers share: the plan, how the arena is divided, and the session.

use ddabi::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::atomic::{ordering::Relaxed, Atomic};

/// Most workers: each has a block and frames of its own.
pub(crate) const WORKERS: u64 = 16;

/// Pages behind the frames that are named: a run may be longer than meant, by as many pages as a
/// request can have.
const MARGIN: u64 = 1024;

/// First page of the frames: before it are the blocks.
const FRAMES: u64 = MARGIN;

const LEAST_PAGES: u64 = 4 * MARGIN;

/// Frames on either side of the memory that comes and goes that are named too.
const AROUND: u64 = 64;

static BASE: Atomic<u64> = Atomic::new(0);
static PAGES: Atomic<u64> = Atomic::new(0);
static SEED: Atomic<u64> = Atomic::new(0);
static MODE: Atomic<u64> = Atomic::new(0);
static LEFT: Atomic<i64> = Atomic::new(0);
static SESSION: Atomic<u64> = Atomic::new(0);
static SEQUENCE: Atomic<u64> = Atomic::new(0);
static MOVING_FIRST: Atomic<u64> = Atomic::new(0);
static MOVING_COUNT: Atomic<u64> = Atomic::new(0);

/// Sets the plan from the module's parameters.
pub(crate) fn set(base: u64, size: u64, seed: u64, requests: u64, mode: u64) -> Result {
    let pages = size / PAGE_SIZE as u64;
    let end = base.checked_add(size).ok_or(ERANGE)?;
    let frames = base / PAGE_SIZE as u64 + FRAMES;
    // Two processors that write one block may mix the bytes of two frames' numbers: the upper
    // ones have to be the same.
    let last = (end / PAGE_SIZE as u64).saturating_sub(MARGIN + 1);
    let even = base & (PAGE_SIZE as u64 - 1) == 0 && frames & 0xff == 0;
    if !even || pages < LEAST_PAGES || frames >> 16 != last >> 16 {
        pr_err!("base and size must be an arena of 16 to 256 MiB in one part of that size\n");
        return Err(EINVAL);
    }
    BASE.store(base, Relaxed);
    PAGES.store(pages, Relaxed);
    SEED.store(seed, Relaxed);
    MODE.store(mode, Relaxed);
    LEFT.store(i64::try_from(requests).unwrap_or(i64::MAX), Relaxed);
    Ok(())
}

/// Sets where memory comes and goes.
pub(crate) fn set_moving(base: u64, size: u64) {
    MOVING_FIRST.store(base / PAGE_SIZE as u64, Relaxed);
    MOVING_COUNT.store(size / PAGE_SIZE as u64, Relaxed);
}

/// A frame number near either end of the memory that comes and goes, or in it, by a number below
/// [`moving`].
pub(crate) fn moving_frame(at: u64) -> u64 {
    (MOVING_FIRST.load(Relaxed) + at).saturating_sub(AROUND)
}

/// How many frames there are for [`moving_frame`].
pub(crate) fn moving() -> u64 {
    match MOVING_COUNT.load(Relaxed) {
        0 => 0,
        count => count + 2 * AROUND,
    }
}

/// Whether there is never any other memory of the guest at a frame and those that a run may have
/// behind it.
pub(crate) fn is_moving(gfn: u64) -> bool {
    gfn.wrapping_sub(moving_frame(0)) < moving()
}

/// Pages of the arena.
pub(crate) fn pages() -> u64 {
    PAGES.load(Relaxed)
}

/// Guest-physical address of a page of the arena.
pub(crate) fn address(page: u64) -> u64 {
    BASE.load(Relaxed) + page * PAGE_SIZE as u64
}

/// What all randomness follows from; also what marks this guest's pages.
pub(crate) fn seed() -> u64 {
    SEED.load(Relaxed)
}

/// Kind of requests.
pub(crate) fn mode() -> u64 {
    MODE.load(Relaxed)
}

/// Takes up to `count` requests from those left to send.
pub(crate) fn take(count: i64) -> i64 {
    let before = LEFT.fetch_add(-count, Relaxed);
    before.clamp(0, count)
}

/// The block of a worker: a page for the request, one for the answer.
pub(crate) fn block(worker: u32) -> u64 {
    2 * (u64::from(worker) & (WORKERS - 1))
}

/// A block that all workers write.
pub(crate) fn shared_block() -> u64 {
    2 * WORKERS
}

/// A request page behind which there is no memory.
pub(crate) fn last_page() -> u64 {
    pages().saturating_sub(1)
}

/// Frames of the arena, by number of their first page and how many.
#[derive(Clone, Copy)]
pub(crate) struct Frames {
    /// First page.
    pub(crate) first: u64,
    /// Pages that runs may begin with.
    pub(crate) count: u64,
}

impl Frames {
    /// Those of one worker alone.
    pub(crate) fn of(worker: u32) -> Self {
        let each = Self::all().count / (WORKERS + 1);
        Self {
            first: FRAMES + (u64::from(worker) & (WORKERS - 1)) * each,
            count: each,
        }
    }

    /// Those that are shared by workers.
    pub(crate) fn shared() -> Self {
        let each = Self::all().count / (WORKERS + 1);
        Self {
            first: FRAMES + WORKERS * each,
            count: each,
        }
    }

    /// All that may be named to the host.
    pub(crate) fn all() -> Self {
        Self {
            first: FRAMES,
            count: pages().saturating_sub(FRAMES + MARGIN),
        }
    }

    /// Whether a frame is one of these.
    pub(crate) fn contains(&self, gfn: u64) -> bool {
        let first = address(self.first) / PAGE_SIZE as u64;
        gfn >= first && gfn - first < self.count
    }
}

/// The session that all workers believe in.
pub(crate) fn session() -> u64 {
    SESSION.load(Relaxed)
}

/// Begins another one.
pub(crate) fn set_session(session: u64) {
    SEQUENCE.store(0, Relaxed);
    SESSION.store(session, Relaxed);
}

/// A number that was not used in this session.
pub(crate) fn sequence() -> u64 {
    SEQUENCE.fetch_add(1, Relaxed) + 1
}
