// SPDX-License-Identifier: GPL-2.0-only

//! The SSD tier: pages of pools on block devices (`docs/developers/decisions/0013-ssd-tier.md`).
//!
//! The index of a session refers to a page of this tier by its place. [`device`] has the segments
//! of a device, [`log`] the segment that a pool fills, [`holding`] the number of places of a pool,
//! [`write`] writes segments, [`fetch`] reads pages for a get, [`deferred`] has the gets whose
//! readers sleep in the guest while their pages are read, [`reclaim`] evicts segments by weight
//! when few are free, and [`discard`] discards the old pages of free ones.

pub(crate) mod deferred;
pub(crate) mod device;
pub(crate) mod discard;
pub(crate) mod fetch;
pub(crate) mod holding;
pub(crate) mod log;
pub(crate) mod reclaim;
pub(crate) mod segment;
pub(crate) mod table;
pub(crate) mod write;
pub(crate) mod writer;

use crate::counters;
use crate::ffi::queue::Single;
use crate::ffi::tracepoints;
use crate::memory::gfp_nowarn;
use crate::number::Number;
use crate::ssd::device::Device;
use crate::ssd::holding::Holding;
use crate::ssd::log::{Filled, Log, OpenSegment};
use crate::ssd::table::DeviceTable;
use crate::ssd::writer::PoolWriter;
use crate::state::host;
use crate::tier::page::Page;
use ddabi::request::Run;
use ddabi::ssd::{DeviceState, Waiting};
use ddcore::host::standing::Standing;
use ddcore::ssd::index_limit::IndexLimit;
use ddcore::ssd::place::{Place, MAX_DEVICES};
use kernel::prelude::*;
use kernel::sync::atomic::{
    ordering::{Full, Relaxed},
    Atomic,
};
use kernel::sync::{new_mutex, new_spinlock, Arc, Mutex, SpinLock};
use kernel::time::{Instant, Monotonic};

/// Number of pages that get places at a time. It bounds the size of arrays on the stack.
const STEP: usize = 32;

/// Milliseconds between two searches for segments that are not full and can be written.
const HURRY_MS: u64 = 50;

/// Milliseconds between two evictions because the limit of the index is near.
const INDEX_MS: u64 = 10;

/// Time that a get may wait for a device, in microseconds, until the administrator sets another
/// one.
const DEADLINE_US: u64 = 20_000;

/// All devices.
#[pin_data]
pub(crate) struct Ssd {
    #[pin]
    devices: SpinLock<[Option<Arc<Device>>; MAX_DEVICES]>,
    /// A second table of the devices, in which owners of places look them up without `devices`.
    table: DeviceTable,
    /// Serializes adding and removing devices.
    #[pin]
    pub(crate) control: Mutex<()>,
    /// The stamp of the last segment that was opened.
    sequence: Atomic<u64>,
    /// Number of places of all devices.
    places: Atomic<u64>,
    /// The background work that queues segments that are not full.
    hurrying: Single,
    /// Time from which segments that are not full may be queued again, in milliseconds.
    hurry_due: Atomic<u64>,
    /// Eviction of segments.
    reclaiming: Single,
    index_limit: IndexLimit<Number>,
    /// Time from which segments may be evicted again because the limit of the index is near, in
    /// milliseconds.
    index_due: Atomic<u64>,
    deadline_us: Atomic<u64>,
    /// A [`Waiting`].
    waiting: Atomic<u32>,
    retains: Atomic<bool>,
    /// Number of pages that are kept for deferred gets.
    deferred: Atomic<u64>,
    /// Removal of deferred gets that guests have not repeated.
    watching: Single,
    /// Number of devices whose reads take long on average.
    slow: Atomic<u32>,
    /// The sum of the standings that the VMs have published.
    standing: Standing<Number>,
    born: Instant<Monotonic>,
}

