// SPDX-License-Identifier: GPL-2.0-only

//! Accounts of the memory tier: its capacity, the limit while the host is short of memory, and the
//! number of its pages.
//!
//! When it is full, [`room`](super::room) decides from which VM and which pool pages are evicted.

use super::standing::Standing;
use crate::account::Account;
use crate::clock::{ticks, Clock};
use crate::limit::{Limit, TierState};
use crate::number::Number;
use ddabi::genl::{Mode, AUTOMATIC};

/// Default number of pages of an eviction batch: the paper's 2 MiB.
pub const DEFAULT_BATCH: u32 = 512;

/// The largest eviction batch, which bounds how long other tasks wait for it.
pub const MAX_BATCH: u32 = 1 << 14;

/// The background evictor keeps one page in this many of the tier free, but no more than a batch,
/// unless the administrator sets another number.
const RESERVE_PART: u64 = 64;

/// Pages are promoted while more than this many pages of the tier are free, or more than one in
/// [`VACANCY_PART`] if that is less, unless the administrator sets another number. The constant is
/// 64 MiB, as in the thesis (equation 5.2).
const VACANCY: u64 = 1 << 14;

/// See [`VACANCY`].
const VACANCY_PART: u64 = 4;

/// Time between two searches for pages to promote, in milliseconds.
const PROMOTION_MS: u64 = 100;

/// Accounts of a tier. Processors share all numbers, which are pages unless stated otherwise,
/// without a lock.
#[derive(Debug)]
pub struct Tier<N> {
    capacity: N,
    /// Number of pages that the host can spare.
    limit: Limit<N>,
    floor: N,
    batch: N,
    /// Number of pages that are kept free, or [`AUTOMATIC`].
    reserve: N,
    /// Number of free pages above which pages are promoted, or [`AUTOMATIC`].
    vacancy: N,
    /// Time at which the next search for pages to promote is due, in milliseconds.
    promotion: N,
    mode: N,
    /// Number of reserved pages: those in the index and those that are about to be inserted.
    used: Account<N>,
    /// The clock of the pages of all VMs while they form one FIFO.
    clock: Clock<N>,
    /// The sums of the standings that the VMs have published.
    standing: Standing<N>,
}

