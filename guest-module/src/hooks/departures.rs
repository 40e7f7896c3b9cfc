// SPDX-License-Identifier: GPL-2.0-only

//! Folios that a reclaiming task has removed from the page cache and not freed yet.
//!
//! Reclaim removes folios one by one, with `i_pages` locked and interrupts off, and frees them in
//! batches. A call at each removal would cause an exit for each folio, and interrupts would be off
//! while the host copies it. So a removal only records the put, which is made when the batch is
//! freed (`docs/developers/decisions/0002-deferred-puts.md`).

use crate::ffi::cpu;
use crate::lock::{new_irq_lock, IrqLock};
use crate::memory::gfp_nowarn;
use ddabi::key::FileKey;
use ddabi::request::Run;
use kernel::prelude::*;
use kernel::sync::atomic::{
    ordering::{Acquire, Relaxed, Release},
    Atomic,
};

/// Maximum number of tasks that can have departures at a time. Further tasks that reclaim do not
/// put.
const MAX_TASKS: usize = 64;
/// Number of reclaimers that are probed for a task, which bounds the search.
const MAX_PROBES: usize = 8;
/// Departures of one task: the size of the kernel's folio batch.
const MAX_FOLIOS: usize = 31;

/// A folio that was removed from the page cache, and the run that puts its pages.
#[derive(Clone, Copy, Default)]
pub(crate) struct Departure {
    /// The folio's address. It identifies the folio and is never dereferenced.
    pub(crate) folio: usize,
    /// The run for the host.
    pub(crate) run: Run,
}

impl Departure {
    /// Returns the file that the folio belonged to.
    pub(crate) fn file(&self) -> &FileKey {
        &self.run.file
    }
}

/// Departures in an array of fixed size, because nothing can be allocated inside reclaim.
#[derive(Default)]
pub(crate) struct FolioList {
    count: usize,
    folios: [Departure; MAX_FOLIOS],
}

impl FolioList {
    fn push(&mut self, departure: Departure) -> bool {
        let Some(free) = self.folios.get_mut(self.count) else {
            return false;
        };
        *free = departure;
        self.count += 1;
        true
    }

    /// Moves departures whose folio `is_freed` to the front and returns their number.
    fn partition(&mut self, mut is_freed: impl FnMut(usize) -> bool) -> usize {
        let mut freed = 0;
        for n in 0..self.count {
            if is_freed(self.folios[n].folio) {
                self.folios.swap(n, freed);
                freed += 1;
            }
        }
        freed
    }

    fn pop(&mut self) -> Option<Departure> {
        self.count = self.count.checked_sub(1)?;
        self.folios.get(self.count).copied()
    }

    fn remove_front(&mut self, freed: usize) {
        self.folios.copy_within(freed..self.count, 0);
        self.count -= freed;
    }
}

/// The departures of one task.
#[pin_data]
pub(crate) struct Reclaimer {
    /// The task's address, or 0 if the reclaimer is free. The task itself claims the reclaimer and
    /// frees it.
    task: Atomic<usize>,
    /// The departures. The lock is never contended, because only the task itself takes it, and
    /// [`Departures::clear`] once no hook runs.
    #[pin]
    departing: IrqLock<FolioList>,
}

/// The departures of all tasks.
pub(crate) struct Departures {
    reclaimers: KVec<Pin<KBox<Reclaimer>>>,
    /// Number of claimed reclaimers. While it is 0, freeing folios costs one load.
    active: Atomic<u32>,
}

impl Departures {
    /// Allocates the reclaimers. Sleeps.
    pub(crate) fn new() -> Result<Self> {
        let mut reclaimers = KVec::with_capacity(MAX_TASKS, gfp_nowarn())?;
        for _ in 0..MAX_TASKS {
            let reclaimer = KBox::pin_init(
                pin_init!(Reclaimer {
                    task: Atomic::new(0),
                    departing <- new_irq_lock!(FolioList::default(), "Departures::departing"),
                }),
                gfp_nowarn(),
            )?;
            reclaimers.push(reclaimer, gfp_nowarn())?;
        }
        Ok(Self {
            reclaimers,
            active: Atomic::new(0),
        })
    }

    fn probe(&self, task: usize) -> impl Iterator<Item = &Reclaimer> {
        let start = ddabi::key::mix(task as u64) as usize;
        (0..MAX_PROBES).map(move |n| &*self.reclaimers[start.wrapping_add(n) % MAX_TASKS])
    }

    fn reclaimer(&self, task: usize) -> Option<&Reclaimer> {
        self.probe(task)
            .find(|reclaimer| reclaimer.task.load(Relaxed) == task)
    }

    /// Records a folio that the running task removed. Returns `false` if the task gets no
    /// reclaimer, or if its list is full.
    pub(crate) fn note(&self, departure: Departure) -> bool {
        let task = cpu::current_task();
        let reclaimer = self.reclaimer(task).or_else(|| {
            self.probe(task).find(|reclaimer| {
                let free = reclaimer.task.cmpxchg(0, task, Acquire).is_ok();
                if free {
                    self.active.fetch_add(1, Relaxed);
                }
                free
            })
        });
        reclaimer.is_some_and(|reclaimer| {
            reclaimer
                .departing
                .with(|departing| departing.push(departure))
        })
    }

    /// Calls `put` with those departures of the running task whose folios are among `freed`, and
    /// removes them afterwards. The list is not locked while `put` runs, because `put` makes
    /// hypercalls.
    pub(crate) fn with_freed<I: Iterator<Item = usize>>(
        &self,
        freed: impl Fn() -> I,
        put: impl FnOnce(Freed<'_>),
    ) {
        // Folios that an interrupt handler frees are not those of the task that it interrupted.
        if self.active.load(Relaxed) == 0 || !cpu::in_task() {
            return;
        }
        let Some(reclaimer) = self.reclaimer(cpu::current_task()) else {
            return;
        };
        // Reclaim usually frees folios in the order in which it removed them, so that the next one
        // is looked at first.
        let mut next = freed();
        let mut is_freed = |folio| {
            if next.next() == Some(folio) {
                return true;
            }
            next = freed();
            next.any(|one| one == folio)
        };
        let count = reclaimer
            .departing
            .with(|departing| departing.partition(&mut is_freed));
        if count > 0 {
            put(Freed { reclaimer, count });
        }
        let empty = reclaimer.departing.with(|departing| {
            departing.remove_front(count);
            departing.count == 0
        });
        if empty {
            reclaimer.task.store(0, Release);
            self.active.fetch_sub(1, Relaxed);
        }
    }

    /// Removes all departures and calls `dropped` for each of them, because the hook that would
    /// notice the freeing of their folios is detached. No hook may run.
    pub(crate) fn clear(&self, mut dropped: impl FnMut(&Departure)) {
        for reclaimer in &self.reclaimers {
            while let Some(departure) = reclaimer.departing.with(FolioList::pop) {
                dropped(&departure);
            }
            reclaimer.task.store(0, Release);
        }
        self.active.store(0, Relaxed);
    }
}

/// The departures of the running task whose folios are being freed.
#[derive(Clone, Copy)]
pub(crate) struct Freed<'a> {
    reclaimer: &'a Reclaimer,
    count: usize,
}

impl Freed<'_> {
    /// Returns departure `number`. They are copied one by one, because all of them would not fit on
    /// the stack.
    pub(crate) fn get(&self, number: usize) -> Option<Departure> {
        let get = |departing: &mut FolioList| departing.folios.get(number).copied();
        (number < self.count)
            .then(|| self.reclaimer.departing.with(get))
            .flatten()
    }
}
