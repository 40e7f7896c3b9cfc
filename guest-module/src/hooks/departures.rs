// SPDX-License-Identifier: GPL-2.0

//! Folios between removal and freeing in a reclaiming task (`docs/decisions/0002`).

use crate::ffi::cpu;
use crate::lock::{new_irq_lock, IrqLock};
use crate::memory::quietly;
use ddabi::key::FileKey;
use ddabi::request::Run;
use kernel::prelude::*;
use kernel::sync::atomic::{
    ordering::{Acquire, Relaxed, Release},
    Atomic,
};

/// Tasks that reclaim at a time; further ones do not put.
const MAX_TASKS: usize = 64;
/// Places looked at for a task.
const MAX_PROBES: usize = 8;
/// Folios of one task: a kernel folio batch.
const MAX_FOLIOS: usize = 31;

/// A folio on its way out, and the run that puts it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Departure {
    /// The folio's address, to recognise it.
    pub(crate) folio: usize,
    /// What to send.
    pub(crate) run: Run,
}

impl Departure {
    /// The file.
    pub(crate) fn file(&self) -> &FileKey {
        &self.run.file
    }
}

/// A list of departures with a fixed bound.
#[derive(Default)]
pub(crate) struct FolioList {
    count: usize,
    folios: [Departure; MAX_FOLIOS],
}

impl FolioList {
    fn push(&mut self, departure: Departure) -> bool {
        let Some(reclaimer) = self.folios.get_mut(self.count) else {
            return false;
        };
        *reclaimer = departure;
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

/// The reclaimer of one task.
#[pin_data]
pub(crate) struct Reclaimer {
    /// The task, 0 if the reclaimer is free. Taken and given back by the task itself.
    task: Atomic<usize>,
    /// Used by the task alone, except for [`Departures::clear`]. Others do not wait for the lock.
    #[pin]
    departing: IrqLock<FolioList>,
}

/// The reclaimers of all tasks.
pub(crate) struct Departures {
    reclaimers: KVec<Pin<KBox<Reclaimer>>>,
    /// Places active, so that freeing costs nothing while no task reclaims.
    active: Atomic<u32>,
}

impl Departures {
    /// No departures.
    pub(crate) fn new() -> Result<Self> {
        let mut reclaimers = KVec::with_capacity(MAX_TASKS, quietly())?;
        for _ in 0..MAX_TASKS {
            let reclaimer = KBox::pin_init(
                pin_init!(Reclaimer {
                    task: Atomic::new(0),
                    departing <- new_irq_lock!(FolioList::default(), "Departures::departing"),
                }),
                quietly(),
            )?;
            reclaimers.push(reclaimer, quietly())?;
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

    /// Notes a folio that the running task removed; `false` if there is no reclaimer.
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

    /// Hands those departures of the running task to `put` that are among the folios being
    /// freed. The reclaimer is not locked while `put` runs.
    pub(crate) fn with_freed<I: Iterator<Item = usize>>(
        &self,
        freed: impl Fn() -> I,
        put: impl FnOnce(Freed<'_>),
    ) {
        // An interrupt handler that frees folios does not free those of the task it interrupted.
        if self.active.load(Relaxed) == 0 || !cpu::in_task() {
            return;
        }
        let Some(reclaimer) = self.reclaimer(cpu::current_task()) else {
            return;
        };
        let count = reclaimer
            .departing
            .with(|departing| departing.partition(|folio| freed().any(|one| one == folio)));
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

    /// Gives up all departures, because the hooks that would see their folios freed are gone.
    /// Calls `dropped` for each. To be called when no hook runs.
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

/// Departures of the running task whose folios are being freed.
#[derive(Clone, Copy)]
pub(crate) struct Freed<'a> {
    reclaimer: &'a Reclaimer,
    count: usize,
}

impl Freed<'_> {
    /// One of them. They are looked up one by one, for the stack has no room for all.
    pub(crate) fn get(&self, number: usize) -> Option<Departure> {
        let get = |departing: &mut FolioList| departing.folios.get(number).copied();
        (number < self.count)
            .then(|| self.reclaimer.departing.with(get))
            .flatten()
    }
}