impl<N: Number> Tier<N> {
    /// Creates an empty tier of `capacity` pages.
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity: N::new(capacity),
            limit: Limit::new(),
            floor: N::new(0),
            batch: N::new(DEFAULT_BATCH.into()),
            reserve: N::new(AUTOMATIC),
            vacancy: N::new(AUTOMATIC),
            promotion: N::new(0),
            mode: N::new(Mode::Weighted as u64),
            used: Account::new(),
            clock: Clock::new(),
            standing: Standing::new(),
        }
    }

    /// Returns the sums of the standings that the VMs have published.
    pub fn standing(&self) -> &Standing<N> {
        &self.standing
    }

    /// Returns the number of pages that the administrator allows.
    pub fn capacity(&self) -> u64 {
        self.capacity.load()
    }

    /// Sets the number of pages that the administrator allows.
    pub fn set_capacity(&self, pages: u64) {
        self.capacity.swap(pages);
    }

    /// Returns the current limit of pages: the capacity, or less while the host is short of memory.
    /// The VMs divide this number.
    pub fn limit(&self) -> u64 {
        let capacity = self.capacity();
        // A floor that was raised after the limit fell takes effect immediately.
        self.limit.of(capacity).max(self.floor().min(capacity))
    }

    /// Returns whether the host cannot spare the whole capacity.
    pub fn is_scarce(&self) -> bool {
        self.limit() < self.capacity()
    }

    /// Lowers the limit to `pages`, but not below the floor, because the host cannot spare more at
    /// `now`, a time in milliseconds. Returns whether the limit fell.
    pub fn lower_limit(&self, pages: u64, now: u64) -> bool {
        self.limit.lower(pages.max(self.floor()), now)
    }

    /// Raises the limit if the host has had spare memory for a while at `now`, a time in
    /// milliseconds. `spare` returns the number of idle pages of the host, and is called only if
    /// that is needed.
    pub fn recover(&self, now: u64, spare: impl FnOnce() -> u64) {
        let state = TierState {
            capacity: self.capacity(),
            used: self.used(),
            batch: self.batch(),
        };
        self.limit.recover(now, &state, spare);
    }

    /// Returns the number of pages that the tier keeps however short of memory the host is.
    pub fn floor(&self) -> u64 {
        self.floor.load()
    }

    /// Sets the number of pages that the tier keeps however short of memory the host is.
    pub fn set_floor(&self, pages: u64) {
        self.floor.swap(pages);
    }

    /// Returns the number of pages of an eviction batch.
    pub fn batch(&self) -> u64 {
        self.batch.load()
    }

    /// Sets the number of pages of an eviction batch, which is limited to 1 to [`MAX_BATCH`].
    pub fn set_batch(&self, pages: u32) {
        self.batch.swap(pages.clamp(1, MAX_BATCH).into());
    }

    /// Returns the number of pages that the background evictor keeps free. The high threshold of
    /// the thesis is this far below the capacity.
    pub fn reserve_pages(&self) -> u64 {
        self.reserve_of(self.limit())
    }

    fn reserve_of(&self, limit: u64) -> u64 {
        match self.reserve.load() {
            AUTOMATIC => self.batch().min(limit / RESERVE_PART),
            pages => pages.min(limit / 2),
        }
    }

    /// Sets the number of pages that the background evictor keeps free, or [`AUTOMATIC`].
    pub fn set_reserve(&self, pages: u64) {
        self.reserve.swap(pages);
    }

    /// Returns the number of free pages above which pages are promoted. The low threshold of the
    /// thesis is this far below the capacity. The number is above that which the evictor keeps
    /// free, so that the evictor does not demote promoted pages again.
    pub fn vacancy(&self) -> u64 {
        self.vacancy_of(self.limit())
    }

    fn vacancy_of(&self, limit: u64) -> u64 {
        let pages = match self.vacancy.load() {
            AUTOMATIC => VACANCY.min(limit / VACANCY_PART),
            pages => pages,
        };
        pages.max(2 * self.reserve_of(limit)).min(limit)
    }

    /// Sets the number of free pages above which pages are promoted, or [`AUTOMATIC`].
    pub fn set_vacancy(&self, pages: u64) {
        self.vacancy.swap(pages);
    }

    /// Returns the number of pages that may be promoted, which is 0 while the host is short of
    /// memory.
    pub fn promotable(&self) -> u64 {
        let limit = self.limit();
        if limit < self.capacity() {
            return 0;
        }
        // All numbers must be computed from the same limit, because other tasks may change it.
        (limit - self.vacancy_of(limit)).saturating_sub(self.used())
    }

    /// Returns whether a search for pages to promote is due at `now`, a time in milliseconds.
    pub(super) fn is_promotion_due(&self, now: u64) -> bool {
        let due = self.promotion.load();
        now >= due && self.promotion.replace(due, now + PROMOTION_MS).is_ok()
    }

    /// Returns how the tier is divided.
    pub fn mode(&self) -> Mode {
        Mode::from_raw(self.mode.load() as u32).unwrap_or(Mode::Weighted)
    }

    /// Sets how the tier is divided. Before the pages of all VMs become one FIFO, [`Tier::follow`]
    /// is to be called with the clock of each session.
    pub fn set_mode(&self, mode: Mode) {
        self.mode.swap(mode as u64);
    }

    /// Makes pages that are put from now on younger than all pages that were stamped by a session's
    /// clock.
    pub fn follow(&self, session: &Clock<N>) {
        self.clock.raise(session);
    }

    /// Returns the stamp of pages that are put now into a session with this clock.
    pub fn stamp(&self, session: &Clock<N>, pages: u64) -> u64 {
        match self.mode() {
            Mode::Weighted => session.advance(pages),
            Mode::GlobalFifo => session.advance_with(&self.clock, pages),
        }
    }

    /// Returns the clock for ages while all pages are in one FIFO.
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Returns the time in which as many pages are put as an eviction batch has.
    pub fn batch_time(&self) -> u64 {
        ticks(self.batch())
    }

    /// Returns the number of reserved pages: those in the index and those that are about to be
    /// inserted.
    pub fn used(&self) -> u64 {
        self.used.pages()
    }

    /// Returns whether the number of pages exceeds the limit.
    pub fn is_overfull(&self) -> bool {
        self.used() > self.limit()
    }

    /// Returns the number of pages to evict in the background: those beyond the limit, and those
    /// for which puts need room. If less than the reserve is free, the latter are as many as twice
    /// the reserve requires; otherwise there are none. While the host is short of memory there are
    /// none either, because puts reuse the pages that they evict.
    pub fn shortage(&self) -> u64 {
        let (limit, used) = (self.limit(), self.used());
        let reserve = self.reserve_of(limit);
        let free = limit.saturating_sub(used);
        let missing = match free < reserve && limit == self.capacity() {
            true => 2 * reserve - free,
            false => 0,
        };
        used.saturating_sub(limit) + missing
    }

    /// Reserves pages. Returns whether there was room.
    pub fn reserve(&self, pages: u64) -> bool {
        self.used.reserve(pages, || self.limit())
    }

    /// Releases reserved pages that were removed or were not needed.
    pub fn release(&self, pages: u64) {
        self.used.subtract(pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::tests::Plain;

    #[test]
    fn thresholds_are_those_of_the_thesis_until_they_are_set() {
        // 512 MiB: table 5.1 has 504 MiB at the high threshold. 256 MiB: equation 5.2 has 192 MiB
        // at the low one.
        const MIB: u64 = 256;
        let tier = Tier::<Plain>::new(512 * MIB);
        tier.set_batch(8 * MIB as u32);
        assert_eq!(tier.reserve_pages(), 8 * MIB);
        let tier = Tier::<Plain>::new(256 * MIB);
        assert_eq!(tier.capacity() - tier.vacancy(), 192 * MIB);
        assert_eq!(tier.promotable(), 192 * MIB);
        assert!(tier.reserve(190 * MIB));
        assert_eq!(tier.promotable(), 2 * MIB);
        tier.set_vacancy(100 * MIB);
        assert_eq!(tier.promotable(), 0);
        tier.set_reserve(60 * MIB);
        assert_eq!(tier.shortage(), 0);
        assert!(tier.reserve(10 * MIB));
        assert_eq!(tier.shortage(), 64 * MIB);
        assert_eq!(tier.vacancy(), 120 * MIB);
        tier.lower_limit(250 * MIB, 0);
        tier.set_vacancy(0);
        assert_eq!(tier.promotable(), 0);
    }

    #[test]
    fn a_floor_raised_while_the_host_is_short_counts_at_once() {
        let tier = Tier::<Plain>::new(1000);
        tier.lower_limit(100, 0);
        assert!(tier.is_scarce() && tier.limit() == 100);
        tier.set_floor(300);
        assert_eq!(tier.limit(), 300);
        assert!(tier.reserve(300) && !tier.reserve(1));
        tier.lower_limit(0, 0);
        assert_eq!(tier.limit(), 300);
        tier.set_capacity(200);
        assert_eq!(tier.limit(), 200);
    }
}
