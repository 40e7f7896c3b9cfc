// SPDX-License-Identifier: GPL-2.0

//! Pages out. Data is copied after a page has left the index, so without any lock.

use crate::ffi::Guest;
use crate::page::{Hands, Page};
use crate::pool::Pool;
use crate::session::{groups, keys, Session};
use ddabi::key::PageKey;
use ddabi::request::Run;
use ddcore::store::{Reason, Storage};

impl Session {
    /// Takes a run out and writes it into the guest's frames, all of it or nothing. If something
    /// is missing, the rest is freed: the guest no longer knows it.
    ///
    /// The caller has seen that the frames may be written.
    pub(crate) fn get(&self, guest: &Guest<'_>, run: &Run, hands: &mut Hands) -> bool {
        let pages = run.pages as usize;
        let reader = self.pool(run.pool);
        if let Some(reader) = reader {
            reader.gets.add(u64::from(run.pages));
        }
        let found = self.take(run, hands);
        let given = found == pages
            && (run.gfn..).zip(&hands.pages[..pages]).all(|(gfn, page)| {
                page.as_ref()
                    .is_some_and(|page| page.write_to(guest, gfn).is_ok())
            });
        if given {
            if let Some(reader) = reader {
                let own = run.pool as u16;
                let foreign = hands.owners[..pages].iter().filter(|owner| **owner != own);
                reader.hits_foreign.add(foreign.count() as u64);
            }
        } else {
            if let Some(reader) = reader {
                reader.misses.add(u64::from(run.pages));
            }
            if found > 0 {
                self.spoil(run, hands);
            }
        }
        hands.empty(pages);
        self.went(found);
        given
    }

    fn take(&self, run: &Run, hands: &mut Hands) -> usize {
        let mut found = 0;
        if self.used() == 0 {
            return found;
        }
        for (index, part) in groups(run.index, run.pages as usize) {
            let first = PageKey {
                file: run.file,
                index,
            };
            self.shard(&first).with(&self.tier, |store| {
                for (key, at) in keys(first).zip(part) {
                    if let Some(removed) = store.remove(&key, Reason::Hit) {
                        hands.owners[at] = removed.pool();
                        hands.pages[at] = Page::from_removed(removed);
                        found += 1;
                    }
                }
            });
        }
        found
    }

    /// Corrects the counters of pages that were taken in vain.
    fn spoil(&self, run: &Run, hands: &Hands) {
        for (index, part) in groups(run.index, run.pages as usize) {
            let first = PageKey {
                file: run.file,
                index,
            };
            self.shard(&first).with(&self.tier, |store| {
                for at in part.filter(|at| hands.pages[*at].is_some()) {
                    let lists = store.storage_mut().lists_mut();
                    if let Some(list) = lists.get_mut(usize::from(hands.owners[at])) {
                        list.spoil_hits(1);
                    }
                }
            });
        }
    }

    /// Counts a run that was not looked up.
    pub(crate) fn miss(&self, run: &Run) {
        let count = |pool: &Pool| {
            pool.gets.add(u64::from(run.pages));
            pool.misses.add(u64::from(run.pages));
        };
        self.pool(run.pool).map(count);
    }
}
