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
use crate::state::{host, Host};
use crate::tier::page::Page;
use crate::vm::charge::charged;
use ddabi::ssd::Waiting;
use kernel::alloc::AllocError;
use kernel::prelude::*;
use kernel::sync::atomic::ordering::Relaxed;
use kernel::sync::{new_spinlock, SpinLock};
use kernel::time::delay::fsleep;
use kernel::time::{Delta, Instant, Monotonic};

/// Average time of a read in microseconds from which a get is deferred. A task of a guest that sleeps
/// wakes up some 50 microseconds late, and comes back with a further call.
pub(super) const SLOW_US: u64 = 200;

/// Deferred gets of a VM, at most.
const MOST: usize = 64;

/// Pages that deferred gets of all VMs keep, at most: 64 MiB.
const MOST_PAGES: u64 = 1 << 14;

/// Pages that deferred gets of a VM keep, at most.
const MOST_OF_VM: usize = 1 << 12;

/// Pages that may be read for a VM for nothing in a second. After that, its gets are not deferred.
const MOST_UNUSED: usize = 1 << 12;

/// Milliseconds after the end of the reads after which a get that has not come again is forgotten.
const EXPIRY_MS: u64 = 1000;

/// How often gets are looked for that have not come again.
const PAUSE: Delta = Delta::from_millis(250);

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
        let average = match self.reads.average_us() {
            0 => SLOW_US,
            average => average,
        };
        // A part of the average if that has passed: reads that took longer end one after the other.
        let left = average.saturating_sub(passed).max(average / 8);
        left.min(self.reads.limit_us())
            .clamp(1, u64::from(u32::MAX)) as u32
    }

    /// Returns whether pages of the device with this number are read.
    pub(super) fn is_on(&self, device: usize) -> bool {
        self.reads.is_on(device)
    }

    /// Returns what was read. Does not wait if the reads have ended.
    pub(crate) fn collect(self, ssd: &Ssd) -> Result<ReadBefore, AllocError> {
        self.reads.collect(ssd, self.held)
    }

    fn has_expired(&self) -> bool {
        let passed = self.start.elapsed().as_millis().max(0) as u64;
        passed > EXPIRY_MS && self.reads.limit_us() == 0
    }
}

impl Ssd {
    /// Begins to read pages for a get that came at `start`, and defers it, unless that is of no use.
    /// `pages` has further owners of the pages, which are kept until then.
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
        // Those whose data is in memory are not read.
        let is_placed = |page: &Page| page.place().is_some();
        let count = pages
            .iter()
            .flatten()
            .filter(|page| is_placed(page))
            .count();
        let charge = Charge::new(self, count as u64)?;
        let room = KBox::<Deferred>::new_uninit(without_waiting()).ok()?;
        let mut held = KVec::with_capacity(count, without_waiting()).ok()?;
        for page in pages
            .iter_mut()
            .filter_map(|page| page.take_if(|page| is_placed(page)))
        {
            // There is room.
            let _ = held.push_within_capacity(page);
        }
        reads.begin(self);
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

    /// Forgets the gets of all VMs that have not come again, in the background, as long as there are
    /// any.
    fn watch(&self) {
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
                // A get may have been deferred while this task was still there.
                if !is_needed() || !host.ssd.watching.claim() {
                    break;
                }
            }
        });
    }
}

fn forget_expired(host: &Host) {
    let mut from = 0;
    while let Some((vm, session)) = host.next_vm(from) {
        from = vm.number.saturating_add(1);
        session.deferrals.forget(Deferred::has_expired);
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
    /// Pages that were read for nothing since `since`.
    unused: usize,
    since: Instant<Monotonic>,
}

impl List {
    /// Counts pages that were read for nothing.
    fn note_unused(&mut self, pages: usize) {
        if self.since.elapsed().as_millis() > 1000 {
            (self.unused, self.since) = (0, Instant::now());
        }
        self.unused += pages;
    }
}

impl Deferrals {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            list <- new_spinlock!(
                List {
                    gets: KVec::with_capacity(MOST, charged())?,
                    last_ticket: 0,
                    unused: 0,
                    since: Instant::now(),
                },
                "Deferrals::list"
            ),
        })
    }

    /// Returns whether another get of so many pages may be deferred.
    pub(crate) fn has_room(&self, pages: usize) -> bool {
        let mut list = self.list.lock();
        list.note_unused(0);
        let kept: usize = list.gets.iter().map(|get| get.held.len()).sum();
        list.gets.len() < MOST && kept + pages <= MOST_OF_VM && list.unused <= MOST_UNUSED
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

    /// Takes a get out.
    pub(crate) fn take(&self, ticket: u64) -> Option<KBox<Deferred>> {
        self.take_if(|get| get.ticket == ticket)
    }

    /// Counts pages that were read for nothing.
    pub(crate) fn note_unused(&self, pages: usize) {
        if pages > 0 {
            self.list.lock().note_unused(pages);
        }
    }

    /// Forgets gets. They are dropped without the lock, because that may close a device.
    pub(crate) fn forget(&self, which: impl Fn(&Deferred) -> bool) {
        for _ in 0..MOST {
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
