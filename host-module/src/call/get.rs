// SPDX-License-Identifier: GPL-2.0-only

//! Gets.

use crate::call::answer::Answer;
use crate::call::operation::{extent, Caller};
use crate::counters::{totals, Counter, Latency};
use crate::ffi::kvm::CallingVm;
use crate::ffi::tracepoints;
use crate::ssd::fetch::{Patience, ReadBefore};
use crate::tier::page::Page;
use crate::vm::pool::Pool;
use crate::vm::scratch::NoticeRoom;
use crate::vm::session::Session;
use ddabi::hypercall::Outcome;
use ddabi::request::{Run, MAX_RUNS};
use ddcore::host::carried::Carried;
use ddcore::host::get::{foreign, from_ssd, give, give_shared, share, take};
use ddcore::host::room::retire;
use ddcore::host::run::{discard, look};
use ddcore::host::session::Count;
use ddcore::host::Session as _;
use ddcore::request::{GetOptions, Runs};
use kernel::prelude::*;
use kernel::time::{Instant, Monotonic};

/// State of the guest's frames of a run of a get.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Frames {
    /// The frames can be written.
    Ready,
    /// The frames can be written, and the SSD tier keeps the pages of the run.
    Retained,
    /// The frames must not be written, because KVM tracks dirty pages.
    Tracked,
    /// Some of the frames are not in the host's memory, or are not ordinary memory.
    Absent,
    /// The frames are not needed yet, because the host is still reading the pages of the run.
    Reading,
}

impl Frames {
    pub(crate) fn of(guest: &CallingVm<'_>, run: &Run) -> Self {
        let pages = u64::from(run.pages);
        if !guest.is_writable(run.gfn, pages) {
            Self::Tracked
        } else if guest.is_present(run.gfn, pages) {
            Self::Ready
        } else {
            Self::Absent
        }
    }
}

