// SPDX-License-Identifier: GPL-2.0

//! The memory tier: its books, its pages and its time behind the engine's interface
//! (`ddcore::host::Host`), which a tier on another kind of memory implements as well.

use crate::counters::Totals;
use crate::ffi;
use crate::host::Host;
use crate::number::Number;
use crate::page::Page;
use crate::registry::Roster;
use crate::session::Session;
use crate::stock::Stock;
use core::ops::{Deref, DerefMut};
use kernel::time::{Instant, Monotonic};

/// The books of the memory tier, and what the module counts.
pub(crate) struct Tier {
    books: ddcore::host::tier::Tier<Number>,
    /// When the clock of its limit began.
    born: Instant<Monotonic>,
    pub(crate) totals: Totals,
}

impl Tier {
    pub(crate) fn new(capacity: u64) -> Self {
        Self {
            books: ddcore::host::tier::Tier::new(capacity),
            born: Instant::now(),
            totals: Totals::new(),
        }
    }
}

impl Deref for Tier {
    type Target = ddcore::host::tier::Tier<Number>;

    fn deref(&self) -> &Self::Target {
        &self.books
    }
}

impl ddcore::host::Host for Host {
    type Number = Number;
    type Page = Page;
    type Stock = Stock;
    type Session = Session;
    type Roster = Roster;

    fn tier(&self) -> &ddcore::host::tier::Tier<Number> {
        &self.tier
    }

    fn lock(&self) -> impl DerefMut<Target = Roster> {
        self.vms.lock()
    }

    fn try_lock(&self) -> Option<impl DerefMut<Target = Roster>> {
        self.vms.try_lock()
    }

    fn stock(&self) -> &Stock {
        &self.stock
    }

    fn allocate(&self, pages: &mut [Option<Page>], below_floor: bool) -> usize {
        Page::allocate(pages, below_floor)
    }

    fn spare(&self) -> u64 {
        ffi::spare_pages()
    }

    fn milliseconds(&self) -> u64 {
        self.tier.born.elapsed().as_millis().max(0) as u64
    }

    fn evicted(&self, pages: u64) {
        self.tier.totals.eviction_batches.add(1);
        self.tier.totals.evicted.add(pages);
    }

    fn breathe(&self) {
        ffi::breathe();
    }

    fn is_dying(&self) -> bool {
        ffi::is_dying()
    }
}
