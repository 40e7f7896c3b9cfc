// SPDX-License-Identifier: GPL-2.0-only

//! Pages whose content was evicted, or returned to its guest, and which are filled by the next
//! puts.
//!
//! They are kept only while the host is short of memory. If the tier freed a page then, it could
//! not allocate another one, and would shrink with every put. A put fills the whole page before it
//! is in the index, as it does with a page that was just allocated.

use crate::memory::quietly;
use crate::tier::page::Page;
use ddabi::request::MAX_PAGES;
use kernel::prelude::*;
use kernel::sync::atomic::{ordering::Relaxed, Atomic};
use kernel::sync::{new_spinlock, SpinLock};

/// Maximum number of pages that are kept, which is the number of pages of a call. Other pages are
/// freed.
const SIZE: usize = MAX_PAGES as usize;

/// Number of pages freed in a step.
const STEP: usize = 64;

/// Pages in stock.
#[pin_data]
pub(crate) struct Stock {
    #[pin]
    pages: SpinLock<KVec<Page>>,
    /// Number of pages, which can be read without the lock.
    count: Atomic<u64>,
}

impl Stock {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            pages <- new_spinlock!(KVec::with_capacity(SIZE, quietly())?, "Stock::pages"),
            count: Atomic::new(0),
        })
    }
}

impl ddcore::host::room::Stock<Page> for Stock {
    fn len(&self) -> u64 {
        self.count.load(Relaxed)
    }

    fn add(&self, pages: &mut [Option<Page>]) {
        let mut stock = self.pages.lock();
        for place in pages {
            if stock.len() == SIZE {
                break;
            }
            if let Some(page) = place.take_if(|page| page.is_exclusive()) {
                // The capacity is `SIZE`, which was compared above.
                let _ = stock.push_within_capacity(page);
            }
        }
        self.count.store(stock.len() as u64, Relaxed);
    }

    fn take(&self, places: &mut [Option<Page>]) -> usize {
        if self.len() == 0 {
            return 0;
        }
        let mut stock = self.pages.lock();
        let mut taken = 0;
        for place in places {
            let Some(page) = stock.pop() else { break };
            *place = Some(page);
            taken += 1;
        }
        self.count.store(stock.len() as u64, Relaxed);
        taken
    }

    fn give_back(&self, pages: u64) -> u64 {
        let mut given = 0;
        while given < pages {
            let mut step = [const { None }; STEP];
            let wanted = (pages - given).min(STEP as u64) as usize;
            let got = self.take(&mut step[..wanted]);
            if got == 0 {
                break;
            }
            given += got as u64;
        }
        given
    }
}
