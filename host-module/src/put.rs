// SPDX-License-Identifier: GPL-2.0

//! Pages in. Room is reserved and pages are allocated for a call as a whole; data is copied before
//! a page is in the index, so without any lock.

use crate::ffi::Guest;
use crate::host::Host;
use crate::operation::Caller;
use crate::page::{Bin, Hands, Page};
use crate::pool::Refusal;
use crate::session::{groups, keys, Session};
use ddabi::key::PageKey;
use ddabi::request::Run;
use ddcore::request::Runs;
use ddcore::store::{Entry, Reason};

/// Room reserved in the tier; what is not used is given back.
struct Room<'a> {
    host: &'a Host,
    pages: u64,
}

impl<'a> Room<'a> {
    /// Reserves room for `pages`, or for as many as there can ever be, or none.
    fn reserve(host: &'a Host, pages: u64) -> Self {
        let pages = pages.min(host.tier.capacity());
        let pages = if host.make_room(pages) { pages } else { 0 };
        Self { host, pages }
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.host.tier.release(self.pages);
    }
}

impl Caller<'_> {
    /// Stores runs, each as a whole or not at all, and tells of each whether it is. An older copy
    /// of any of their pages is gone either way (invariant 3). Says how many pages are stored.
    pub(crate) fn store(
        &self,
        runs: &Runs<'_>,
        hands: &mut Hands,
        mut told: impl FnMut(bool),
    ) -> u64 {
        let wanted = runs.iter().filter(|run| self.is_welcome(run));
        let wanted = wanted.map(|run| u64::from(run.pages)).sum();
        let mut room = Room::reserve(self.host, wanted);
        let reserved = room.pages as usize;
        let got = Page::allocate(&mut hands.pages[..reserved]);
        let stamp = self.session.tier.stamp(wanted);
        let (mut next, mut stored) = (0, 0);
        for run in runs.iter() {
            let part = next..next + run.pages as usize;
            let result = if !self.is_welcome(run) {
                Err(Refusal::Off)
            } else if part.end > got {
                Err(Refusal::Memory)
            } else {
                next = part.end;
                let pages = &mut hands.pages[part];
                fill(self.guest, run, pages)
                    .and_then(|()| self.session.insert(run, pages, &mut room.pages, stamp))
            };
            match result {
                Ok(()) => stored += u64::from(run.pages),
                Err(refusal) => {
                    if let Some(pool) = self.session.pool(run.pool) {
                        pool.refuse(refusal, u64::from(run.pages));
                    }
                    self.session.discard(run);
                }
            }
            told(result.is_ok());
        }
        hands.empty(reserved);
        stored
    }

    /// Whether the run's pool keeps pages.
    fn is_welcome(&self, run: &Run) -> bool {
        let pool = self.session.pool(run.pool);
        pool.is_some_and(|pool| pool.settings().is_on()) && self.vm.weight() > 0
    }
}

impl Session {
    /// Puts a run's pages into the index. What is stored uses up room.
    #[inline(never)]
    fn insert(
        &self,
        run: &Run,
        pages: &mut [Option<Page>],
        room: &mut u64,
        stamp: u32,
    ) -> Result<(), Refusal> {
        for (index, part) in groups(run.index, pages.len()) {
            let first = PageKey {
                file: run.file,
                index,
            };
            let mut bin = Bin::new();
            let pages = &mut pages[part];
            let count = pages.len();
            let stored = self.shard(&first).with_room(&self.tier, count, |store| {
                let mut stored = 0;
                for (key, place) in keys(first).zip(pages) {
                    let Some(page) = place.take() else { break };
                    let entry = Entry {
                        pool: run.pool as u16,
                        handle: page.handle(),
                        stamp,
                    };
                    let inserted = store.insert(&key, entry);
                    if let Some(older) = inserted.replaced {
                        bin.add(older);
                    }
                    if inserted.stored {
                        page.keep();
                        stored += 1;
                    }
                }
                // Before anybody can take them out again: what a session uses must not fall below
                // zero, however its guest's calls race.
                self.came(stored);
                stored
            });
            let stored = stored.map_err(|_| Refusal::Memory)?;
            *room -= stored as u64;
            self.went(bin.count());
            if stored < count {
                return Err(Refusal::Memory);
            }
        }
        Ok(())
    }

    /// Frees what is held of a run.
    #[inline(never)]
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
}

/// Copies a run's data.
fn fill(guest: &Guest<'_>, run: &Run, pages: &mut [Option<Page>]) -> Result<(), Refusal> {
    for (gfn, page) in (run.gfn..).zip(pages.iter_mut().flatten()) {
        page.read_from(guest, gfn).map_err(|_| Refusal::Fault)?;
    }
    Ok(())
}
