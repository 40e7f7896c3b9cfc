// SPDX-License-Identifier: GPL-2.0-only

//! Flushes of page ranges that a guest no longer needs.

use super::bin::Bin;
use super::run::discard;
use super::session::Session;
use super::walk::STEP;
use crate::index::{Batch, Cursor, Index, Reason, Walk};
use crate::request::Range;
use ddabi::key::{FileKey, MAX_INDEX};
use ddabi::request::{Run, MAX_PAGES};

/// Bound of the work of a call: it removes this number of pages, or examines a number of blocks
/// that takes the same time. It is bounded because the vCPU runs no task of the guest during the
/// call.
const EFFORT: u32 = MAX_PAGES;

/// Cost of a search for a file in a shard that has none of its pages, in units of removed pages.
const MISS: u32 = 1;

/// The work that a call may still do.
#[derive(Debug)]
pub struct Effort(u32);

impl Effort {
    /// The effort of a call, which ends after about a millisecond and reports which ranges are done.
    pub const BOUNDED: Self = Self(EFFORT);

    fn is_left(&self) -> bool {
        self.0 > 0
    }

    fn spend(&mut self, pages: u32) {
        self.0 = self.0.saturating_sub(pages);
    }
}

/// The progress of a flush that a call did not finish.
#[derive(Clone, Copy, Debug)]
pub struct FlushProgress {
    range: Range,
    shard: usize,
    cursor: Cursor,
}

/// Result of a flush of a range.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Flushed {
    /// Number of pages that were freed.
    pub pages: u64,
    /// Whether the range is finished, so that the guest need not repeat it.
    pub done: bool,
}

/// Frees pages of a range until the call has reached its limit of effort.
pub fn flush<S: Session>(
    session: &S,
    range: &Range,
    batch: &mut Batch,
    effort: &mut Effort,
) -> Flushed {
    if session.is_empty() {
        return Flushed {
            pages: 0,
            done: true,
        };
    }
    if !effort.is_left() {
        return Flushed::default();
    }
    match *range {
        Range::Pages { file, first, last } if last - first < u64::from(MAX_PAGES) => {
            // A few pages are looked up one by one.
            let run = Run {
                file,
                index: first,
                pages: (last - first + 1) as u16,
                ..Run::default()
            };
            effort.spend(run.pages.into());
            Flushed {
                pages: discard(session, batch, &run) as u64,
                done: true,
            }
        }
        Range::Pages { file, first, last } => {
            flush_file(session, range, effort, (&file, (first, last)))
        }
        Range::File(file) => flush_file(session, range, effort, (&file, (0, MAX_INDEX))),
        Range::Filesystem(filesystem) => {
            flush_where(session, range, effort, |file| file.filesystem == filesystem)
        }
        Range::All => flush_where(session, range, effort, |_| true),
    }
}

fn flush_file<S: Session>(
    session: &S,
    range: &Range,
    effort: &mut Effort,
    (file, pages): (&FileKey, (u64, u64)),
) -> Flushed {
    flush_shards(session, range, effort, |index, cursor, bin| {
        let sink = |removed| bin.add(session, removed);
        index.remove_range(file, pages, cursor, STEP, sink)
    })
}

fn flush_where<S: Session>(
    session: &S,
    range: &Range,
    effort: &mut Effort,
    condemned: impl Fn(&FileKey) -> bool,
) -> Flushed {
    flush_shards(session, range, effort, |index, cursor, bin| {
        let sink = |removed| bin.add(session, removed);
        index.sweep(cursor, STEP, Reason::Flush, &condemned, sink)
    })
}

/// Processes one shard after the other in steps, beginning where the last call with this range
/// ended. If the calling task is killed, it returns after the current step, because the remaining
/// pages are freed together with the VM.
fn flush_shards<S: Session>(
    session: &S,
    range: &Range,
    effort: &mut Effort,
    mut step: impl FnMut(&mut Index<S::Storage>, &mut Cursor, &mut Bin<S::Page>) -> Walk,
) -> Flushed {
    let progress = session
        .take_flush_progress()
        .filter(|progress| progress.range == *range);
    let (mut shard, mut cursor) =
        progress.map_or((0, Cursor::default()), |it| (it.shard, it.cursor));
    let mut pages = 0;
    while shard < session.shards() {
        if !effort.is_left() {
            session.save_flush_progress(FlushProgress {
                range: *range,
                shard,
                cursor,
            });
            return Flushed { pages, done: false };
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
    Flushed { pages, done: true }
}
