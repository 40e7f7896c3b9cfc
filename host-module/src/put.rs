// SPDX-License-Identifier: GPL-2.0

//! Pages in. Room is reserved and pages are allocated for a call as a whole; data is copied before
//! a page is in the index, so without any lock.

use crate::ffi::{Fault, Guest};
use crate::host::Host;
use crate::mutation::mutated;
use crate::operation::Caller;
use crate::page::{Bin, Hands, Page};
use crate::pool::Refusal;
use crate::session::Session;
use ddabi::request::{Run, MAX_PAGES, MAX_RUNS};
use ddcore::request::Runs;
use ddcore::speculation::part;
use ddcore::store::{Batch, Part, Reason};

/// Room reserved in the tier; what is not used is given back.
struct Room<'a> {
    host: &'a Host,
    pages: u64,
}

impl<'a> Room<'a> {
    /// Reserves room for `pages`, or for as many as there can be now, or none.
    fn reserve(host: &'a Host, pages: u64) -> Self {
        let pages = host.make_room(pages);
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
    /// of any of their pages is gone either way (invariant 3). Returns the number of pages stored.
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
        let got = self.host.fill(&mut hands.pages[..reserved]);
        let stamp = self.session.stamp(wanted);
        let mut results: [Result<u16, Refusal>; MAX_RUNS] = [Err(Refusal::Off); MAX_RUNS];
        let mut next = 0;
        for (result, run) in results.iter_mut().zip(runs.iter()) {
            let pages = run.pages as usize;
            let part = part(next, pages, MAX_PAGES as usize);
            if !self.is_welcome(&run) {
                continue;
            }
            *result = if part.end > got {
                Err(Refusal::Memory)
            } else {
                next = part.end;
                fill(self.guest, &run, &mut hands.pages[part.clone()]).map(|()| part.start as u16)
            };
        }
        let filled = runs.iter().zip(results);
        let filled = filled.filter_map(|(run, result)| {
            let mut run = run;
            if mutated(c"wrong-owner") {
                run.pool = 0;
            }
            Some((run, usize::from(result.ok()?)))
        });
        let stored = self.session.insert(filled, hands, stamp);
        room.pages -= stored as u64;
        for (result, run) in results.into_iter().zip(runs.iter()) {
            let result = result.and_then(|place| {
                let place = usize::from(place);
                let rest = &hands.pages[place..place + run.pages as usize];
                let is_stored = rest.iter().all(Option::is_none);
                is_stored.then_some(()).ok_or(Refusal::Memory)
            });
            if let Err(refusal) = result {
                if let Some(pool) = self.session.pool(run.pool) {
                    pool.refuse(refusal, u64::from(run.pages));
                }
                self.session.discard(&run, &mut hands.batch);
            }
            told(result.is_ok());
        }
        self.host.retire(&mut hands.pages[..reserved]);
        stored as u64
    }

    /// Puts what a get took back into the index: what `mutated("get-leaves-pages")` does.
    pub(crate) fn keep(&self, runs: &Runs<'_>, hands: &mut Hands, found: usize) {
        if self.host.tier.reserve(found as u64) {
            let stamp = self.session.stamp(found as u64);
            self.session.insert(runs.placed(), hands, stamp);
        }
    }

    /// Whether the run's pool keeps pages.
    fn is_welcome(&self, run: &Run) -> bool {
        let pool = self.session.pool(run.pool);
        pool.is_some_and(|pool| pool.settings().is_on()) && self.vm.weight() > 0
    }
}

impl Session {
    /// Puts the pages in the hands that belong to runs into the index; those it keeps leave the
    /// hands. Returns their number.
    #[inline(never)]
    fn insert(
        &self,
        runs: impl Iterator<Item = (Run, usize)>,
        hands: &mut Hands,
        stamp: u64,
    ) -> usize {
        let mut total = 0;
        let Hands {
            pages,
            handles,
            batch,
            ..
        } = hands;
        for (handle, page) in handles.iter_mut().zip(pages.iter()) {
            let Some(page) = page else { break };
            *handle = page.handle();
        }
        self.by_shard(batch, runs, |shard, group| {
            let mut bin = Bin::new();
            let mut stored = 0;
            // Without memory for the index the pages stay in the hands.
            let _ = shard.with_room(&self.tier, group.len(), |store| {
                let keep = |part: &Part| {
                    for page in &mut pages[part.place()..part.place() + part.pages()] {
                        if let Some(page) = page.take() {
                            page.keep();
                        }
                    }
                    stored += part.pages();
                };
                store.insert(group, stamp, &handles[..], |_, older| bin.add(older), keep);
                // Before another call can take them out again: what a session uses must not fall
                // below zero, however its guest's calls race.
                self.came(stored, store);
            });
            total += stored;
            self.went(bin.count());
        });
        total
    }

    /// Frees what is held of a run.
    #[inline(never)]
    pub(crate) fn discard(&self, run: &Run, batch: &mut Batch) -> usize {
        let mut freed = 0;
        self.by_shard(batch, core::iter::once((*run, 0)), |shard, group| {
            let mut bin = Bin::new();
            shard.with(&self.tier, |store| {
                store.take(group, Reason::Flush, |_, page| bin.add(page));
            });
            self.went(bin.count());
            freed += bin.count();
        });
        freed
    }
}

/// Copies a run's data.
fn fill(guest: &Guest<'_>, run: &Run, pages: &mut [Option<Page>]) -> Result<(), Refusal> {
    Page::fill(pages, guest, run.gfn).map_err(|fault| match fault {
        Fault::NoMemory => Refusal::Fault,
        Fault::Absent => Refusal::Absent,
    })
}
