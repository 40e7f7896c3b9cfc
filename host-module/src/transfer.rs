// SPDX-License-Identifier: GPL-2.0

//! Pages in and out: put and get of a run.
//!
//! Data is copied outside of all locks: on put before the pages are in the index, on get after
//! they have left it.

use crate::ffi::Guest;
use crate::operation::Caller;
use crate::page::{Bin, Page};
use crate::pool::{Pool, Refusal};
use crate::session::{groups, Session};
use ddabi::key::PageKey;
use ddabi::request::{Run, MAX_PAGES};
use ddcore::store::{Entry, Reason};
use kernel::prelude::*;

/// Room for the pages of the largest run, by their place in it.
pub(crate) struct Hands {
    pages: [Option<Page>; MAX_PAGES as usize],
    owners: [u16; MAX_PAGES as usize],
}

// SAFETY: All zeroes are empty hands: `Option<Page>` is `None`, for a page's number is not zero.
unsafe impl Zeroable for Hands {}

/// Room reserved in the tier; what is not used is given back.
struct Reservation<'a> {
    session: &'a Session,
    pages: u64,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.session.tier.release(self.pages);
    }
}

impl Caller<'_> {
    /// Stores a run, all of it or nothing. An older copy of any of its pages is gone either way
    /// (invariant 3).
    pub(crate) fn store(&self, run: &Run, hands: &mut Hands) -> bool {
        let pool = self.session.pool(run.pool);
        let on = pool.is_some_and(|pool| pool.settings().is_on()) && self.vm.weight() > 0;
        let result = if on {
            self.try_store(run, &mut hands.pages[..run.pages as usize])
        } else {
            Err(Refusal::Off)
        };
        if let Err(refusal) = result {
            if let Some(pool) = pool {
                pool.refuse(refusal, u64::from(run.pages));
            }
            self.session.discard(run);
        }
        result.is_ok()
    }

    fn try_store(&self, run: &Run, hands: &mut [Option<Page>]) -> Result<(), Refusal> {
        if !self.host.make_room(u64::from(run.pages)) {
            return Err(Refusal::Memory);
        }
        let mut room = Reservation {
            session: self.session,
            pages: u64::from(run.pages),
        };
        let result =
            fill(self.guest, run, hands).and_then(|()| self.session.insert(run, hands, &mut room));
        hands.fill_with(|| None);
        result
    }
}

impl Session {
    fn insert(
        &self,
        run: &Run,
        hands: &mut [Option<Page>],
        room: &mut Reservation<'_>,
    ) -> Result<(), Refusal> {
        let stamp = self.tier.stamp(u64::from(run.pages));
        for (index, part) in groups(run.index, hands.len()) {
            let first = PageKey {
                file: run.file,
                index,
            };
            let mut bin = Bin::new();
            let count = part.len();
            let shard = self.shard(&first);
            let stored = shard.with_room(&self.tier, count, |store| {
                let mut stored = 0;
                for (key, page) in keys(first).zip(&mut hands[part]) {
                    let Some(page) = page.take() else { break };
                    let inserted = store.insert(
                        &key,
                        Entry {
                            pool: run.pool as u16,
                            handle: page.into_handle(),
                            stamp,
                        },
                    );
                    if let Some(older) = inserted.replaced {
                        bin.add(older);
                    }
                    stored += usize::from(inserted.stored);
                }
                stored
            });
            let stored = stored.map_err(|_| Refusal::Memory)?;
            self.came(stored);
            room.pages -= stored as u64;
            self.went(bin.count());
            if stored < count {
                return Err(Refusal::Memory);
            }
        }
        Ok(())
    }

    /// Frees what is held of a run.
    pub(crate) fn discard(&self, run: &Run) -> usize {
        let mut freed = 0;
        for (index, part) in groups(run.index, run.pages as usize) {
            let first = PageKey {
                file: run.file,
                index,
            };
            let mut bin = Bin::new();
            self.shard(&first).with(&self.tier, |store| {
                for key in keys(first).take(part.len()) {
                    if let Some(page) = store.remove(&key, Reason::Flush) {
                        bin.add(page);
                    }
                }
            });
            self.went(bin.count());
            freed += bin.count();
        }
        freed
    }

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
        match (given, reader) {
            (true, Some(reader)) => {
                let own = run.pool as u16;
                let foreign = hands.owners[..pages].iter().filter(|owner| **owner != own);
                reader.hits_foreign.add(foreign.count() as u64);
            }
            (true, None) => {}
            (false, reader) => {
                if let Some(reader) = reader {
                    reader.misses.add(u64::from(run.pages));
                }
                if found > 0 {
                    self.spoil(run, hands);
                }
            }
        }
        hands.pages[..pages].fill_with(|| None);
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
                use ddcore::store::Storage;
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

fn fill(guest: &Guest<'_>, run: &Run, hands: &mut [Option<Page>]) -> Result<(), Refusal> {
    if !Page::allocate(hands) {
        return Err(Refusal::Memory);
    }
    for (gfn, page) in (run.gfn..).zip(hands.iter_mut().flatten()) {
        page.read_from(guest, gfn).map_err(|_| Refusal::Fault)?;
    }
    Ok(())
}

/// The pages of a file from one on.
fn keys(first: PageKey) -> impl Iterator<Item = PageKey> {
    (first.index..).map(move |index| PageKey { index, ..first })
}
