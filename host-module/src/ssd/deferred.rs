// SPDX-License-Identifier: GPL-2.0-only

//! Deferred gets: the pages stay in the index and are read while the reader sleeps in the guest.
//! The guest repeats the get later, when its pages have been read; see [`ddabi::answer::READING`].
//!
//! If the guest does not repeat a get, nothing changes in the index, and the pages that are kept
//! here are dropped a second later.

use crate::ffi::queue;
use crate::memory::without_waiting;
use crate::ssd::fetch::{Patience, ReadBefore, Reads, SLOW_US};
use crate::ssd::Ssd;
use crate::state::{host, Host};
use crate::tier::page::Page;
use crate::vm::charge::charged;
use ddabi::ssd::Waiting;
use kernel::alloc::AllocError;
use kernel::prelude::*;
use kernel::sync::atomic::ordering::{Full, Relaxed};
use kernel::sync::{new_spinlock, SpinLock};
use kernel::time::delay::fsleep;
use kernel::time::{Delta, Instant, Monotonic};

/// Maximum number of deferred gets of a VM.
const MAX_GETS: usize = 64;

/// Maximum number of pages that the deferred gets of all VMs keep: 64 MiB.
const MAX_PAGES: u64 = 1 << 14;

/// Maximum number of pages that the deferred gets of a VM keep.
const MAX_OF_VM: usize = 1 << 12;

/// Maximum number of pages that are read for a VM in a second without being used. Beyond that, its
/// gets are not deferred.
const MAX_UNUSED: usize = 1 << 12;

/// Maximum number of pages of a VM that are read in a second and stay on their devices: 256 MiB.
/// Further pages leave their devices when they are read, so that a guest cannot keep the devices
/// busy by reading the same pages all the time.
const MAX_RETAINED: usize = 1 << 16;

/// Milliseconds after which a get that the guest has not repeated is forgotten.
const EXPIRY_MS: u64 = 1000;

/// Time between two searches for gets that the guest has not repeated.
const PAUSE: Delta = Delta::from_millis(250);

/// A get whose pages are being read.
pub(crate) struct Deferred {
    ticket: u64,
    /// Time at which the get first arrived.
    pub(crate) start: Instant<Monotonic>,
    reads: Reads,
    /// Additional owners of the places that are read.
    held: KVec<Page>,
    _charge: Charge,
}

/// Number of pages that count as deferred until this is dropped.
struct Charge(u64);

impl Charge {
    fn new(ssd: &Ssd, pages: u64) -> Option<Self> {
        // Dropping `charge` subtracts the pages again. The addition is ordered before a look at the
        // claim of the task that forgets gets: either that task sees it, or the caller starts one.
        let charge = Self(pages);
        (ssd.deferred.fetch_add(pages, Full) + pages <= MAX_PAGES).then_some(charge)
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
    /// Returns whether the reads have ended, successfully or not.
    pub(crate) fn has_ended(&self) -> bool {
        self.reads.has_ended()
    }

    /// Returns the microseconds after which the pages will probably have been read.
    pub(crate) fn wait_us(&self) -> u32 {
        let passed = self.start.elapsed().as_micros_ceil().max(0) as u64;
        let average = match self.reads.average_us() {
            0 => SLOW_US,
            average => average,
        };
        // If the average has passed, wait for a fraction of it, because the reads may end at any
        // time.
        let left = average.saturating_sub(passed).max(average / 8);
        left.min(self.reads.limit_us())
            .clamp(1, u64::from(u32::MAX)) as u32
    }

    /// Returns whether pages of the device with this number are read.
    pub(super) fn is_on(&self, device: usize) -> bool {
        self.reads.is_on(device)
    }

    /// Returns the pages that were read. Does not wait if the reads have ended.
    pub(crate) fn collect(self, ssd: &Ssd) -> Result<ReadBefore, AllocError> {
        self.reads.collect(ssd, self.held)
    }

    fn has_expired(&self) -> bool {
        let passed = self.start.elapsed().as_millis().max(0) as u64;
        passed > EXPIRY_MS && self.reads.limit_us() == 0
    }
}

impl Ssd {
    /// Begins to read pages for a get that arrived at `start`, and defers the get. Returns `None`
    /// if the tier expects no gain from that, or if the reads cannot begin. `pages` has additional
    /// owners of the pages; a deferred get keeps those whose data is not in memory.
    pub(crate) fn defer(
        &self,
        mut reads: Reads,
        pages: &mut [Option<Page>],
        start: Instant<Monotonic>,
    ) -> Option<KBox<Deferred>> {
        let is_fast = self.waiting() == Waiting::Automatic && reads.average_us() < SLOW_US;
        if reads.pages() == 0 || is_fast || reads.is_suspected() {
            return None;
        }
        // Pages whose data is in memory are not read.
        let is_placed = |page: &Page| page.place().is_some();
        let count = pages
            .iter()
            .flatten()
            .filter(|page| is_placed(page))
            .count();
        let Some(charge) = Charge::new(self, count as u64) else {
            self.watch();
            return None;
        };
        let room = KBox::<Deferred>::new_uninit(without_waiting()).ok()?;
        let mut held = KVec::with_capacity(count, without_waiting()).ok()?;
        for page in pages
            .iter_mut()
            .filter_map(|page| page.take_if(|page| is_placed(page)))
        {
            // The capacity suffices for all these pages.
            let _ = held.push_within_capacity(page);
        }
        reads.begin(self, Patience::Adaptive);
        self.watch();
        reads.is_reading().then(|| {
            room.write(Deferred {
                ticket: 0,
                start,
                reads,
                held,
                _charge: charge,
            })
        })
    }

