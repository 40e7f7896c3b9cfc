// SPDX-License-Identifier: GPL-2.0-only

//! A block device, divided into segments.

use crate::counters::{Counter, StripedGauge};
use crate::ffi::disk::Disk;
use crate::ffi::queue::{self, Single};
use crate::ffi::tracepoints;
use crate::memory::gfp_nowarn;
use crate::number::Number;
use crate::ssd::log::Holding;
use crate::ssd::segment::{Room, Segment};
use crate::ssd::Ssd;
use crate::state::{host, Host};
use crate::tier::page::Page;
use ddabi::ssd::{DeviceState, SsdStats};
use ddcore::host::walk::drop_device;
use ddcore::host::Session as _;
use ddcore::ssd::budget::Budget;
use ddcore::ssd::health::Health;
use ddcore::ssd::place::{Place, MAX_PLACES};
use kernel::alloc::AllocError;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::atomic::{
    ordering::{Full, Relaxed},
    Atomic,
};
use kernel::sync::{new_spinlock, Arc, SpinLock};

/// Number of pages at both ends of a device that stay zero: 1 MiB. Guests determine the data
/// between these margins, which must not look like a file system or a partition table to the host.
const MARGIN: u64 = 256;

/// Number of places of a segment: the paper's eviction batch of 2 MiB.
const SEGMENT: u64 = 512;

/// Largest number of places of a segment: 8 MiB. It is bounded because the state of all places of a
/// segment is allocated at once, and freed under locks.
const MAX_SEGMENT: u64 = 1 << 11;

/// Number of segments from which a device gets larger segments instead of more.
const SEGMENTS: u64 = 1 << 15;

/// One segment in this many is kept free.
const RESERVE: usize = 64;

/// Maximum number of pages that wait in memory until they are written to a device: 64 MiB.
const STAGING: u64 = 1 << 14;

/// A device is stuck if pages wait but no write has ended for this many milliseconds.
const STUCK_MS: u64 = 1000;

/// Milliseconds between two searches for the pages of a device that has failed.
const DROP_MS: u64 = 1000;

/// Value of `told` until a state of the device is traced.
const UNTOLD: u32 = u32::MAX;

/// Number of failed writes after which a device is no longer used.
const MAX_ERRORS: u64 = 8;

macro_rules! counts {
    ($($name:ident)*) => {
        /// Counters of a device; see [`SsdStats`].
        pub(crate) struct Counts {
            $(pub(crate) $name: Counter,)*
        }

        impl Counts {
            const fn new() -> Self {
                Self { $($name: Counter::new(),)* }
            }

            /// Writes the counters into statistics.
            fn write_to(&self, stats: &mut SsdStats) {
                $(stats.$name = self.$name.get();)*
            }
        }
    };
}

counts! {
    reads read_pages memory_pages read_errors timeouts refused_reads bad_checksums written_pages
    write_errors evicted_segments over_budget discarded_pages
}

/// The free segments of a device.
pub(super) struct Free {
    pub(super) segments: KVVec<u32>,
    /// Free segments whose old pages the device still keeps, because they were not discarded.
    pub(super) stale: KVVec<u32>,
    /// Whether no more segments are opened, because the device has failed or is being removed.
    closed: bool,
}

/// A device.
#[pin_data]
pub(crate) struct Device {
    pub(crate) number: usize,
    path: KVec<u8>,
    pub(crate) disk: Disk,
    /// Binary logarithm of the number of places of a segment.
    size_bits: u32,
    pub(super) segments: Pin<KVBox<[Segment]>>,
    #[pin]
    pub(super) free: SpinLock<Free>,
    /// Number of free segments, which can be read without the lock. It changes under the lock
    /// together with the lists, so that it is never less than the number of segments in them.
    pub(super) free_count: Atomic<usize>,
    /// Discarding of the pages of free segments.
    pub(super) discarding: Single,
    /// Segments with pages to be written. Its capacity suffices for all segments.
    #[pin]
    pub(crate) queue: SpinLock<KVVec<u32>>,
    /// Segments that are being filled, and some that no longer are. There is room for all.
    #[pin]
    opened: SpinLock<KVVec<u32>>,
    pub(crate) writers: Atomic<u32>,
    state: Atomic<u32>,
    /// The state with which the tracepoint was last passed, or [`UNTOLD`].
    told: Atomic<u32>,
    /// Dropping of the pages of the device.
    dropping: Single,
    /// Time from which the pages of the device may be dropped again after it has failed, in
    /// milliseconds.
    drop_due: Atomic<u64>,
    /// Number of owners of places.
    live: StripedGauge,
    /// Number of pages in memory that are not written yet.
    staged: Atomic<u64>,
    /// Time at which a write last ended, or at which a page was staged while none waited, in
    /// milliseconds.
    progress: Atomic<u64>,
    pub(crate) health: Health<Number>,
    /// Whether reads of the device take long on average.
    pub(super) slow: Atomic<bool>,
    pub(super) budget: Budget<Number>,
    /// Number of pages that may be written per second; 0 means no limit.
    write_budget: Atomic<u64>,
    pub(crate) counts: Counts,
    /// Is dropped after the disk.
    _open: Open,
}

