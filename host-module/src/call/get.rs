// SPDX-License-Identifier: GPL-2.0-only

//! Gets: access to the guest's frames and to the SSD tier, and deferral.

use crate::call::answer::Answer;
use crate::call::operation::{extent, Caller};
use crate::counters::{totals, Counter, Latency};
use crate::ffi::kvm::CallingVm;
use crate::ffi::tracepoints;
use crate::ssd::fetch::{Patience, ReadBefore};
use crate::tier::page::Page;
use crate::vm::pool::Pool;
use crate::vm::scratch::NoticeRoom;
use ddabi::hypercall;
use ddabi::request::{Run, MAX_RUNS};
use ddcore::host::carried::Carried;
use ddcore::host::get::{foreign, from_ssd, load, Found, Frames, Outcome, Target};
use ddcore::host::run::look;
use ddcore::host::session::Count;
use ddcore::host::Session as _;
use ddcore::request::{GetOptions, Runs};
use kernel::prelude::*;
use kernel::time::{Instant, Monotonic};

/// Returns the state of the guest's frames of a run.
fn frames(guest: &CallingVm<'_>, run: &Run) -> Frames {
    let pages = u64::from(run.pages);
    if !guest.is_writable(run.gfn, pages) {
        Frames::Tracked
    } else if guest.is_present(run.gfn, pages) {
        Frames::Ready
    } else {
        Frames::Absent
    }
}

/// The guest that gets pages, and the answer that reports its runs.
struct Getter<'a, 'room> {
    caller: &'a Caller<'a>,
    answer: Option<Answer<'room>>,
    read_before: ReadBefore,
    /// Whether the tracepoint of gets is on.
    is_traced: bool,
    /// Number of pages that the guest got.
    pages: u64,
    /// How many of them were in the SSD tier, if the get is traced.
    ssd_pages: u32,
    /// Whether frames could not be written because KVM tracks dirty pages, or there is no answer.
    is_tracked: bool,
    /// Whether runs are deferred.
    is_deferred: bool,
}

impl Target<Page> for Getter<'_, '_> {
    fn may_retain(&mut self, run: &Run) -> bool {
        self.caller.session.deferrals.may_retain(run.pages)
    }

    fn retained(&mut self, run: &Run) {
        self.caller.session.deferrals.note_retained(run.pages);
    }

    #[inline(never)]
    fn fetch(&mut self, runs: impl Iterator<Item = (Run, usize)>, pages: &mut [Option<Page>]) {
        let (ssd, seed) = (&self.caller.host.ssd, self.caller.seed());
        ssd.fetch(runs, pages, seed, &mut self.read_before, Patience::Adaptive);
        self.caller.consider_promotion();
    }

    fn write(&mut self, page: &Page, gfn: u64) -> bool {
        page.write_to(self.caller.guest, gfn).is_ok()
    }

    fn settled(&mut self, run: &Run, outcome: Outcome<'_>) {
        let pages = u64::from(run.pages);
        let pool = self.caller.session.pool(run.pool);
        let miss = |pool: &Pool| {
            pool.gets.add(pages);
            pool.misses.add(pages);
        };
        match outcome {
            Outcome::Given { owners, .. } => {
                self.pages += pages;
                if self.is_traced {
                    self.ssd_pages += from_ssd(owners);
                }
                if let Some(pool) = pool {
                    pool.gets.add(pages);
                    pool.hits_foreign.add(foreign(run, owners));
                }
            }
            Outcome::Missed => _ = pool.map(miss),
            Outcome::Refused(frames) => {
                self.is_tracked |= frames == Frames::Tracked;
                pool.map(miss);
            }
            Outcome::Deferred => self.is_deferred = true,
        }
        let Some(answer) = &mut self.answer else {
            return;
        };
        match outcome {
            Outcome::Given { is_retained, .. } if is_retained => answer.add_retained(),
            Outcome::Given { .. } => answer.add(true),
            Outcome::Missed | Outcome::Refused(_) => answer.add(false),
            Outcome::Deferred => answer.add_reading(),
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
    ) -> hypercall::Outcome {
        let mut states = [Frames::Untold; MAX_RUNS];
        for (state, run) in states.iter_mut().zip(runs.iter()) {
            // Without the answer page the guest could not know which runs were given.
            if answer.is_some() {
                *state = frames(self.guest, &run);
            }
        }
        let mut start = self.start;
        let mut read_before = ReadBefore::nothing();
        if let Some(answer) = &mut answer {
            match options.ticket {
                0 if options.may_defer => {
                    read_before = self.defer(runs, &mut states, answer, carried);
                }
                0 => {}
                _ => (start, read_before) = self.resume(options, &mut states, answer),
            }
        }
        let mut getter = Getter {
            caller: self,
            is_tracked: answer.is_none(),
            answer,
            read_before,
            is_traced: tracepoints::get_is_on(),
            pages: 0,
            ssd_pages: 0,
            is_deferred: false,
        };
        let may_retain = options.may_retain && self.host.ssd.retains();
        let found = load(
            (self.host, &**self.session),
            runs.placed(),
            (&mut states, may_retain),
            carried,
            &mut getter,
        );
        self.end_get(runs, start, found, getter, notices)
    }

    /// Counts a get that has found pages, and ends it.
    #[inline(never)]
    fn end_get(
        &self,
        runs: &Runs<'_>,
        start: Instant<Monotonic>,
        Found { taken, is_on_ssd }: Found,
        getter: Getter<'_, '_>,
        notices: &mut NoticeRoom,
    ) -> hypercall::Outcome {
        if getter.is_tracked {
            totals().dirty_tracked.add(1);
        }
        let counters: fn(&Pool) -> (&Counter, &Latency) = match is_on_ssd {
            true => Pool::ssd_get_counters,
            false => Pool::get_counters,
        };
        self.session
            .deferrals
            .note_unused(getter.read_before.unused());
        // A get with deferred runs is counted when the guest repeats it.
        if !getter.is_deferred {
            let latency = self.count_batch(runs, counters, start);
            if getter.is_traced {
                let (vm, (pool, asked)) = (self.vm.number, extent(runs));
                let ssd_pages = getter.ssd_pages;
                let memory_pages = getter.pages as u32 - ssd_pages;
                let tier = match taken {
                    _ if is_on_ssd => c"ssd",
                    Count { memory: 1.., .. } => c"memory",
                    Count { .. } => c"none",
                };
                tracepoints::get(vm, pool, asked, memory_pages, ssd_pages, tier, latency);
            }
        }
        self.finish_batch(runs, getter.pages, getter.answer, notices)
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
