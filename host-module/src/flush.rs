// SPDX-License-Identifier: GPL-2.0

//! Pages that the guest no longer wants, or wants elsewhere.

use crate::lists::same_class;
use crate::page::Bin;
use crate::session::Session;
use ddabi::key::{FileKey, MAX_INDEX};
use ddabi::request::{Run, MAX_PAGES};
use ddcore::request::Range;
use ddcore::store::{Batch, Cursor, Reason};

/// Pages removed in one step under a shard's lock, at most.
const STEP: u32 = Bin::SIZE as u32;

impl Session {
    /// Frees what is held of a range; says how many pages.
    pub(crate) fn flush(&self, range: &Range, batch: &mut Batch) -> u64 {
        if self.used() == 0 {
            return 0;
        }
        match *range {
            Range::Pages { file, first, last } => {
                let pages = last - first + 1;
                if pages <= u64::from(MAX_PAGES) {
                    // Few: each is looked up.
                    let run = Run {
                        file,
                        index: first,
                        pages: pages as u16,
                        ..Run::default()
                    };
                    self.discard(&run, batch) as u64
                } else {
                    self.flush_file(&file, (first, last))
                }
            }
            Range::File(file) => self.flush_file(&file, (0, MAX_INDEX)),
            Range::Filesystem(filesystem) => self.flush_where(|file| file.filesystem == filesystem),
            Range::All => self.flush_where(|_| true),
        }
    }

    fn flush_file(&self, file: &FileKey, range: (u64, u64)) -> u64 {
        let mut freed = 0;
        for shard in self.shards.iter() {
            let mut cursor = Cursor::default();
            freed += self.walk_unless_dying(shard, |store, bin| {
                store.remove_range(file, range, &mut cursor, STEP, |page| bin.add(page))
            });
        }
        freed
    }

    fn flush_where(&self, condemned: impl Fn(&FileKey) -> bool) -> u64 {
        let mut freed = 0;
        for shard in self.shards.iter() {
            let mut cursor = Cursor::default();
            freed += self.walk_unless_dying(shard, |store, bin| {
                store.sweep(&mut cursor, STEP, Reason::Flush, &condemned, |page| {
                    bin.add(page)
                })
            });
        }
        freed
    }

    /// Moves a file's pages to a pool, where they keep their class; says how many changed hands.
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