impl Caller<'_> {
    #[inline(never)]
    pub(super) fn get(
        &self,
        runs: &Runs<'_>,
        options: GetOptions,
        mut answer: Option<Answer<'_>>,
        carried: &mut Carried<Page>,
        notices: &mut NoticeRoom,
    ) -> Outcome {
        let mut pages = 0;
        let mut tracked = answer.is_none();
        let mut frames = [Frames::Tracked; MAX_RUNS];
        for (frames, run) in frames.iter_mut().zip(runs.iter()) {
            // Without the answer page the guest could not know which runs were given.
            if answer.is_some() {
                *frames = Frames::of(self.guest, &run);
            }
        }
        let mut start = self.start;
        let mut read_before = ReadBefore::nothing();
        if let Some(answer) = &mut answer {
            match options.ticket {
                0 if options.may_defer => {
                    read_before = self.defer(runs, &mut frames, answer, carried);
                }
                0 => {}
                _ => (start, read_before) = self.resume(options, &mut frames, answer),
            }
        }
        let mut is_on_ssd = options.may_retain && self.retain(runs, &mut frames, carried);
        let wanted = runs.placed().zip(&frames);
        let wanted = wanted.filter_map(|(run, frames)| (*frames == Frames::Ready).then_some(run));
        let found = take(&**self.session, wanted, carried);
        is_on_ssd |= found.ssd > 0;
        if is_on_ssd {
            self.fetch(runs, carried, &mut read_before);
        }
        let is_traced = tracepoints::get_is_on();
        let (mut total, mut reading, mut ssd_pages) = (0, 0, 0);
        for ((run, place), frames) in runs.placed().zip(frames.iter().copied()) {
            total = place + run.pages as usize;
            if frames == Frames::Reading {
                reading += 1;
                if let Some(answer) = &mut answer {
                    answer.add_reading();
                }
                continue;
            }
            let is_retained = frames == Frames::Retained;
            let given = (is_retained || frames == Frames::Ready)
                && self
                    .session
                    .give(self.guest, (&run, place), is_retained, carried);
            if given {
                pages += u64::from(run.pages);
                if is_traced {
                    ssd_pages += from_ssd((&run, place), carried);
                }
            }
            if matches!(frames, Frames::Tracked | Frames::Absent) {
                tracked |= frames == Frames::Tracked;
                self.session.miss(&run);
                if answer.is_some() {
                    // The guest has already removed the pages of this run from its presence map.
                    discard(&**self.session, &mut carried.batch, &run);
                }
            }
            match &mut answer {
                Some(answer) if given && is_retained => answer.add_retained(),
                Some(answer) => answer.add(given),
                None => {}
            }
        }
        retire(self.host, &mut carried.pages[..total]);
        self.session.sub_used(&found);
        if tracked {
            totals().dirty_tracked.add(1);
        }
        let counters: fn(&Pool) -> (&Counter, &Latency) = match is_on_ssd {
            true => Pool::ssd_get_counters,
            false => Pool::get_counters,
        };
        self.session.deferrals.note_unused(read_before.unused());
        // A get with deferred runs is counted when the guest repeats it.
        if reading == 0 {
            let latency = self.count_batch(runs, counters, start);
            if is_traced {
                let (vm, (pool, asked)) = (self.vm.number, extent(runs));
                let memory_pages = pages as u32 - ssd_pages;
                let tier = match found {
                    _ if is_on_ssd => c"ssd",
                    Count { memory: 1.., .. } => c"memory",
                    Count { .. } => c"none",
                };
                tracepoints::get(vm, pool, asked, memory_pages, ssd_pages, tier, latency);
            }
        }
        self.finish_batch(runs, pages, answer, notices)
    }

    /// Finds the runs whose pages are all in the SSD tier, if the tier keeps pages that it returns.
    /// Their pages stay in the index, and `carried` has additional owners of them. Returns whether
    /// there are such runs.
    #[inline(never)]
    fn retain(
        &self,
        runs: &Runs<'_>,
        frames: &mut [Frames; MAX_RUNS],
        carried: &mut Carried<Page>,
    ) -> bool {
        let mut has_some = false;
        if self.host.ssd.retains() {
            let ready = frames.iter_mut().zip(runs.placed());
            for (frames, (run, place)) in ready.filter(|(frames, _)| **frames == Frames::Ready) {
                // Pages of a pool that has left the SSD tier leave it when they are read.
                let can_be_there =
                    self.session.ssd_share(run.pool) > 0 && self.session.places(run.pool) > 0;
                let may_retain = can_be_there && self.session.deferrals.may_retain(run.pages);
                if may_retain && share(&**self.session, (&run, place), carried) {
                    self.session.deferrals.note_retained(run.pages);
                    *frames = Frames::Retained;
                    has_some = true;
                }
            }
        }
        has_some
    }

    /// Reads the pages that a get has found in the SSD tier, except those in `read_before`.
    #[inline(never)]
    fn fetch(&self, runs: &Runs<'_>, carried: &mut Carried<Page>, read_before: &mut ReadBefore) {
        let pages = &mut carried.pages[..];
        let ssd = &self.host.ssd;
        let patience = Patience::Adaptive;
        ssd.fetch(runs.placed(), pages, self.seed(), read_before, patience);
        self.consider_promotion();
    }

    /// Returns a function for the seeds of the checksums of pages.
    fn seed(&self) -> impl Fn(&Run, u64) -> u64 + '_ {
        let session = self.session;
        |run: &Run, index| session.seed(session.file_hash(run), index)
    }

    /// Begins to read pages of runs that are in the SSD tier and defers these runs, if the tier
    /// expects that to be better than waiting. Their pages stay in the index. Returns the pages
    /// that were read if the runs cannot be deferred after all.
    #[inline(never)]
    fn defer(
        &self,
        runs: &Runs<'_>,
        frames: &mut [Frames; MAX_RUNS],
        answer: &mut Answer<'_>,
        carried: &mut Carried<Page>,
    ) -> ReadBefore {
        let nothing = ReadBefore::nothing();
        // Pages that belong to pools other than those of the runs are not deferred, because
        // looking up the pages of all gets would cost more.
        let is_on_ssd = |pool| self.session.places(pool) > 0;
        if !self.host.ssd.may_defer() || !runs.iter().any(|run| is_on_ssd(run.pool)) {
            return nothing;
        }
        let deferrals = &self.session.deferrals;
        let total = runs.pages() as usize;
        let Some(_promise) = deferrals.promise(total) else {
            self.host.ssd.watch();
            return nothing;
        };
        let Carried { pages, batch, .. } = carried;
        let pages = &mut pages[..total];
        let ready = runs.placed().zip(&*frames);
        let ready = ready.filter_map(|(run, frames)| (*frames == Frames::Ready).then_some(run));
        look(&**self.session, batch, ready, |at, held| {
            if held.is_placed() {
                pages[at] = Page::of_index(held);
            }
        });
        let reads = self
            .host
            .ssd
            .look_up(runs.placed(), pages, self.seed(), None);
        let mut waits = [false; MAX_RUNS];
        for (waits, (run, at)) in waits.iter_mut().zip(runs.placed()) {
            let mut pages = pages[at..at + run.pages as usize].iter().flatten();
            *waits = pages.any(|page| page.place().is_some());
        }
        let get = self.host.ssd.defer(reads, pages, self.start);
        // A deferred get has taken the pages that it keeps. This releases all others.
        pages.fill_with(|| None);
        let Some(get) = get else { return nothing };
        let wait_us = get.wait_us();
        match deferrals.add(get) {
            Ok(ticket) => {
                answer.set_ticket(ticket, wait_us);
                let waiting = frames.iter_mut().zip(waits).filter(|(_, waits)| *waits);
                waiting.for_each(|(frames, _)| *frames = Frames::Reading);
                totals().gets_deferred.add(1);
                nothing
            }
            Err(get) => KBox::into_inner(get)
                .collect(&self.host.ssd)
                .unwrap_or(nothing),
        }
    }

    /// Returns the time at which a deferred get first arrived, and the pages that were read for it.
    /// If pages are still being read, this defers the get again, or waits if that is impossible.
    #[inline(never)]
    fn resume(
        &self,
        options: GetOptions,
        frames: &mut [Frames; MAX_RUNS],
        answer: &mut Answer<'_>,
    ) -> (Instant<Monotonic>, ReadBefore) {
        let Some(mut get) = self.session.deferrals.take(options.ticket) else {
            return (self.start, ReadBefore::nothing());
        };
        if options.may_defer && !get.has_ended() {
            let wait_us = get.wait_us();
            match self.session.deferrals.add(get) {
                Ok(ticket) => {
                    answer.set_ticket(ticket, wait_us);
                    let ready = frames.iter_mut().filter(|frames| **frames == Frames::Ready);
                    ready.for_each(|frames| *frames = Frames::Reading);
                    return (self.start, ReadBefore::nothing());
                }
                Err(same) => get = same,
            }
        }
        let start = get.start;
        let read = KBox::into_inner(get).collect(&self.host.ssd);
        (start, read.unwrap_or(ReadBefore::nothing()))
    }
}

impl Session {
    /// Writes a run into the guest's frames, as a whole or not at all, and counts it. The run was
    /// taken out of the index, or stays there if it `is_retained`. Returns whether it was written.
    ///
    /// The caller must have checked that the frames can be written.
    #[inline(never)]
    pub(crate) fn give(
        &self,
        guest: &CallingVm<'_>,
        placed: (&Run, usize),
        is_retained: bool,
        carried: &mut Carried<Page>,
    ) -> bool {
        let run = placed.0;
        let write = |page: &Page, gfn| page.write_to(guest, gfn).is_ok();
        let given = match is_retained {
            true => give_shared(self, placed, carried, write),
            false => give(self, placed, carried, write),
        };
        if !given {
            self.miss(run);
        } else if let Some(reader) = self.pool(run.pool) {
            reader.gets.add(u64::from(run.pages));
            reader.hits_foreign.add(foreign(placed, carried));
        }
        given
    }

    /// Counts a run that was not found, or not looked up.
    pub(crate) fn miss(&self, run: &Run) {
        let count = |pool: &Pool| {
            pool.gets.add(u64::from(run.pages));
            pool.misses.add(u64::from(run.pages));
        };
        self.pool(run.pool).map(count);
    }
}