/// Number of devices that are open. Those that were removed are included until the last task that
/// uses them has dropped its reference.
static OPEN: Atomic<usize> = Atomic::new(0);

/// Counts an open device in [`OPEN`].
struct Open(());

impl Open {
    fn new() -> Self {
        OPEN.add(1, Relaxed);
        Self(())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Full);
    }
}

/// Returns the number of devices that are open.
pub(crate) fn open_count() -> usize {
    OPEN.load(Relaxed)
}

impl Device {
    /// Opens a device. Its content is lost. The error is `ENOSPC` if the device is too small.
    pub(crate) fn open_path(number: usize, path: &CStr) -> Result<Arc<Self>> {
        let disk = Disk::open(path)?;
        let pages = disk.pages().saturating_sub(2 * MARGIN).min(MAX_PLACES);
        let size = (pages / SEGMENTS).clamp(SEGMENT, MAX_SEGMENT);
        let size_bits = size.next_power_of_two().ilog2();
        let size = 1 << size_bits;
        let count = (pages >> size_bits) as usize;
        if count < 4 {
            return Err(ENOSPC);
        }
        disk.clear(0, MARGIN)?;
        disk.clear(disk.pages() - MARGIN, MARGIN)?;
        let segments = KVBox::pin_slice(|_| Segment::new(size), count, gfp_nowarn())?;
        let mut free = KVVec::with_capacity(count, gfp_nowarn())?;
        let stale = KVVec::with_capacity(count, gfp_nowarn())?;
        for segment in (0..count as u32).rev() {
            free.push(segment, gfp_nowarn())?;
        }
        let queue = KVVec::with_capacity(count, gfp_nowarn())?;
        let opened = KVVec::with_capacity(count, gfp_nowarn())?;
        let mut name = KVec::new();
        name.extend_from_slice(path.to_bytes(), gfp_nowarn())?;
        Arc::pin_init(
            pin_init!(Self {
                number,
                path: name,
                disk,
                size_bits,
                segments,
                free <- new_spinlock!(Free { segments: free, stale, closed: false }, "Device::free"),
                free_count: Atomic::new(count),
                discarding: Single::new(),
                queue <- new_spinlock!(queue, "Device::queue"),
                opened <- new_spinlock!(opened, "Device::opened"),
                writers: Atomic::new(0),
                state: Atomic::new(DeviceState::Active as u32),
                told: Atomic::new(UNTOLD),
                dropping: Single::new(),
                drop_due: Atomic::new(0),
                live: StripedGauge::new(),
                staged: Atomic::new(0),
                progress: Atomic::new(0),
                health: Health::new(),
                slow: Atomic::new(false),
                budget: Budget::new(),
                write_budget: Atomic::new(0),
                counts: Counts::new(),
                _open: Open::new(),
            }),
            gfp_nowarn(),
        )
    }

    /// Returns the path with which the device was added.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// Returns the number of pages for which the device has places.
    pub(crate) fn places(&self) -> u64 {
        (self.segments.len() as u64) << self.size_bits
    }

    /// Returns the number of places of a segment.
    pub(crate) fn size(&self) -> u32 {
        1 << self.size_bits
    }

    /// Returns the number of free segments.
    pub(crate) fn free(&self) -> usize {
        self.free_count.load(Relaxed)
    }

    /// Returns whether a smaller part of this device is free than of another one.
    pub(crate) fn is_fuller_than(&self, other: &Self) -> bool {
        let part = |free: &Self, of: &Self| free.free() as u64 * of.segments.len() as u64;
        part(self, other) < part(other, self)
    }

