// SPDX-License-Identifier: GPL-2.0-only

//! Gets that are deferred: the pages stay in the index, and are read while the reader sleeps in the
//! guest. The same get comes again later and finds its pages read, see [`ddabi::answer::READING`].
//!
//! A get that does not come again leaves no trace but what is kept here, which is forgotten after a
//! second.

use crate::ffi::queue;
use crate::memory::without_waiting;
use crate::ssd::fetch::{ReadBefore, Reads};
use crate::ssd::Ssd;
use crate::state::host;
use crate::tier::page::Page;
use crate::vm::charge::charged;
use ddabi::ssd::Waiting;
use kernel::alloc::AllocError;
use kernel::prelude::*;
use kernel::sync::atomic::ordering::{Full, Relaxed};
use kernel::sync::{new_spinlock, SpinLock};
use kernel::time::{Instant, Monotonic};

/// Average time of a read in microseconds from which a get is deferred. A task of a guest that sleeps
/// wakes up some 50 microseconds late, and comes back with a further call.
const SLOW_US: u64 = 200;

/// Deferred gets of a VM, at most.
const MOST: usize = 64;

/// Pages that are read for the deferred gets of all VMs, at most: 64 MiB.
const MOST_PAGES: u64 = 1 << 14;

/// Milliseconds after which a get that has not come again is forgotten.
const EXPIRY_MS: i64 = 1000;

/// A get whose pages are being read.
pub(crate) struct Deferred {
    ticket: u64,
    /// When the get came first.
    pub(crate) start: Instant<Monotonic>,
    reads: Reads,
    /// Further owners of the places that are read.
    held: KVec<Page>,
    _charge: Charge,
}

/// Pages that count as deferred until this is dropped.
struct Charge(u64);

impl Charge {
    fn new(ssd: &Ssd, pages: u64) -> Option<Self> {
        // Dropping it subtracts the pages again.
        let charge = Self(pages);
        (ssd.deferred.fetch_add(pages, Relaxed) + pages <= MOST_PAGES).then_some(charge)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some(host) = host() {
            host.ssd.deferred.fetch_sub(self.0, Relaxed);
        }
    }
}

impl Deferred {
    /// Returns whether the pages have been read, or could not be.
    pub(crate) fn has_ended(&self) -> bool {
        self.reads.has_ended()
    }

    /// Returns the microseconds after which the pages will probably have been read.
    pub(crate) fn wait_us(&self) -> u32 {
        let passed = self.start.elapsed().as_micros_ceil().max(0) as u64;
        let average = self.reads.average_us();
        // A part of the average if that has passed: reads that took longer end one after the other.
        let left = average.saturating_sub(passed).max(average / 8);
        left.clamp(1, u64::from(u32::MAX)) as u32
    }

    /// Returns what was read. Does not wait if the reads have ended.
    pub(crate) fn collect(self, ssd: &Ssd) -> Result<ReadBefore, AllocError> {
        self.reads.collect(ssd, self.held)
    }

    fn has_expired(&self) -> bool {
        self.start.elapsed().as_millis() > EXPIRY_MS
    }
}

impl Ssd {
    /// Begins to read pages for a get that came at `start`, and defers it if that is better than to
    /// wait. `pages` has further owners of the pages, which are kept until then.
    pub(crate) fn defer(
        &self,
        mut reads: Reads,
        pages: &mut [Option<Page>],
        start: Instant<Monotonic>,
    ) -> Option<KBox<Deferred>> {
        let is_worth = match self.waiting() {
            Waiting::Automatic => reads.average_us() >= SLOW_US,
            Waiting::Host => false,
            Waiting::Guest => true,
        };
        if !is_worth || reads.pages() == 0 {
            return None;
        }
        let Some(charge) = Charge::new(self, reads.pages() as u64) else {
            self.forget_expired();
            return None;
        };
        let room = KBox::<Deferred>::new_uninit(without_waiting()).ok()?;
        let mut held = KVec::with_capacity(pages.len(), without_waiting()).ok()?;
        for page in pages.iter_mut().filter_map(Option::take) {
            // There is room.
            let _ = held.push_within_capacity(page);
        }
        reads.begin(self);
        Some(room.write(Deferred {
            ticket: 0,
            start,
            reads,
            held: held,
            _charge: charge,
        }))
    }

    /// Forgets the gets of all VMs that have not come again, in the background.
    fn forget_expired(&self) {
        if self.forgetting.xchg(true, Full) {
            return;
        }
        let has_begun = queue::spawn(|| {
            let Some(host) = host() else { return };
            let mut from = 0;
            while let Some((vm, session)) = host.next_vm(from) {
                from = vm.number.saturating_add(1);
                session.deferrals.forget(Deferred::has_expired);
            }
            host.ssd.forgetting.xchg(false, Full);
        });
        if !has_begun {
            self.forgetting.xchg(false, Full);
        }
    }
}

/// The deferred gets of a session.
#[pin_data]
pub(crate) struct Deferrals {
    #[pin]
    list: SpinLock<List>,
}

struct List {
    gets: KVec<KBox<Deferred>>,
    last_ticket: u64,
}

impl Deferrals {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            list <- new_spinlock!(
                List {
                    gets: KVec::with_capacity(MOST, charged())?,
                    last_ticket: 0,
                },
                "Deferrals::list"
            ),
        })
    }

    /// Keeps a get and returns its ticket. Returns the get itself if there are too many.
    pub(crate) fn add(&self, mut get: KBox<Deferred>) -> Result<u64, KBox<Deferred>> {
        self.forget(Deferred::has_expired);
        let mut list = self.list.lock();
        if get.ticket == 0 {
            list.last_ticket += 1;
            get.ticket = list.last_ticket;
        }
        let ticket = get.ticket;
        match list.gets.push_within_capacity(get) {
            Ok(()) => Ok(ticket),
            Err(error) => Err(error.0),
        }
    }

    /// Takes a get out.
    pub(crate) fn take(&self, ticket: u64) -> Option<KBox<Deferred>> {
        self.take_if(|get| get.ticket == ticket)
    }

    /// Forgets gets. They are dropped without the lock, because that may close a device.
    pub(crate) fn forget(&self, which: impl Fn(&Deferred) -> bool) {
        while let Some(get) = self.take_if(&which) {
            drop(get);
        }
    }

    fn take_if(&self, which: impl Fn(&Deferred) -> bool) -> Option<KBox<Deferred>> {
        let mut list = self.list.lock();
        let at = list.gets.iter().position(|get| which(get))?;
        list.gets.remove(at).ok()
    }
}
