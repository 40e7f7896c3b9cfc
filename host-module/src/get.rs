// SPDX-License-Identifier: GPL-2.0

//! Pages out. Data is copied after a page has left the index, so without any lock.

use crate::ffi::Guest;
use crate::lists;
use crate::page::{Hands, Page};
use crate::pool::Pool;
use crate::session::Session;
use ddabi::request::Run;
use ddcore::store::{Part, Reason, Storage};

impl Session {
    /// Takes out what is kept of some runs and returns the number of pages. These are in
    /// `hands.pages`, at the places of the runs' pages; the caller must report them with
    /// `Session::went` once they are freed.
    #[inline(never)]
    pub(crate) fn take(
        &self,
        runs: impl Iterator<Item = (Run, usize)>,
        hands: &mut Hands,
    ) -> usize {
        let mut found = 0;
        if self.used() == 0 {
            return found;
        }
        let Hands {
            pages,
            owners,
            batch,
            ..
        } = hands;
        self.by_shard(batch, runs, |shard, group| {
            shard.with(&self.tier, |store| {
                store.take(group, Reason::Hit, |at, removed| {
                    owners[at] = removed.pool();
                    pages[at] = Page::from_removed(removed);
                    found += 1;
                });
            });
        });
        found
    }

    /// Writes a run that was taken out into the guest's frames, all of it or nothing. If something
    /// is missing, the rest is freed: the guest no longer knows it.
    ///
    /// The caller has seen that the frames may be written.
    #[inline(never)]
    pub(crate) fn give(
        &self,
        guest: &Guest<'_>,
        (run, place): (&Run, usize),
        hands: &mut Hands,
    ) -> bool {
        let places = place..place + run.pages as usize;
        let reader = self.pool(run.pool);
        if let Some(reader) = reader {
            reader.gets.add(u64::from(run.pages));
        }
        let pages = &hands.pages[places.clone()];
        let given = pages.iter().all(Option::is_some)
            && (run.gfn..).zip(pages).all(|(gfn, page)| {
                page.as_ref()
                    .is_some_and(|page| page.write_to(guest, gfn).is_ok())
            });
        if given {
            if let Some(reader) = reader {
                let owners = hands.owners[places.clone()].iter();
                let foreign = owners.filter(|list| lists::pool(**list) != run.pool);
                reader.hits_foreign.add(foreign.count() as u64);
            }
        } else {
            if let Some(reader) = reader {
                reader.misses.add(u64::from(run.pages));
            }
            if hands.pages[places].iter().any(Option::is_some) {
                self.spoil((run, place), hands);
            }
        }
        given
    }

    /// Corrects the counters of pages that were taken in vain.
    fn spoil(&self, (run, place): (&Run, usize), hands: &mut Hands) {
        let Hands {
            pages,
            owners,
            batch,
            ..
        } = hands;
        self.by_shard(batch, core::iter::once((*run, place)), |shard, group| {
            shard.with(&self.tier, |store| {
                let places = |part: &Part| part.place()..part.place() + part.pages();
                let places = group.parts().flat_map(places);
                for at in places.filter(|at| pages[*at].is_some()) {
                    let lists = store.storage_mut().lists_mut();
                    if let Some(list) = lists.get_mut(usize::from(owners[at])) {
                        list.spoil_hits(1);
                    }
                }
            });
        });
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
