// SPDX-License-Identifier: GPL-2.0-only

//! Operations on all shards of a session that can take several calls. The work of one call is
//! bounded, because its vCPU runs no task of the guest during the call. A call that reaches the
//! bound saves its position in the session, and the next call for the same operation continues
//! there.

use super::bin::Bin;
use super::session::Session;
use super::walk::STEP;
use crate::index::{Cursor, Index, Walk};
use crate::request::Range;
use ddabi::key::FileKey;
use ddabi::request::MAX_PAGES;

/// Bound of the work of a call: it removes or moves this number of pages, or examines a number of
/// blocks that takes the same time.
const EFFORT: u32 = MAX_PAGES;

/// Cost of a search for a file in a shard that has none of its pages, in units of removed pages.
const MISS: u32 = 1;

/// The work that a call may still do, in removed pages.
#[derive(Debug)]
pub struct Effort(u32);

impl Effort {
    /// Returns the work that a call may do, which takes about a millisecond.
    pub const fn bounded() -> Self {
        Self(EFFORT)
    }

    pub(super) fn is_left(&self) -> bool {
        self.0 > 0
    }

    pub(super) fn spend(&mut self, pages: u32) {
        self.0 = self.0.saturating_sub(pages);
    }
}

/// An operation that can take several calls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Work {
    /// A flush of a range.
    Flush(Range),
    /// The move of a file to a pool.
    Migrate(FileKey, u32),
}

/// The part of an operation that a call has done.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Part {
    /// Number of pages that were freed or moved.
    pub pages: u64,
    /// Whether the operation is complete, so that the guest need not repeat its call.
    pub done: bool,
}

/// The position at which a call has stopped an operation.
#[derive(Clone, Copy, Debug)]
struct Progress {
    work: Work,
    shard: usize,
    cursor: Cursor,
}

/// For each kind of operation, the one that the last call of that kind in a session left
/// incomplete.
#[derive(Debug)]
pub struct Unfinished {
    flush: Option<Progress>,
    migration: Option<Progress>,
}

impl Unfinished {
    /// Returns a value without operations.
    pub const fn new() -> Self {
        Self {
            flush: None,
            migration: None,
        }
    }

    fn of_kind(&mut self, work: &Work) -> &mut Option<Progress> {
        match work {
            Work::Flush(_) => &mut self.flush,
            Work::Migrate(..) => &mut self.migration,
        }
    }

    /// Removes and returns the position of an operation: a shard, and the cursor in it. The
    /// position of an operation that was not saved is the beginning.
    fn take(&mut self, work: &Work) -> (usize, Cursor) {
        let left = self.of_kind(work).take().filter(|left| left.work == *work);
        left.map_or((0, Cursor::default()), |left| (left.shard, left.cursor))
    }

    /// Forgets the position of the flush that was left incomplete.
    pub(super) fn forget_flush(&mut self) {
        self.flush = None;
    }

    fn save(&mut self, work: Work, (shard, cursor): (usize, Cursor)) {
        *self.of_kind(&work) = Some(Progress {
            work,
            shard,
            cursor,
        });
    }
}

impl Default for Unfinished {
    fn default() -> Self {
        Self::new()
    }
}

/// Calls `step` on one shard after the other, from the position at which the last call for the same
/// operation has stopped, until `effort` is used up. If the calling task is being killed, this
/// returns after the current step, because the pages are freed together with the VM. The result has
/// the number of pages that the steps have put into their bins.
pub(super) fn in_steps<S: Session>(
    session: &S,
    work: Work,
    effort: &mut Effort,
    mut step: impl FnMut(&mut Index<S::Storage>, &mut Cursor, &mut Bin<S::Page>) -> Walk,
) -> Part {
    let (mut shard, mut cursor) = session.with_unfinished(|unfinished| unfinished.take(&work));
    let mut pages = 0;
    while shard < session.shards() {
        if !effort.is_left() {
            session.with_unfinished(|unfinished| unfinished.save(work, (shard, cursor)));
            return Part { pages, done: false };
        }
        if session.is_dying() {
            break;
        }
        let mut bin = Bin::new();
        let walk = session.with(shard, |index| step(index, &mut cursor, &mut bin));
        bin.settle(session);
        pages += bin.count() as u64;
        match walk {
            Walk::More => effort.spend(STEP),
            Walk::Done => {
                effort.spend(MISS.max(bin.count() as u32));
                (shard, cursor) = (shard + 1, Cursor::default());
            }
        }
        drop(bin);
        session.cond_resched();
    }
    Part { pages, done: true }
}