impl Ssd {
    /// Creates a tier without devices.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let table = DeviceTable::new()?;
        Arc::pin_init(
            pin_init!(Self {
                table,
                devices <- new_spinlock!([const { None }; MAX_DEVICES], "Ssd::devices"),
                control <- new_mutex!((), "Ssd::control"),
                sequence: Atomic::new(0),
                places: Atomic::new(0),
                hurrying: Single::new(),
                hurry_due: Atomic::new(0),
                reclaiming: Single::new(),
                index_limit: IndexLimit::new(),
                index_due: Atomic::new(0),
                deadline_us: Atomic::new(DEADLINE_US),
                waiting: Atomic::new(Waiting::Automatic as u32),
                retains: Atomic::new(false),
                deferred: Atomic::new(0),
                watching: Single::new(),
                slow: Atomic::new(0),
                standing: Standing::new(),
                born: Instant::now(),
            }),
            gfp_nowarn(),
        )
    }

    pub(crate) fn standing(&self) -> &Standing<Number> {
        &self.standing
    }

    /// Returns the capacity of the tier in pages, which is the number of its places.
    pub(crate) fn places(&self) -> u64 {
        self.places.load(Relaxed)
    }

    /// Returns the time that a get may wait for a device, in microseconds.
    pub(crate) fn deadline_us(&self) -> u64 {
        self.deadline_us.load(Relaxed)
    }

    /// Sets the time that a get may wait for a device, in microseconds.
    pub(crate) fn set_deadline_us(&self, us: u64) {
        self.deadline_us.store(us, Relaxed);
    }

    /// Returns how gets wait for reads.
    pub(crate) fn waiting(&self) -> Waiting {
        Waiting::from_raw(self.waiting.load(Relaxed)).unwrap_or_default()
    }

    /// Sets how gets wait for reads.
    pub(crate) fn set_waiting(&self, waiting: Waiting) {
        self.waiting.store(waiting as u32, Relaxed);
    }

    /// Returns whether pages that are returned to a guest stay on their devices, if the guest
    /// allows it.
    pub(crate) fn retains(&self) -> bool {
        self.retains.load(Relaxed)
    }

    /// Sets whether pages that are returned to a guest stay on their devices.
    pub(crate) fn set_retains(&self, retains: bool) {
        self.retains.store(retains, Relaxed);
    }

    /// Returns the limit of the index in pages, or 0 if there is none.
    pub(crate) fn index_limit(&self) -> u64 {
        self.index_limit.pages()
    }

    /// Sets the limit of the index in pages, where 0 means that there is none.
    pub(crate) fn set_index_limit(&self, pages: u64) {
        self.index_limit.set(pages);
        self.note_index_growth();
    }

    /// Notes the memory of the index, after it has changed. The sum of all processors' parts is
    /// read only if there is a limit.
    pub(crate) fn note_index(&self) {
        if self.index_limit.pages() > 0 {
            self.index_limit.note(counters::index_pages());
        }
    }

    /// Notes that the index has grown, and evicts segments in the background if its limit is near,
    /// whether pages enter the SSD tier or not.
    pub(crate) fn note_index_growth(&self) {
        self.note_index();
        self.make_index_room();
    }

    /// Evicts segments in the background if the limit of the index is near. Returns whether the
    /// tier may take more pages.
    fn make_index_room(&self) -> bool {
        if !self.index_limit.is_near() {
            return true;
        }
        // If no segment can be evicted, each attempt visits all VMs in vain.
        let now = self.milliseconds();
        if now >= self.index_due.load(Relaxed) {
            self.index_due.store(now + INDEX_MS, Relaxed);
            reclaim::wake(self);
        }
        !self.index_limit.is_reached()
    }

    /// Returns whether a get may be deferred.
    pub(crate) fn may_defer(&self) -> bool {
        match self.waiting() {
            Waiting::Automatic => self.slow.load(Relaxed) > 0,
            Waiting::Host => false,
            Waiting::Guest => true,
        }
    }

    /// Notes whether the reads of a device take long on average. A probe of a device may end after
    /// the device was removed, when this has no effect.
    fn note_slow(&self, device: &Device, is_slow: bool) {
        if device.slow.load(Relaxed) == is_slow || is_slow && device.is_leaving() {
            return;
        }
        if !is_slow {
            return self.note_fast(device);
        }
        // The device is counted before its mark can be cleared, so that the number is never
        // negative.
        self.slow.add(1, Relaxed);
        if device.slow.xchg(true, Full) {
            self.slow.fetch_sub(1, Relaxed);
        }
        // The removal of the device may have looked at the mark before it was set.
        if device.is_leaving() {
            self.note_fast(device);
        }
    }

    fn note_fast(&self, device: &Device) {
        if device.slow.xchg(false, Full) {
            self.slow.fetch_sub(1, Relaxed);
        }
    }

    /// Returns the milliseconds since the tier was created.
    pub(crate) fn milliseconds(&self) -> u64 {
        self.born.elapsed().as_millis().max(0) as u64
    }

    /// Returns the nanoseconds since the tier was created.
    fn nanoseconds(&self) -> u64 {
        self.born.elapsed().as_nanos().max(0) as u64
    }

    /// Returns the number of pages on all devices.
    pub(crate) fn used(&self) -> u64 {
        let (mut used, mut from) = (0, 0);
        while let Some(device) = self.next_device(from) {
            from = device.number + 1;
            used += device.live();
        }
        used
    }

    /// Returns the device with this number.
    pub(crate) fn device(&self, number: usize) -> Option<Arc<Device>> {
        self.devices.lock().get(number)?.clone()
    }

    /// Returns the first device whose number is at least `from`.
    pub(crate) fn next_device(&self, from: usize) -> Option<Arc<Device>> {
        let devices = self.devices.lock();
        devices.iter().skip(from).flatten().next().cloned()
    }

    /// Adds a device. The error is `ENOSPC` if the tier has [`MAX_DEVICES`] devices already. The
    /// caller holds `control`.
    pub(crate) fn add(&self, open: impl FnOnce(usize) -> Result<Arc<Device>>) -> Result<u32> {
        let free = self.devices.lock().iter().position(Option::is_none);
        let number = free.ok_or(ENOSPC)?;
        let device = open(number)?;
        device.tell_state();
        self.places.add(device.places(), Relaxed);
        // The device enters the table before pages can get places on it.
        self.table.set(number, Some(&device));
        self.devices.lock()[number] = Some(device);
        Ok(number as u32)
    }

    /// Removes a device that no longer has any pages. The caller holds `control`.
    pub(crate) fn forget(&self, number: usize) {
        let device = self.devices.lock().get_mut(number).and_then(Option::take);
        if let Some(device) = &device {
            self.note_slow(device, false);
            self.table.set(number, None);
        }
        if device.is_some() && tracepoints::ssd_state_is_on() {
            tracepoints::ssd_state(number as u32, c"gone");
        }
        // Dropping the last reference closes the device, which sleeps, so that no lock may be held.
        drop(device);
    }

    /// Subtracts places from the capacity.
    fn lose(&self, places: u64) {
        self.places.fetch_sub(places, Relaxed);
    }

    /// Adds an owner to a place that the index has. Returns `false` if there is no such place.
    pub(crate) fn hold(&self, place: Place) -> bool {
        let held = self
            .table
            .with(place.device, |device| device.hold(place.number));
        held.unwrap_or(false)
    }

    /// Drops an owner of a place.
    pub(crate) fn release(&self, place: Place) {
        self.table
            .with(place.device, |device| device.release(place.number));
    }

    /// Moves pages of a pool to places, as [`ddcore::host::Session::put_on_ssd`] says. `seed`
    /// returns the seed of the checksum of the page with this index, and `writer` is the pool as a
    /// writer, with the number of pages that are counted for write budgets.
    pub(crate) fn place(
        &self,
        writer: (PoolWriter<'_>, usize),
        log: &Log,
        run: &Run,
        pages: &mut [Option<Page>],
        seed: impl Fn(u64) -> u64,
    ) -> Option<(usize, u64)> {
        if !self.make_index_room() {
            return None;
        }
        let mut sums = [0; STEP];
        let count = pages.len().min(STEP);
        for (sum, (page, index)) in sums.iter_mut().zip(pages[..count].iter().zip(run.index..)) {
            *sum = page.as_ref()?.checksum(seed(index))?;
        }
        // The second attempt follows the opening of a segment.
        for _ in 0..2 {
            match log.fill(self, writer, &mut pages[..count], &sums[..count]) {
                Filled::Pages(count, stamp) => return Some((count, stamp)),
                Filled::OverBudget => return None,
                Filled::Busy => {
                    self.hurry();
                    return None;
                }
                Filled::NoSegment => log.set(self.open(&log.holding)?),
            }
        }
        None
    }

    /// Opens a segment for a pool.
    fn open(&self, holding: &Arc<Holding>) -> Option<OpenSegment> {
        let mut best: Option<Arc<Device>> = None;
        let mut from = 0;
        while let Some(device) = self.next_device(from) {
            from = device.number + 1;
            match device.state() {
                DeviceState::Failed => device.drop_failed(self),
                DeviceState::Suspect => device.probe(self),
                DeviceState::Active | DeviceState::Leaving => {}
            }
            let is_stuck = device.is_stuck(self);
            if is_stuck {
                device.resume_writing();
            }
            let is_able = device.takes_pages() && !is_stuck;
            if is_able
                && best
                    .as_ref()
                    .is_none_or(|best| best.is_fuller_than(&device))
            {
                best = Some(device);
            }
        }
        let device = best?;
        let segment = device.take_free();
        if segment.is_none() || device.free() < device.reserve() {
            reclaim::wake(self);
        }
        let segment = segment?;
        let sequence = self.sequence.fetch_add(1, Relaxed) + 1;
        match device.open(segment, sequence, holding) {
            Ok(()) => Some(OpenSegment { device, segment }),
            Err(_) => {
                device.give_free(segment);
                None
            }
        }
    }

    /// Returns whether so many pages wait to be written that work which can wait should not add
    /// more.
    pub(crate) fn is_busy(&self) -> bool {
        let mut from = 0;
        while let Some(device) = self.next_device(from) {
            from = device.number + 1;
            if device.takes_pages() && !device.is_busy() {
                return false;
            }
        }
        true
    }

    /// Queues segments that are not full to be written, because too many pages wait. One task at a
    /// time does this in the background.
    pub(crate) fn hurry(&self) {
        let (now, due) = (self.milliseconds(), self.hurry_due.load(Relaxed));
        // The work visits all segments, so that it is not done more often.
        if now < due || !self.hurrying.claim() {
            return;
        }
        self.hurry_due.store(now + HURRY_MS, Relaxed);
        self.hurrying.run(|| {
            let Some(host) = host() else { return };
            let mut from = 0;
            while let Some(device) = host.ssd.next_device(from) {
                from = device.number + 1;
                device.write_open();
            }
            host.ssd.hurrying.end();
        });
    }
}