    /// Returns the number of segments that reclaim keeps free.
    pub(crate) fn reserve(&self) -> usize {
        (self.segments.len() / RESERVE).max(2)
    }

    pub(crate) fn state(&self) -> DeviceState {
        if self.disk.is_dead() {
            return DeviceState::Failed;
        }
        match DeviceState::from_raw(self.state.load(Relaxed)) {
            Some(DeviceState::Active) if self.health.is_suspected() => DeviceState::Suspect,
            Some(state) => state,
            None => DeviceState::Failed,
        }
    }

    /// Passes a tracepoint if the state has changed since it was last passed.
    pub(crate) fn tell_state(&self) {
        let state = self.state();
        if self.told.load(Relaxed) != state as u32 {
            let before = self.told.xchg(state as u32, Full);
            // Another task may have passed the tracepoint meanwhile.
            if before != state as u32 && tracepoints::ssd_state_is_on() {
                tracepoints::ssd_state(self.number as u32, word(state));
            }
        }
    }

    /// Returns whether the device is being removed.
    pub(crate) fn is_leaving(&self) -> bool {
        self.state.load(Relaxed) == DeviceState::Leaving as u32
    }

    /// Returns whether pages may be put on the device.
    pub(crate) fn takes_pages(&self) -> bool {
        self.state() == DeviceState::Active
    }

    /// Stops putting pages on the device, because it is being removed.
    pub(crate) fn begin_removal(&self, ssd: &Ssd) {
        self.state.store(DeviceState::Leaving as u32, Relaxed);
        self.tell_state();
        self.close_for_ever(ssd);
    }

    /// Prevents the opening of further segments, and subtracts the places from the tier's capacity.
    fn close_for_ever(&self, ssd: &Ssd) {
        let was_closed = core::mem::replace(&mut self.free.lock().closed, true);
        if !was_closed {
            ssd.lose(self.places());
        }
    }

    /// Drops all pages of the device in the background, because it has failed or is being removed.
    /// A call while a task is already doing that has no effect.
    pub(crate) fn drop_pages(&self, ssd: &Ssd) {
        self.tell_state();
        self.close_for_ever(ssd);
        if !self.has_segments_in_use() || !self.dropping.claim() {
            return;
        }
        // The task does not own the device, so that the command which removes the device closes it.
        let number = self.number;
        self.dropping.run(move || {
            let Some(host) = host() else { return };
            drop_from_all(host, number);
            if let Some(device) = host.ssd.device(number) {
                device.dropping.end();
            }
        });
    }

    /// Drops the pages of a device that has failed, unless a task has done so in the last
    /// [`DROP_MS`] milliseconds. A write that hangs keeps its segment in use without pages in the
    /// index.
    pub(crate) fn drop_failed(&self, ssd: &Ssd) {
        let (now, due) = (ssd.milliseconds(), self.drop_due.load(Relaxed));
        if now >= due {
            self.drop_due.store(now + DROP_MS, Relaxed);
            self.drop_pages(ssd);
        }
    }

    /// Returns whether the device has failed and still has pages to be dropped.
    pub(crate) fn is_wreck(&self) -> bool {
        self.state() == DeviceState::Failed && self.has_segments_in_use()
    }

    fn has_segments_in_use(&self) -> bool {
        self.free() < self.segments.len()
    }

    /// Returns the segment with this number.
    pub(crate) fn segment(&self, number: u32) -> &Segment {
        &self.segments[number as usize]
    }

    /// Returns the number of the first place of a segment, as it appears in the index.
    pub(crate) fn first_place(&self, segment: u32) -> u64 {
        u64::from(segment) << self.size_bits
    }

    /// Returns the segment of a place, and the position of the place in it.
    pub(crate) fn locate(&self, place: u64) -> Option<(&Segment, u32)> {
        let segment = self.segments.get((place >> self.size_bits) as usize)?;
        Some((segment, (place & (u64::from(self.size()) - 1)) as u32))
    }

    /// Returns the position of a place on the device, in pages.
    pub(crate) fn position(&self, place: u64) -> u64 {
        MARGIN + place
    }