    /// Starts a background task, unless it is running, which forgets gets that their guests have
    /// not repeated. It ends when no deferred gets remain. The kernel may have no memory to start
    /// the task, so that this is also called when a get is not deferred because there are too many.
    pub(crate) fn watch(&self) {
        if !self.watching.claim() {
            return;
        }
        self.watching.run(|| {
            let Some(host) = host() else { return };
            let is_needed = || host.ssd.deferred.load(Relaxed) > 0;
            while !queue::is_leaving() {
                fsleep(PAUSE);
                forget_expired(host);
                if is_needed() {
                    continue;
                }
                host.ssd.watching.end();
                // A get may have been deferred before the claim ended.
                if !is_needed() || !host.ssd.watching.claim() {
                    break;
                }
            }
        });
    }
}

fn forget_expired(host: &Host) {
    for (_, session) in host.sessions(0) {
        session.deferrals.forget(Deferred::has_expired);
    }
}

/// Room among the deferred gets of a session, until the get is added or cannot be deferred.
pub(crate) struct Promise<'a> {
    of: &'a Deferrals,
    pages: usize,
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        let mut list = self.of.list.lock();
        let (gets, pages) = list.promised;
        list.promised = (gets - 1, pages - self.pages);
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
    /// Number of gets that are about to be added, and their pages.
    promised: (usize, usize),
    /// Number of pages that were read and not used since `since`.
    unused: usize,
    /// Number of pages that were read since then and may have stayed on their devices.
    retained: usize,
    since: Instant<Monotonic>,
}

impl List {
    /// Begins another second of the counters, if the last one is over.
    fn renew(&mut self) {
        if self.since.elapsed().as_millis() > 1000 {
            (self.unused, self.retained, self.since) = (0, 0, Instant::now());
        }
    }

    /// Counts pages that were read but not used.
    fn note_unused(&mut self, pages: usize) {
        self.renew();
        self.unused += pages;
    }
}

impl Deferrals {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            list <- new_spinlock!(
                List {
                    gets: KVec::with_capacity(MAX_GETS, charged())?,
                    last_ticket: 0,
                    promised: (0, 0),
                    unused: 0,
                    retained: 0,
                    since: Instant::now(),
                },
                "Deferrals::list"
            ),
        })
    }

    /// Returns a promise of room for another get of `pages` pages, or `None` if it may not be
    /// deferred.
    pub(crate) fn promise(&self, pages: usize) -> Option<Promise<'_>> {
        let mut list = self.list.lock();
        list.note_unused(0);
        let kept: usize = list.gets.iter().map(|get| get.held.len()).sum();
        let (gets, promised) = list.promised;
        let has_room = list.gets.len() + gets < MAX_GETS && kept + promised + pages <= MAX_OF_VM;
        if !has_room || list.unused > MAX_UNUSED {
            return None;
        }
        list.promised = (gets + 1, promised + pages);
        Some(Promise { of: self, pages })
    }

    /// Returns whether the pages of a run that is about to be read may stay on their devices.
    pub(crate) fn may_retain(&self, pages: u16) -> bool {
        let mut list = self.list.lock();
        list.renew();
        list.retained + usize::from(pages) <= MAX_RETAINED
    }

    /// Counts pages that are read and stay on their devices.
    pub(crate) fn note_retained(&self, pages: u16) {
        self.list.lock().retained += usize::from(pages);
    }

    /// Keeps a get and returns its ticket. Returns the get itself if there are too many.
    pub(crate) fn add(&self, mut get: KBox<Deferred>) -> Result<u64, KBox<Deferred>> {
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

    /// Removes and returns the get with this ticket.
    pub(crate) fn take(&self, ticket: u64) -> Option<KBox<Deferred>> {
        self.take_if(|get| get.ticket == ticket)
    }

    /// Counts pages that were read but not used.
    pub(crate) fn note_unused(&self, pages: usize) {
        if pages > 0 {
            self.list.lock().note_unused(pages);
        }
    }

    /// Forgets the gets that `which` selects. They are dropped without the lock, because dropping
    /// one may close a device.
    pub(crate) fn forget(&self, which: impl Fn(&Deferred) -> bool) {
        for _ in 0..MAX_GETS {
            let Some(get) = self.take_if(&which) else {
                break;
            };
            self.note_unused(get.held.len());
            drop(get);
        }
    }

    fn take_if(&self, which: impl Fn(&Deferred) -> bool) -> Option<KBox<Deferred>> {
        let mut list = self.list.lock();
        let at = list.gets.iter().position(|get| which(get))?;
        list.gets.remove(at).ok()
    }
}
