// SPDX-License-Identifier: GPL-2.0-only

//! A segment of a device with the data and the checksums of its pages.

use crate::memory::without_waiting;
use crate::ssd::holding::Holding;
use crate::tier::page::Page;
use ddcore::ssd::segment::{self, Data};
use kernel::alloc::AllocError;
use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

/// A segment. Only `Device::opened` is taken under its lock.
#[pin_data]
pub(crate) struct Segment {
    #[pin]
    inner: SpinLock<Inner>,
}

/// The state of a segment that its lock protects.
pub(crate) struct Inner {
    pub(crate) life: segment::Segment,
    /// The pages that wait to be written, by place.
    pages: KVec<Option<Page>>,
    /// Checksums of the pages, by place.
    sums: KVec<u32>,
    /// Whether the segment is in the queue of the writers.
    pub(crate) queued: bool,
    /// Whether the segment is in the device's list of those that are being filled.
    pub(super) listed: bool,
    holding: Option<Arc<Holding>>,
}

/// Memory for the pages of a segment, allocated without its lock.
pub(crate) struct Room {
    pages: KVec<Option<Page>>,
    sums: KVec<u32>,
}

impl Room {
    pub(crate) fn new(size: u32) -> Result<Self, AllocError> {
        // Puts that make room call this deep in the stack, where they must not wait for memory.
        Ok(Self {
            pages: Page::absent(size as usize)?,
            sums: KVec::from_elem(0, size as usize, without_waiting())?,
        })
    }
}

/// Memory that is to be freed without the lock of the segment. Another spinlock may be held then,
/// so that it must be memory of `kmalloc`.
pub(crate) struct Waste {
    _pages: KVec<Option<Page>>,
    _sums: KVec<u32>,
    holding: Option<Arc<Holding>>,
    /// Number of pages that waited to be written.
    pub(crate) staged: usize,
}

/// Where a page is.
pub(crate) enum Found {
    /// The page is in memory, and this value is an additional owner of it.
    InMemory(Page),
    /// The page is on the device, with this checksum.
    Written(u32),
    /// The page is lost, because it could not be written.
    Lost,
}

impl Segment {
    pub(crate) fn new(size: u32) -> impl PinInit<Self, Error> {
        let inner = Inner {
            life: segment::Segment::new(size),
            pages: KVec::new(),
            sums: KVec::new(),
            queued: false,
            listed: false,
            holding: None,
        };
        try_pin_init!(Self {
            inner <- new_spinlock!(inner, "Segment::inner"),
        })
    }

    /// Works on the segment under its lock.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Inner) -> R) -> R {
        work(&mut self.inner.lock())
    }
}

impl Inner {
    /// Opens the segment, which must be free.
    pub(crate) fn open(&mut self, sequence: u64, room: Room, holding: Arc<Holding>) {
        self.life.open(sequence);
        self.pages = room.pages;
        self.sums = room.sums;
        self.holding = Some(holding);
    }

    /// Takes as many pages as the segment has places for, and returns their number. Each of them is
    /// replaced by the page that `place` returns for its place.
    pub(crate) fn fill(
        &mut self,
        pages: &mut [Option<Page>],
        sums: &[u32],
        place: impl Fn(u32) -> Page,
    ) -> usize {
        let places = self.life.fill(pages.len() as u32);
        let count = places.len();
        for ((at, page), sum) in places.zip(pages).zip(sums) {
            self.sums[at as usize] = *sum;
            self.pages[at as usize] = page.replace(place(at));
        }
        count
    }

    /// Returns where the data of a page is.
    pub(crate) fn find(&self, at: u32) -> Found {
        match self.life.data(at) {
            Data::Written => self
                .sums
                .get(at as usize)
                .map_or(Found::Lost, |sum| Found::Written(*sum)),
            Data::Lost => Found::Lost,
            Data::InMemory => {
                let page = self.pages.get(at as usize).and_then(Option::as_ref);
                page.and_then(Page::share)
                    .map_or(Found::Lost, Found::InMemory)
            }
        }
    }

    /// Returns the number of the write stream of the segment's pool.
    pub(crate) fn stream(&self) -> u32 {
        self.holding.as_ref().map_or(0, |holding| holding.stream)
    }

    /// Begins a write. Additional owners of the pages that are to be written are added to `pages`,
    /// which must be empty and have the capacity for all pages of a segment. Returns the first
    /// place, and whether the pages need not be written, because none of them exists any more.
    /// Returns `None` if there is nothing to write; the segment then counts as not queued, so that
    /// later pages queue it again.
    pub(crate) fn next_write(&mut self, pages: &mut KVVec<Option<Page>>) -> Option<(u32, bool)> {
        let Some(range) = self.life.begin_write() else {
            self.queued = false;
            return None;
        };
        for at in range.clone() {
            let page = self.pages.get(at as usize).and_then(Option::as_ref);
            // The capacity suffices for all pages of a segment.
            let _ = pages.push_within_capacity(page.and_then(Page::share));
        }
        Some((range.start, self.life.is_dead()))
    }

    /// Ends a write. Pages that are on the device now are moved to `written`, which must have room
    /// for them.
    pub(crate) fn end_write(&mut self, succeeded: bool, written: &mut KVVec<Page>) {
        for at in self.life.end_write(succeeded) {
            if let Some(page) = self.pages.get_mut(at as usize).and_then(Option::take) {
                let _ = written.push_within_capacity(page);
            }
        }
    }

    /// Takes the memory for pages that are not written yet out of a segment that has none and gets
    /// no more. The caller frees it without the lock.
    pub(crate) fn take_unused(&mut self) -> KVec<Option<Page>> {
        match !self.life.is_open() && self.life.in_memory() == 0 {
            true => core::mem::take(&mut self.pages),
            false => KVec::new(),
        }
    }

    /// Makes the segment free if it is closed and has no pages any more.
    pub(crate) fn vacate(&mut self) -> Option<Waste> {
        let rest = self.life.vacate()?;
        Some(Waste {
            _pages: core::mem::take(&mut self.pages),
            _sums: core::mem::take(&mut self.sums),
            holding: self.holding.take(),
            staged: rest.len(),
        })
    }
}

impl Waste {
    /// Returns the holding of the pool to which the segment belonged.
    pub(crate) fn holding(&self) -> Option<&Holding> {
        self.holding.as_deref()
    }
}
