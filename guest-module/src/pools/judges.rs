// SPDX-License-Identifier: GPL-2.0

//! The judges of all pools, each in a seat. A seat stays where it is until the module goes, so that
//! hooks need nothing but its number: a judge whose pool is gone is not asked.

use crate::ffi::machine;
use crate::memory::quietly;
use crate::pools::judge::{Budget, Judge};
use ddabi::answer::PoolPressure;
use ddabi::key::FileKey;
use ddabi::pool::MAX_POOLS;
use ddcore::policy::{Class, Policy, Verdict};
use kernel::prelude::*;
use kernel::sync::SetOnce;
use kernel::time::{Instant, Monotonic};

/// The seat of the default pool.
pub(crate) const DEFAULT_SEAT: u16 = 0;
/// History may take this part of the machine's memory, unless the administrator says otherwise.
const MEMORY_PART: u64 = 256;
/// And at least this many bytes.
const MEMORY_FLOOR: u64 = 4 << 20;

/// All seats.
pub(crate) struct Judges {
    seats: KVVec<SetOnce<Pin<KBox<Judge>>>>,
    budget: Budget,
    born: Instant<Monotonic>,
}

impl Judges {
    /// Seats that are empty, but for the default pool's. `bytes` bounds what all pools together
    /// remember, 0 for the default.
    pub(crate) fn new(bytes: u64) -> Result<Self> {
        let memory = machine::memory_bytes();
        let most = match bytes {
            0 => (memory / MEMORY_PART).max(MEMORY_FLOOR),
            bytes => bytes,
        };
        let mut seats = KVVec::with_capacity(MAX_POOLS as usize, quietly())?;
        for _ in 0..MAX_POOLS {
            seats.push(SetOnce::new(), quietly())?;
        }
        let judges = Self {
            seats,
            budget: Budget::new(most, memory),
            born: Instant::now(),
        };
        judges.open(DEFAULT_SEAT, Policy::DEFAULT)?;
        Ok(judges)
    }

    /// The judge in a seat. Any context.
    pub(crate) fn get(&self, seat: u16) -> Option<&Judge> {
        Some(self.seats.get(usize::from(seat))?.as_ref()?)
    }

    fn now(&self) -> u64 {
        self.born.elapsed().as_nanos().max(0) as u64
    }

    /// Gives a seat to a pool. Callers hold the list of pools, as for all that sleeps here.
    pub(crate) fn open(&self, seat: u16, policy: Policy) -> Result {
        let place = self.seats.get(usize::from(seat)).ok_or(ENOSPC)?;
        if place.as_ref().is_none() {
            place.populate(KBox::pin_init(Judge::new(), quietly())?);
        }
        let judge = place.as_ref().ok_or(ENOMEM)?;
        judge.begin(policy, &self.budget);
        Ok(())
    }

    /// Changes the policy of a seat's pool.
    pub(crate) fn set_policy(&self, seat: u16, policy: Policy) {
        if let Some(judge) = self.get(seat) {
            judge.set_policy(policy, &self.budget);
        }
    }

    /// Empties a seat.
    pub(crate) fn close(&self, seat: u16) {
        if let Some(judge) = self.get(seat) {
            judge.end(&self.budget);
        }
    }

    /// See [`Judge::hear`].
    pub(crate) fn hear(&self, seat: u16, said: &PoolPressure) {
        if let Some(judge) = self.get(seat) {
            judge.hear(said, self.now());
        }
    }

    /// See [`Judge::offered`].
    pub(crate) fn offered(
        &self,
        seat: u16,
        file: &FileKey,
        (index, pages): (u64, u32),
        refaulted: bool,
    ) -> Verdict {
        self.get(seat).map_or(Verdict::Put(Class::LOWEST), |judge| {
            judge.offered(file, index, pages, refaulted, self.now())
        })
    }

    /// See [`Judge::fade`].
    pub(crate) fn fade(&self) {
        for judge in self.seats.iter().filter_map(|seat| seat.as_ref()) {
            judge.fade();
        }
    }
}
