// SPDX-License-Identifier: GPL-2.0

//! The memory tier's books: how many pages there may be, how many its host can spare, and how many
//! there are.
//!
//! Who has to give when it is full is `evict.rs`.

use crate::counters::{Counter, Totals};
use crate::ffi;
use crate::mutation::mutated;
use crate::number::Number;
use ddabi::genl::Mode;
use ddcore::account::Account;
use ddcore::clock::{ticks, Clock};
use ddcore::limit::{Books, Limit};
use kernel::sync::atomic::{ordering::Relaxed, Atomic};
use kernel::time::{Instant, Monotonic};

/// Pages of an eviction batch until the administrator says otherwise: the paper's 2 MiB.
const DEFAULT_BATCH: u32 = 512;

/// Largest eviction batch, which bounds how long others wait for it.
pub(crate) const MAX_BATCH: u32 = 1 << 14;

/// The memory tier.
pub(crate) struct Tier {
    capacity: Counter,
    /// What the host can spare.
    limit: Limit<Number>,
    /// When the clock of `limit` began.
    born: Instant<Monotonic>,
    floor: Counter,
    batch: Atomic<u32>,
    mode: Atomic<u32>,
    /// Pages reserved; those in the index and those on their way there.
    used: Account<Number>,
    /// Of the pages of all VMs, while they stand in one FIFO.
    pub(crate) clock: Clock<Number>,
    /// What the module counts.
    pub(crate) totals: Totals,
}

impl Tier {
    pub(crate) fn new(capacity: u64) -> Self {
        let tier = Self {
            capacity: Counter::new(),
            limit: Limit::new(),
            born: Instant::now(),
            floor: Counter::new(),
            batch: Atomic::new(DEFAULT_BATCH),
            mode: Atomic::new(Mode::Weighted as u32),
            used: Account::new(),
            clock: Clock::new(),
            totals: Totals::new(),
        };
        tier.capacity.set(capacity);
        tier
    }

    /// What the administrator allows.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity.get()
    }

    /// Pages there may be now: the capacity, or less while the host is short of memory. This is
    /// what is divided among the VMs.
    pub(crate) fn limit(&self) -> u64 {
        let capacity = self.capacity();
        if mutated(c"capacity-alone") {
            return capacity;
        }
        self.limit.of(capacity)
    }

    /// Whether the host cannot spare the whole capacity.
    pub(crate) fn is_scarce(&self) -> bool {
        self.limit() < self.capacity()
    }

    /// The host can spare no more than these pages; but the floor remains.
    pub(crate) fn lower_limit(&self, pages: u64) {
        self.limit
            .lower(pages.max(self.floor()), self.milliseconds());
    }

    /// Raises the limit if the host has had memory to spare for a while.
    pub(crate) fn recover(&self) {
        let books = Books {
            capacity: self.capacity(),
            used: self.used(),
            batch: u64::from(self.batch()),
        };
        self.limit
            .recover(self.milliseconds(), &books, ffi::spare_pages);
    }

    fn milliseconds(&self) -> u64 {
        self.born.elapsed().as_millis().max(0) as u64
    }

    pub(crate) fn set_capacity(&self, pages: u64) {
        if mutated(c"capacity-fixed") {
            return;
        }
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
        if mutated(c"batch-fixed") {
            return;
        }
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
        self.used() > self.limit()
    }

    /// Reserves pages if there is room.
    pub(crate) fn reserve(&self, pages: u64) -> bool {
        self.used.reserve(pages, || self.limit())
    }

    /// Gives back what was reserved, because the pages are gone or were not needed.
    pub(crate) fn release(&self, pages: u64) {
        self.used.went(pages);
    }

    /// Ticks of its clock in which an eviction batch is put.
    pub(crate) fn batch_ticks(&self) -> u64 {
        ticks(u64::from(self.batch()))
    }
}
