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
const TASKS: usize = 64;
/// Places looked at for a task.
const PROBES: usize = 8;
/// Folios of one task: a kernel folio batch.
const FOLIOS: usize = 31;

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
pub(crate) struct Departing {
    count: usize,
    folios: [Departure; FOLIOS],
}

impl Departing {
    fn push(&mut self, departure: Departure) -> bool {
        let Some(place) = self.folios.get_mut(self.count) else {
            return false;
        };
        *place = departure;
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

/// The place of one task.
#[pin_data]
pub(crate) struct Place {
    /// The task, 0 if the place is free. Taken and given back by the task itself.
    task: Atomic<usize>,
    /// Used by the task alone, except for [`Departures::clear`]. Others do not wait for the lock.
    #[pin]
    departing: IrqLock<Departing>,
}

/// The places of all tasks.
pub(crate) struct Departures {
    places: KVec<Pin<KBox<Place>>>,
    /// Places taken, so that freeing costs nothing while no task reclaims.
    taken: Atomic<u32>,
}

impl Departures {
    /// No departures.
    pub(crate) fn new() -> Result<Self> {
        let mut places = KVec::with_capacity(TASKS, quietly())?;
        for _ in 0..TASKS {
            let place = KBox::pin_init(
                pin_init!(Place {
                    task: Atomic::new(0),
                    departing <- new_irq_lock!(Departing::default(), "Departures::departing"),
                }),
                quietly(),
            )?;
            places.push(place, quietly())?;
        }
        Ok(Self {
            places,
            taken: Atomic::new(0),
        })
    }

    fn probe(&self, task: usize) -> impl Iterator<Item = &Place> {
        let start = ddabi::key::mix(task as u64) as usize;
        (0..PROBES).map(move |n| &*self.places[start.wrapping_add(n) % TASKS])
    }

    fn place_of(&self, task: usize) -> Option<&Place> {
        self.probe(task)
            .find(|place| place.task.load(Relaxed) == task)
    }

    /// Notes a folio that the running task removed; `false` if there is no place.
    pub(crate) fn note(&self, departure: Departure) -> bool {
        let task = cpu::current_task();
        let place = self.place_of(task).or_else(|| {
            self.probe(task).find(|place| {
                let free = place.task.cmpxchg(0, task, Acquire).is_ok();
                if free {
                    self.taken.fetch_add(1, Relaxed);
                }
                free
            })
        });
        place.is_some_and(|place| place.departing.with(|departing| departing.push(departure)))
    }

    /// Hands those departures of the running task to `put` that are among the folios being
    /// freed. The place is not locked while `put` runs.
    pub(crate) fn leave<I: Iterator<Item = usize>>(
        &self,
        freed: impl Fn() -> I,
        put: impl FnOnce(Leaving<'_>),
    ) {
        // An interrupt handler that frees folios does not free those of the task it interrupted.
        if self.taken.load(Relaxed) == 0 || !cpu::in_task() {
            return;
        }
        let Some(place) = self.place_of(cpu::current_task()) else {
            return;
        };
        let count = place
            .departing
            .with(|departing| departing.partition(|folio| freed().any(|one| one == folio)));
        if count > 0 {
            put(Leaving { place, count });
        }
        let empty = place.departing.with(|departing| {
            departing.remove_front(count);
            departing.count == 0
        });
        if empty {
            place.task.store(0, Release);
            self.taken.fetch_sub(1, Relaxed);
        }
    }

    /// Gives up all departures, because the hooks that would see their folios freed are gone.
    /// Calls `dropped` for each. To be called when no hook runs.
    pub(crate) fn clear(&self, mut dropped: impl FnMut(&Departure)) {
        for place in &self.places {
            while let Some(departure) = place.departing.with(Departing::pop) {
                dropped(&departure);
            }
            place.task.store(0, Release);
        }
        self.taken.store(0, Relaxed);
    }
}

/// Departures of the running task whose folios are being freed.
#[derive(Clone, Copy)]
pub(crate) struct Leaving<'a> {
    place: &'a Place,
    count: usize,
}

impl Leaving<'_> {
    /// One of them. They are looked up one by one, for the stack has no room for all.
    pub(crate) fn get(&self, number: usize) -> Option<Departure> {
        let get = |departing: &mut Departing| departing.folios.get(number).copied();
        (number < self.count)
            .then(|| self.place.departing.with(get))
            .flatten()
    }
}
