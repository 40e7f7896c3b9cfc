// SPDX-License-Identifier: GPL-2.0-only

//! State that the workers share: the plan, the division of the arena, and the session.

use ddabi::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::atomic::{ordering::Relaxed, Atomic};

/// Maximum number of workers. Each has a block and frames of its own.
pub(crate) const WORKERS: u64 = 16;

/// Pages behind the frames that are named. A run may be longer than intended, by the maximum number
/// of pages of a request.
const MARGIN: u64 = 1024;

/// First page of the frames. The blocks are before it.
const FRAMES: u64 = MARGIN;

const MIN_PAGES: u64 = 4 * MARGIN;

/// Number of frames on either side of the memory that is plugged in and unplugged that are named
/// too.
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
    // When two processors write one block, the bytes of two frame numbers may mix. The upper bytes
    // therefore have to be the same.
    let last = (end / PAGE_SIZE as u64).saturating_sub(MARGIN + 1);
    let even = base & (PAGE_SIZE as u64 - 1) == 0 && frames & 0xff == 0;
    if !even || pages < MIN_PAGES || frames >> 16 != last >> 16 {
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

/// Sets the address and size of memory that is plugged in and unplugged.
pub(crate) fn set_moving(base: u64, size: u64) {
    MOVING_FIRST.store(base / PAGE_SIZE as u64, Relaxed);
    MOVING_COUNT.store(size / PAGE_SIZE as u64, Relaxed);
}

/// Returns a frame number in or near the memory that is plugged in and unplugged. `number` is below
/// [`moving`].
pub(crate) fn moving_frame(at: u64) -> u64 {
    (MOVING_FIRST.load(Relaxed) + at).saturating_sub(AROUND)
}

/// Returns the number of frames for [`moving_frame`].
pub(crate) fn moving() -> u64 {
    match MOVING_COUNT.load(Relaxed) {
        0 => 0,
        count => count + 2 * AROUND,
    }
}

/// Returns whether no other memory of the guest can be at a frame and those of a run behind it.
pub(crate) fn is_moving(gfn: u64) -> bool {
    gfn.wrapping_sub(moving_frame(0)) < moving()
}

/// Returns the number of pages of the arena.
pub(crate) fn pages() -> u64 {
    PAGES.load(Relaxed)
}

/// Returns the guest-physical address of a page of the arena.
pub(crate) fn address(page: u64) -> u64 {
    BASE.load(Relaxed) + page * PAGE_SIZE as u64
}

/// Returns the seed, which also marks this guest's pages.
pub(crate) fn seed() -> u64 {
    SEED.load(Relaxed)
}

/// Returns the kind of requests.
pub(crate) fn mode() -> u64 {
    MODE.load(Relaxed)
}

/// Takes up to `count` of the requests that are left to send.
pub(crate) fn take(count: i64) -> i64 {
    let before = LEFT.fetch_add(-count, Relaxed);
    before.clamp(0, count)
}

/// Returns the block of a worker: a page for the request, and one for the answer.
pub(crate) fn block(worker: u32) -> u64 {
    2 * (u64::from(worker) & (WORKERS - 1))
}

/// Returns a block that all workers write.
pub(crate) fn shared_block() -> u64 {
    2 * WORKERS
}

/// Returns a request page without memory behind it.
pub(crate) fn last_page() -> u64 {
    pages().saturating_sub(1)
}

/// Frames of the arena, by the first page and the number of pages.
#[derive(Clone, Copy)]
pub(crate) struct Frames {
    /// First page.
    pub(crate) first: u64,
    /// Number of pages at which runs may begin.
    pub(crate) count: u64,
}

impl Frames {
    /// Returns the frames of one worker.
    pub(crate) fn of(worker: u32) -> Self {
        let each = Self::all().count / (WORKERS + 1);
        Self {
            first: FRAMES + (u64::from(worker) & (WORKERS - 1)) * each,
            count: each,
        }
    }

    /// Returns the frames that workers share.
    pub(crate) fn shared() -> Self {
        let each = Self::all().count / (WORKERS + 1);
        Self {
            first: FRAMES + WORKERS * each,
            count: each,
        }
    }

    /// Returns all frames that may be named to the host.
    pub(crate) fn all() -> Self {
        Self {
            first: FRAMES,
            count: pages().saturating_sub(FRAMES + MARGIN),
        }
    }

    /// Returns whether a frame is one of these.
    pub(crate) fn contains(&self, gfn: u64) -> bool {
        let first = address(self.first) / PAGE_SIZE as u64;
        gfn >= first && gfn - first < self.count
    }
}

/// Returns the session of all workers.
pub(crate) fn session() -> u64 {
    SESSION.load(Relaxed)
}

/// Sets the session.
pub(crate) fn set_session(session: u64) {
    SEQUENCE.store(0, Relaxed);
    SESSION.store(session, Relaxed);
}

/// Returns a number that was not used in this session.
pub(crate) fn sequence() -> u64 {
    SEQUENCE.fetch_add(1, Relaxed) + 1
}
