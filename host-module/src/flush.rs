// SPDX-License-Identifier: GPL-2.0

//! Pages that the guest no longer wants, or wants elsewhere.

use crate::lists::same_class;
use crate::mutation::mutated;
use crate::page::Bin;
use crate::session::Session;
use crate::shard::Memory;
use ddabi::key::{FileKey, MAX_INDEX};
use ddabi::request::{Run, MAX_PAGES};
use ddcore::request::Range;
use ddcore::store::{Batch, Cursor, Reason, Store, Walk};

/// Pages removed in one step under a shard's lock, at most.
const STEP: u32 = Bin::SIZE as u32;

/// What a call does at most: it removes this number of pages, or looks at as many blocks as takes
/// that time. The vCPU runs no guest meanwhile, and what waits for it may be urgent.
const EFFORT: u32 = MAX_PAGES;

/// What looking for a file in a shard costs that has none of its pages, in pages removed.
const MISS: u32 = 1;

/// How much a call may still do.
pub(crate) struct Effort(u32);

impl Effort {
    /// Of a call. Without an answer the guest could not ask for the rest.
    pub(crate) fn new(has_answer: bool) -> Self {
        match has_answer && !mutated(c"flushes-at-once") {
            true => Self(EFFORT),
            false => Self(u32::MAX),
        }
    }

    fn is_left(&self) -> bool {
        self.0 > 0
    }

    fn spend(&mut self, pages: u32) {
        self.0 = self.0.saturating_sub(pages);
    }
}

/// A range that a call did not finish, and how far it came.
#[derive(Clone, Copy)]
pub(crate) struct Rest {
    range: Range,
    shard: usize,
    cursor: Cursor,
}

/// What a call did with a range.
#[derive(Default)]
pub(crate) struct Flushed {
    /// Pages that were freed.
    pub(crate) pages: u64,
    /// The guest need not ask for it again.
    pub(crate) done: bool,
}

impl Session {
    /// Frees pages held of a range, as far as the effort of the call goes.
    pub(crate) fn flush(&self, range: &Range, batch: &mut Batch, effort: &mut Effort) -> Flushed {
        if self.used() == 0 {
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
                // Few: each is looked up.
                let run = Run {
                    file,
                    index: first,
                    pages: (last - first + 1) as u16,
                    ..Run::default()
                };
                effort.spend(run.pages.into());
                Flushed {
                    pages: self.discard(&run, batch) as u64,
                    done: true,
                }
            }
            Range::Pages { file, first, last } => {
                self.flush_file(range, effort, &file, (first, last))
            }
            Range::File(file) => self.flush_file(range, effort, &file, (0, MAX_INDEX)),
            Range::Filesystem(filesystem) => {
                self.flush_where(range, effort, |file| file.filesystem == filesystem)
            }
            Range::All => self.flush_where(range, effort, |_| true),
        }
    }

    fn flush_file(
        &self,
        range: &Range,
        effort: &mut Effort,
        file: &FileKey,
        pages: (u64, u64),
    ) -> Flushed {
        self.flush_shards(range, effort, |store, cursor, bin| {
            store.remove_range(file, pages, cursor, STEP, |page| bin.add(page))
        })
    }

    fn flush_where(
        &self,
        range: &Range,
        effort: &mut Effort,
        condemned: impl Fn(&FileKey) -> bool,
    ) -> Flushed {
        self.flush_shards(range, effort, |store, cursor, bin| {
            let reason = Reason::Flush;
            store.sweep(cursor, STEP, reason, &condemned, |page| bin.add(page))
        })
    }

    /// Takes steps on one shard after the other, from where the last call with this range ended. A
    /// VMM that is killed ends after the step it is in; what is not flushed goes with the VM.
    fn flush_shards(
        &self,
        range: &Range,
        effort: &mut Effort,
        mut step: impl FnMut(&mut Store<Memory>, &mut Cursor, &mut Bin) -> Walk,
    ) -> Flushed {
        let rest = self.unflushed.lock().take();
        let rest = rest.filter(|rest| rest.range == *range);
        let (mut at, mut cursor) =
            rest.map_or((0, Cursor::default()), |rest| (rest.shard, rest.cursor));
        let mut pages = 0;
        while let Some(shard) = self.shards.get(at) {
            if !effort.is_left() {
                *self.unflushed.lock() = Some(Rest {
                    range: *range,
                    shard: at,
                    cursor,
                });
                return Flushed { pages, done: false };
            }
            if crate::ffi::is_dying() {
                break;
            }
            let mut bin = Bin::new();
            let walk = shard.with(&self.tier, |store| step(store, &mut cursor, &mut bin));
            self.went(bin.count());
            pages += bin.count() as u64;
            match walk {
                Walk::More => effort.spend(STEP),
                Walk::Done => {
                    effort.spend(MISS.max(bin.count() as u32));
                    (at, cursor) = (at + 1, Cursor::default());
                }
            }
            drop(bin);
            crate::ffi::breathe();
        }
        Flushed { pages, done: true }
    }

    /// Moves a file's pages to a pool, where they keep their class. Returns their
    /// number.
    pub(crate) fn migrate(&self, file: &FileKey, pool: u32) -> u64 {
        let mut moved = 0;
        let now = self.clock.now();
        let to = |list| same_class(list, pool);
        for shard in self.shards.iter() {
            let mut cursor = Cursor::default();
            self.walk_unless_dying(shard, |store, _| {
                store.migrate(file, (to, now), &mut cursor, STEP, |_, pages| {
                    moved += u64::from(pages);
                })
            });
        }
        moved
    }
}
