// SPDX-License-Identifier: GPL-2.0-only

//! The admission of each pool, in a slot. A slot is not freed before the module is unloaded, so
//! that hooks can use it without a reference. No route refers to the admission of a removed pool.

use crate::ffi::machine;
use crate::memory::gfp_nowarn;
use crate::pools::admission::{Budget, PoolAdmission, Rule};
use ddabi::answer::PoolPressure;
use ddabi::key::FileKey;
use ddabi::pool::MAX_POOLS;
use ddcore::policy::{Class, Verdict};
use ddcore::request::Settings;
use kernel::prelude::*;
use kernel::sync::SetOnce;
use kernel::time::{Instant, Monotonic};

/// The slot of the default pool.
pub(crate) const DEFAULT_SLOT: u16 = 0;
/// By default, the history of all pools may take one part in this many of the VM's memory.
const MEMORY_PART: u64 = 256;
/// The smallest default bound of the history in bytes.
const MEMORY_FLOOR: u64 = 4 << 20;

/// The admission of all pools.
pub(crate) struct Admissions {
    slots: KVVec<SetOnce<Pin<KBox<PoolAdmission>>>>,
    budget: Budget,
    start: Instant<Monotonic>,
}

impl Admissions {
    /// Allocates the slots and opens that of the default pool. `bytes` bounds the history of all
    /// pools together; 0 stands for the default. Sleeps.
    pub(crate) fn new(bytes: u64) -> Result<Self> {
        let memory = machine::memory_bytes();
        let limit = match bytes {
            0 => (memory / MEMORY_PART).max(MEMORY_FLOOR),
            bytes => bytes,
        };
        let mut slots = KVVec::with_capacity(MAX_POOLS as usize, gfp_nowarn())?;
        for _ in 0..MAX_POOLS {
            slots.push(SetOnce::new(), gfp_nowarn())?;
        }
        let admissions = Self {
            slots,
            budget: Budget::new(limit, memory),
            start: Instant::now(),
        };
        admissions.open(DEFAULT_SLOT, Rule::of(&Settings::DEFAULT))?;
        Ok(admissions)
    }

    /// Returns the admission in a slot. Any context.
    pub(crate) fn get(&self, slot: u16) -> Option<&PoolAdmission> {
        Some(self.slots.get(usize::from(slot))?.as_ref()?)
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos().max(0) as u64
    }

    /// Opens a slot for a pool. Sleeps; callers hold `Pools::list`, as for all functions here that
    /// sleep.
    pub(crate) fn open(&self, slot: u16, rule: Rule) -> Result {
        let cell = self.slots.get(usize::from(slot)).ok_or(ENOSPC)?;
        if cell.as_ref().is_none() {
            cell.populate(KBox::pin_init(PoolAdmission::new(), gfp_nowarn())?);
        }
        let admission = cell.as_ref().ok_or(ENOMEM)?;
        admission.open(rule, &self.budget);
        Ok(())
    }

    /// Changes the rule of the pool in a slot. Sleeps.
    pub(crate) fn set_rule(&self, slot: u16, rule: Rule) {
        if let Some(admission) = self.get(slot) {
            admission.set_rule(rule, &self.budget);
        }
    }

    /// Closes a slot, because its pool was removed. Sleeps.
    pub(crate) fn close(&self, slot: u16) {
        if let Some(admission) = self.get(slot) {
            admission.close(&self.budget);
        }
    }

    /// See [`PoolAdmission::note_pressure`].
    pub(crate) fn note_pressure(&self, slot: u16, pressure: &PoolPressure) {
        if let Some(admission) = self.get(slot) {
            admission.note_pressure(pressure, self.now());
        }
    }

    /// See [`PoolAdmission::decide`].
    pub(crate) fn decide(
        &self,
        slot: u16,
        file: &FileKey,
        (index, pages): (u64, u32),
        refaulted: bool,
    ) -> Verdict {
        self.get(slot)
            .map_or(Verdict::Put(Class::LOWEST), |admission| {
                admission.decide(file, index, pages, refaulted, self.now())
            })
    }

    /// See [`PoolAdmission::fade`].
    pub(crate) fn fade(&self) {
        for admission in self.slots.iter().filter_map(|slot| slot.as_ref()) {
            admission.fade();
        }
    }
}
