// SPDX-License-Identifier: GPL-2.0-only

//! Pages whose content was evicted, or taken back by its guest, and which the next puts fill.
//!
//! A put that fills such a page neither allocates one nor makes the kernel clear it. While the host
//! is short of memory, a freed page would not be available again, and the tier would shrink with
//! every put. A put fills the whole page before it is in the index, as it does with a page that was
//! just allocated.
//!
//! Processors use parts of their own, so that they do not contend for one lock.

use crate::memory::gfp_nowarn;
use crate::stripe;
use crate::tier::page::Page;
use ddabi::request::MAX_PAGES;
use kernel::prelude::*;
use kernel::sync::atomic::{ordering::Relaxed, Atomic};
use kernel::sync::{new_spinlock, SpinLock};

/// Maximum number of pages of a part: those of a call, 4 MiB. Further pages are freed.
const SIZE: usize = MAX_PAGES as usize;

/// Number of pages that are given back in a step.
const STEP: usize = 64;

/// A part of the stock.
#[pin_data]
#[repr(align(64))]
struct Part {
    #[pin]
    pages: SpinLock<KVec<Page>>,
    /// Number of pages, so that an empty part is recognised without the lock.
    count: Atomic<u64>,
}

impl Part {
    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            pages <- new_spinlock!(KVec::with_capacity(SIZE, gfp_nowarn())?, "Stock::pages"),
            count: Atomic::new(0),
        })
    }

    fn len(&self) -> u64 {
        self.count.load(Relaxed)
    }

    fn add(&self, pages: &mut [Option<Page>]) {
        // Usually a put has used all of its pages.
        if pages.iter().all(Option::is_none) {
            return;
        }
        let mut stock = self.pages.lock();
        for page in pages {
            if stock.len() == SIZE {
                break;
            }
            if let Some(page) = page.take_if(|page| page.is_exclusive()) {
                // There is room, as checked above.
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

    /// Takes those pages that `is_wanted` accepts.
    fn take_if(&self, places: &mut [Option<Page>], is_wanted: impl Fn(&Page) -> bool) -> usize {
        if self.len() == 0 {
            return 0;
        }
        let mut stock = self.pages.lock();
        let mut places = places.iter_mut();
        let mut taken = 0;
        for at in (0..stock.len()).rev() {
            if !is_wanted(&stock[at]) {
                continue;
            }
            let Some(place) = places.next() else { break };
            let last = stock.pop();
            // The last page replaces the one that is taken, unless it is that one.
            *place = match (stock.get_mut(at), last) {
                (Some(page), Some(last)) => Some(core::mem::replace(page, last)),
                (_, last) => last,
            };
            taken += 1;
        }
        self.count.store(stock.len() as u64, Relaxed);
        taken
    }
}

/// Pages in stock.
pub(crate) struct Stock(Pin<KVBox<[Part]>>);

impl Stock {
    /// Creates an empty stock.
    pub(crate) fn new() -> Result<Self> {
        let parts = KVBox::pin_slice(|_| Part::new(), stripe::count(), gfp_nowarn())?;
        Ok(Self(parts))
    }

    fn own(&self) -> Option<&Part> {
        stripe::own(&self.0)
    }
}

impl ddcore::host::room::Stock<Page> for Stock {
    fn len(&self) -> u64 {
        self.0.iter().map(Part::len).sum()
    }

    fn add(&self, pages: &mut [Option<Page>]) {
        if let Some(part) = self.own() {
            part.add(pages);
        }
    }

    fn take(&self, places: &mut [Option<Page>]) -> usize {
        self.own().map_or(0, |part| part.take(places))
    }

    fn take_any(&self, places: &mut [Option<Page>]) -> usize {
        let mut taken = self.take(places);
        for part in self.0.iter() {
            // Without this, a put would lock the part of each processor for nothing.
            if taken == places.len() {
                break;
            }
            taken += part.take(&mut places[taken..]);
        }
        taken
    }

    fn give_back(&self, pages: u64, is_wanted: impl Fn(&Page) -> bool) -> u64 {
        let mut given = 0;
        for part in self.0.iter() {
            while given < pages {
                let mut step = [const { None }; STEP];
                let count = (pages - given).min(STEP as u64) as usize;
                let got = part.take_if(&mut step[..count], &is_wanted);
                if got == 0 {
                    break;
                }
                given += got as u64;
            }
        }
        given
    }
}
