// SPDX-License-Identifier: GPL-2.0

//! The memory tier's books: how many pages there may be, and how many there are.
//!
//! Who has to give when it is full is `evict.rs`.

use crate::counters::{Counter, Totals};
use crate::number::Number;
use ddabi::genl::Mode;
use ddcore::account::Account;
use kernel::sync::atomic::{ordering::Relaxed, Atomic};

/// Pages of an eviction batch until the administrator says otherwise: the paper's 2 MiB.
const DEFAULT_BATCH: u32 = 512;

/// Largest eviction batch, which bounds how long others wait for it.
pub(crate) const MAX_BATCH: u32 = 1 << 14;

/// Puts between two ticks of the clock that tells how old a page is.
///
/// Stamps have 20 bits: they tell ages apart up to a TiB of puts.
const TICK: u64 = 512;

/// The memory tier.
pub(crate) struct Tier {
    capacity: Counter,
    floor: Counter,
    batch: Atomic<u32>,
    mode: Atomic<u32>,
    /// Pages reserved; those in the index and those on their way there.
    used: Account<Number>,
    /// Pages ever stored.
    puts: Counter,
    /// What the module counts.
    pub(crate) totals: Totals,
}

impl Tier {
    pub(crate) fn new(capacity: u64) -> Self {
        let tier = Self {
            capacity: Counter::new(),
            floor: Counter::new(),
            batch: Atomic::new(DEFAULT_BATCH),
            mode: Atomic::new(Mode::Weighted as u32),
            used: Account::new(),
            puts: Counter::new(),
            totals: Totals::new(),
        };
        tier.capacity.set(capacity);
        tier
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity.get()
    }

    pub(crate) fn set_capacity(&self, pages: u64) {
        self.capacity.set(pages);
    }

    pub(crate) fn floor(&self) -> u64 {
        self.floor.get()
    }

    pub(crate) fn set_floor(&self, pages: u64) {
        self.floor.set(pages);
    }

    pub(crate) fn batch(&self) -> u32 {
        self.batch.load(Relaxed)
    }

    pub(crate) fn set_batch(&self, pages: u32) {
        self.batch.store(pages.clamp(1, MAX_BATCH), Relaxed);
    }

    pub(crate) fn mode(&self) -> Mode {
        Mode::from_raw(self.mode.load(Relaxed)).unwrap_or(Mode::Weighted)
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        self.mode.store(mode as u32, Relaxed);
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.pages()
    }

    /// Whether there are more pages than there may be.
    pub(crate) fn is_overfull(&self) -> bool {
        self.used() > self.capacity()
    }

    /// Reserves pages if there is room.
    pub(crate) fn reserve(&self, pages: u64) -> bool {
        self.used.reserve(pages, || self.capacity())
    }

    /// Gives back what was reserved, because the pages are gone or were not needed.
    pub(crate) fn release(&self, pages: u64) {
        self.used.went(pages);
    }

    /// The age stamp of pages that come now.
    pub(crate) fn stamp(&self, pages: u64) -> u32 {
        self.puts.add(pages);
        self.now()
    }

    /// The clock that stamps are read from; it wraps.
    pub(crate) fn now(&self) -> u32 {
        (self.puts.get() / TICK) as u32
    }

    /// Ticks in an eviction batch.
    pub(crate) fn batch_ticks(&self) -> u32 {
        (self.batch() / TICK as u32).max(1)
    }
}