    /// Takes a free segment. Begins to discard the old pages of others if there is a batch of them.
    pub(crate) fn take_free(&self) -> Option<u32> {
        let mut free = self.free.lock();
        if free.closed {
            return None;
        }
        let segment = free.segments.pop().or_else(|| free.stale.pop())?;
        self.free_count.fetch_sub(1, Relaxed);
        let is_batch = free.stale.len() >= self.discard_batch();
        drop(free);
        if is_batch && self.disk.discards() {
            self.begin_discard();
        }
        Some(segment)
    }

    pub(crate) fn give_free(&self, segment: u32) {
        let mut free = self.free.lock();
        // The capacity suffices for all segments.
        let _ = free.stale.push_within_capacity(segment);
        self.free_count.add(1, Relaxed);
    }

    /// Opens a segment that was free.
    pub(crate) fn open(
        &self,
        segment: u32,
        sequence: u64,
        holding: &Arc<Holding>,
    ) -> Result<(), AllocError> {
        let room = Room::new(self.size())?;
        holding.add(self.size().into());
        let holding = holding.clone();
        self.segment(segment).with(|inner| {
            inner.open(sequence, room, holding);
            if !core::mem::replace(&mut inner.listed, true) {
                let _ = self.opened.lock().push_within_capacity(segment);
            }
        });
        Ok(())
    }

    /// Closes a segment for further pages and queues it to be written.
    pub(crate) fn close(self: &Arc<Self>, segment: u32) {
        self.segment(segment).with(|inner| inner.life.close());
        self.write_soon(segment);
        self.vacate(segment);
    }

    /// Closes a segment whose pool no longer has any pages. Does not queue it to be written,
    /// because the work queue may have been destroyed.
    pub(crate) fn abandon(&self, segment: u32) {
        self.segment(segment).with(|inner| inner.life.close());
        self.vacate(segment);
    }

    /// Adds an owner to a place that the index has. Returns `false` if there is no such place.
    pub(crate) fn hold(&self, place: u64) -> bool {
        let segment = self.locate(place);
        segment.is_some_and(|(segment, _)| {
            segment.with(|inner| inner.life.hold());
            self.live.add(1);
            true
        })
    }

    /// Drops an owner of a place.
    pub(crate) fn release(&self, place: u64) {
        if let Some((segment, _)) = self.locate(place) {
            let is_last = segment.with(|inner| {
                inner.life.release();
                inner.life.live() == 0
            });
            self.live.subtract(1);
            if is_last {
                self.vacate((place >> self.size_bits) as u32);
            }
        }
    }

    /// Makes a segment free if it is closed and no longer has any pages.
    pub(crate) fn vacate(&self, segment: u32) {
        let Some(waste) = self.segment(segment).with(|inner| inner.vacate()) else {
            return;
        };
        self.unstage(waste.staged);
        if let Some(holding) = waste.holding() {
            holding.subtract(self.size().into());
        }
        drop(waste);
        self.give_free(segment);
    }

    /// Sets the number of pages that may be written per second; 0 means no limit.
    pub(crate) fn set_write_budget(&self, pages: u64) {
        self.write_budget.store(pages, Relaxed);
        self.budget.set(pages);
    }

    /// Counts a write that failed. After [`MAX_ERRORS`] of them the device has failed.
    pub(crate) fn write_failed(&self, ssd: &Ssd) {
        self.counts.write_errors.add(1);
        if self.counts.write_errors.get() >= MAX_ERRORS && self.state() != DeviceState::Leaving {
            self.state.store(DeviceState::Failed as u32, Relaxed);
            self.drop_pages(ssd);
        }
    }

    /// Queues the segments that are being filled and have pages in memory, so that they are written
    /// although they are not full yet. One task calls this at a time.
    pub(crate) fn write_open(self: &Arc<Self>) {
        let mut at = 0;
        loop {
            let number = self.opened.lock().get(at).copied();
            let Some(number) = number else { break };
            let (is_open, has_pages) = self.segment(number).with(|inner| {
                let is_open = inner.life.is_open();
                if !is_open {
                    inner.listed = false;
                    // Other tasks only append to the list.
                    let mut opened = self.opened.lock();
                    let last = opened.pop();
                    if let (Some(entry), Some(last)) = (opened.get_mut(at), last) {
                        *entry = last;
                    }
                }
                (is_open, inner.life.in_memory() > 0)
            });
            if has_pages {
                self.write_soon(number);
            }
            at += usize::from(is_open);
        }
    }

    /// Returns whether no segment is in use or will be, all reads have ended, and no task is
    /// working on the device in the background.
    pub(crate) fn is_unused(&self) -> bool {
        let free = self.free.lock();
        free.closed
            && free.segments.len() + free.stale.len() == self.segments.len()
            && !self.discarding.is_claimed()
            && self.disk.is_idle()
            && !self.dropping.is_claimed()
    }

    /// Counts pages that wait to be written. Returns `false` if too many would wait.
    pub(crate) fn stage(&self, ssd: &Ssd, pages: usize) -> bool {
        let before = self.staged.fetch_add(pages as u64, Relaxed);
        if before == 0 {
            self.progress.store(ssd.milliseconds(), Relaxed);
        }
        let fits = before + pages as u64 <= STAGING;
        if !fits {
            self.staged.fetch_sub(pages as u64, Relaxed);
        }
        fits
    }

    /// Returns whether more than half of the pages wait that may wait to be written.
    pub(crate) fn is_busy(&self) -> bool {
        self.staged.load(Relaxed) > STAGING / 2
    }

    /// Subtracts pages that no longer wait to be written.
    pub(crate) fn unstage(&self, pages: usize) {
        self.staged.fetch_sub(pages as u64, Relaxed);
    }

    /// Notes that a write has ended, or that the first of some writes begins.
    pub(crate) fn note_progress(&self, ssd: &Ssd) {
        self.progress.store(ssd.milliseconds(), Relaxed);
    }

    /// Returns whether pages wait, but the device has not ended a write for too long. Pages of
    /// segments that are not full yet do not wait for the device.
    pub(crate) fn is_stuck(&self, ssd: &Ssd) -> bool {
        let waits = ssd
            .milliseconds()
            .saturating_sub(self.progress.load(Relaxed));
        self.staged.load(Relaxed) > 0 && waits > STUCK_MS && self.is_writing()
    }

    /// Returns the number of owners of its places, which is that of its pages unless calls are
    /// under way.
    pub(crate) fn live(&self) -> u64 {
        self.live.get()
    }

    /// Moves pages to places of a segment, as many as there is room for. Returns their number, the
    /// stamp of the segment, and whether it takes more.
    pub(super) fn fill(
        &self,
        segment: u32,
        pages: &mut [Option<Page>],
        sums: &[u32],
    ) -> (usize, u64, bool) {
        let first = self.first_place(segment);
        let place = |at: u32| {
            Page::at(Place {
                device: self.number,
                number: first + u64::from(at),
            })
        };
        let (count, sequence, is_open) = self.segment(segment).with(|inner| {
            let count = inner.fill(pages, sums, place);
            (count, inner.life.sequence(), inner.life.is_open())
        });
        self.live.add(count as u64);
        (count, sequence, is_open)
    }

    pub(crate) fn stats(&self) -> SsdStats {
        let mut stats = SsdStats {
            places: self.places(),
            segment_places: self.size().into(),
            segments: self.segments.len() as u64,
            free_segments: self.free() as u64,
            used: self.live(),
            write_budget: self.write_budget.load(Relaxed),
            ..SsdStats::default()
        };
        self.counts.write_to(&mut stats);
        stats
    }
}

/// Returns the name of a state in tracepoints.
fn word(state: DeviceState) -> &'static CStr {
    match state {
        DeviceState::Active => c"active",
        DeviceState::Suspect => c"suspect",
        DeviceState::Failed => c"failed",
        DeviceState::Leaving => c"leaving",
    }
}

/// Returns the error number of a result, which is negative, or 0.
pub(crate) fn errno(result: Result) -> i32 {
    result.map_or_else(|error| error.to_errno(), |()| 0)
}

/// Drops the pages of all VMs on a device.
fn drop_from_all(host: &Host, device: usize) {
    for (_, session) in host.sessions(0).take_while(|_| !queue::is_leaving()) {
        // Deferred gets own places.
        session.deferrals.forget(|get| get.is_on(device));
        for pool in 0..session.pool_count() {
            if let Some(place) = session
                .pool_slot(pool)
                .filter(|place| place.log.is_on(device))
            {
                place.log.close(None);
            }
        }
        if session.state().ssd() > 0 {
            drop_device(&*session, device);
        }
    }
}
