// SPDX-License-Identifier: GPL-2.0-only

//! Reading pages for a get. Each page has an owner in addition to the index, so that its place is
//! not reused in the meantime.

use crate::ffi::disk::Reading;
use crate::ffi::queue;
use crate::ffi::tracepoints;
use crate::memory::without_waiting;
use crate::ssd::device::{errno, Device};
use crate::ssd::segment::Found;
use crate::ssd::Ssd;
use crate::state::host;
use crate::tier::page::Page;
use ddabi::request::Run;
use ddcore::ssd::place::Place;
use kernel::alloc::AllocError;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::{Instant, Monotonic};

/// Maximum number of pages of a device that are read at a time.
const STEP: usize = 64;

/// Average duration of a read in microseconds from which gets are deferred. Below that deferring
/// does not pay, because a sleeping task of a guest wakes up some 50 microseconds late and then has
/// to make another call.
pub(super) const SLOW_US: u64 = 200;

/// Microseconds by which a wait may exceed its limit, because it ends with a tick of the timer.
const TICKS_US: u64 = 10_000;

/// The time that a read may take.
#[derive(Clone, Copy)]
pub(crate) enum Patience {
    /// A multiple of the average time, because a vCPU waits and its guest has a disk of its own.
    Adaptive,
    /// The deadline, because no guest waits.
    Deadline,
}

/// A page that is to be read.
#[derive(Clone, Copy)]
struct Entry {
    /// The position of the page among those of the call.
    at: usize,
    place: Place,
    sum: u32,
    seed: u64,
}

/// Pages of one device that are read together.
struct Batch {
    device: Arc<Device>,
    entries: KVec<Entry>,
    reading: Option<Reading>,
    begun: Instant<Monotonic>,
    /// Microseconds that the read may take.
    limit: u64,
}

/// The pages that were read for a deferred get before the guest repeated it.
pub(crate) struct ReadBefore {
    /// Pages with their data by place, or `None` for a page that could not be read.
    pages: KVec<(Place, Option<Page>)>,
    /// Position at which the next search begins. Pages are usually looked up in the order in which
    /// they were read.
    next: usize,
    /// Owners of the places. As long as they exist, no place is reused, so that a place in the
    /// index still means the page that was read.
    _held: KVec<Page>,
}

impl ReadBefore {
    /// Returns a value for a get that was not deferred.
    pub(crate) const fn nothing() -> Self {
        Self {
            pages: KVec::new(),
            next: 0,
            _held: KVec::new(),
        }
    }

    /// Returns the number of pages that were read and not taken out.
    pub(crate) fn unused(&self) -> usize {
        self.pages.iter().filter(|(_, page)| page.is_some()).count()
    }

    /// Takes the page of a place out. Returns `None` if the place was not among those that were
    /// read.
    fn take(&mut self, place: Place) -> Option<Option<Page>> {
        let is_it = |at: &usize| self.pages[*at].0 == place;
        let count = self.pages.len();
        let first = self.next.min(count);
        let at = (first..count)
            .find(is_it)
            .or_else(|| (0..first).find(is_it))?;
        let page = self.pages[at].1.take();
        self.next = at + 1;
        Some(page)
    }
}

/// The reads of a call.
pub(crate) struct Reads {
    batches: KVec<Batch>,
    /// Whether all pages that are not lost have been read.
    is_complete: bool,
}

impl Ssd {
    /// Replaces those pages of the SSD tier that can be read by pages of memory with their data.
    /// `runs` are the runs of the call with the places of their pages in `pages`. Returns `false`
    /// if some may be read later, because the device or the host is busy.
    #[inline(never)]
    pub(crate) fn fetch(
        &self,
        runs: impl Iterator<Item = (Run, usize)>,
        pages: &mut [Option<Page>],
        seed: impl Fn(&Run, u64) -> u64,
        read_before: &mut ReadBefore,
        patience: Patience,
    ) -> bool {
        let mut reads = self.look_up(runs, pages, seed, Some(read_before));
        reads.begin(self, patience);
        reads.finish(self, |entry, page, _| {
            if page.is_some() {
                pages[entry.at] = page;
            }
        })
    }

    /// Returns the reads that some pages of the SSD tier need. Pages whose data is still in memory,
    /// or was read before, are replaced at once. Without `read_before` this only prepares the
    /// deferral of a get, and does not count the pages in memory.
    pub(crate) fn look_up(
        &self,
        runs: impl Iterator<Item = (Run, usize)>,
        pages: &mut [Option<Page>],
        seed: impl Fn(&Run, u64) -> u64,
        mut read_before: Option<&mut ReadBefore>,
    ) -> Reads {
        let mut reads = Reads {
            batches: KVec::new(),
            is_complete: true,
        };
        let mut last = None;
        for (run, first) in runs {
            for (at, index) in (first..first + run.pages as usize).zip(run.index..) {
                let Some(place) = pages[at].as_ref().and_then(Page::place) else {
                    continue;
                };
                let is_get = read_before.is_some();
                let before = read_before.as_mut().and_then(|before| before.take(place));
                if let Some(page) = before {
                    // A page that could not be read before is not read again, because the guest has
                    // already waited for it.
                    if page.is_some() {
                        pages[at] = page;
                    }
                    continue;
                }
                match self.find(place, &mut last) {
                    Some((device, Found::InMemory(page))) => {
                        device.counts.memory_pages.add(is_get.into());
                        pages[at] = Some(page);
                    }
                    Some((device, Found::Written(sum))) => {
                        let seed = seed(&run, index);
                        let entry = Entry {
                            at,
                            place,
                            sum,
                            seed,
                        };
                        let added = reads.add(device, entry);
                        reads.is_complete &= added.is_ok();
                    }
                    Some((_, Found::Lost)) | None => {}
                }
            }
        }
        reads
    }

    /// Returns the device of a place, and where its page is. `last` caches the device of the
    /// previous call.
    fn find<'a>(
        &self,
        place: Place,
        last: &'a mut Option<Arc<Device>>,
    ) -> Option<(&'a Arc<Device>, Found)> {
        let is_same = |device: &Arc<Device>| device.number == place.device;
        if !last.as_ref().is_some_and(is_same) {
            *last = self.device(place.device);
        }
        let device = last.as_ref()?;
        if device.is_wreck() {
            device.drop_failed(self);
        }
        let (segment, at) = device.locate(place.number)?;
        let found = segment.with(|inner| inner.find(at));
        Some((device, found))
    }
}

impl Reads {
    /// Adds a page to the last batch of its device, or to a new one.
    fn add(&mut self, device: &Arc<Device>, entry: Entry) -> Result<(), AllocError> {
        let last = self.batches.iter_mut().rev();
        let mut same = last.filter(|batch| batch.device.number == device.number);
        if let Some(batch) = same.next().filter(|batch| batch.entries.len() < STEP) {
            return batch.entries.push(entry, without_waiting());
        }
        let mut entries = KVec::with_capacity(STEP, without_waiting())?;
        entries.push(entry, without_waiting())?;
        let batch = Batch {
            device: device.clone(),
            entries,
            reading: None,
            begun: Instant::now(),
            limit: 0,
        };
        self.batches.push(batch, without_waiting())
    }

    /// Begins all reads.
    #[inline(never)]
    pub(crate) fn begin(&mut self, ssd: &Ssd, patience: Patience) {
        for batch in self.batches.iter_mut() {
            let begun = batch.begin(ssd, patience);
            if let Err(error) = begun {
                batch.device.note_failed(ssd, error, batch.entries.len());
                self.is_complete &= error == ENODEV;
            }
        }
    }

    /// Waits for the reads and returns their pages. `held` are owners of all places.
    pub(super) fn collect(self, ssd: &Ssd, held: KVec<Page>) -> Result<ReadBefore, AllocError> {
        let mut pages = KVec::with_capacity(self.pages(), without_waiting())?;
        self.finish(ssd, |entry, page, is_final| {
            if is_final {
                // The capacity is that of all pages.
                let _ = pages.push_within_capacity((entry.place, page));
            }
        });
        Ok(ReadBefore {
            pages,
            next: 0,
            _held: held,
        })
    }

    /// Waits for each read until its limit. Calls `read` with each entry, its page with the data,
    /// or `None` if that could not be read, and with whether this result is final. Returns `false`
    /// if some pages may be read successfully later.
    #[inline(never)]
    fn finish(self, ssd: &Ssd, mut read: impl FnMut(&Entry, Option<Page>, bool)) -> bool {
        let mut is_complete = self.is_complete;
        for mut batch in self.batches {
            let result = batch.end(ssd, true);
            // A result is not final if the device was busy or the host had no memory.
            let is_final = !matches!(result, Some(Err(EAGAIN | ENOMEM)) | None);
            // A later read succeeds perhaps if the device did not answer in time, but not after
            // an error.
            let is_late = matches!(result, Some(Err(EAGAIN | ENOMEM | ETIMEDOUT)));
            is_complete &= !is_late;
            let mut pages = match result {
                Some(Ok(pages)) => pages.into_iter(),
                _ => KVec::new().into_iter(),
            };
            let counts = &batch.device.counts;
            for entry in batch.entries.iter() {
                let page = pages.next().flatten();
                let sum = page.as_ref().and_then(|page| page.checksum(entry.seed));
                let is_right = sum == Some(entry.sum);
                match sum {
                    Some(_) if is_right => counts.read_pages.add(1),
                    Some(_) => counts.bad_checksums.add(1),
                    None => {}
                }
                read(entry, page.filter(|_| is_right), is_final);
            }
        }
        is_complete
    }

    /// Returns the number of pages.
    pub(super) fn pages(&self) -> usize {
        self.batches.iter().map(|batch| batch.entries.len()).sum()
    }

    /// Returns whether any read is in progress.
    pub(super) fn is_reading(&self) -> bool {
        self.batches.iter().any(|batch| batch.reading.is_some())
    }

    fn devices(&self) -> impl Iterator<Item = &Device> {
        self.batches.iter().map(|batch| &*batch.device)
    }

    /// Returns whether one of the devices is suspected, so that no get should wait for it.
    pub(super) fn is_suspected(&self) -> bool {
        self.devices().any(|device| device.health.is_suspected())
    }

    /// Returns whether pages of the device with this number are read.
    pub(super) fn is_on(&self, number: usize) -> bool {
        self.devices().any(|device| device.number == number)
    }

    /// Returns the number of microseconds until the limits of all reads have passed.
    pub(super) fn limit_us(&self) -> u64 {
        let left = self.batches.iter().map(Batch::left_us);
        left.max().unwrap_or(0)
    }

    /// Returns whether all reads have ended or have reached their limits, so that [`Reads::finish`]
    /// does not wait.
    pub(super) fn has_ended(&self) -> bool {
        self.batches.iter().all(|batch| {
            let has_ended = batch.reading.as_ref().is_none_or(Reading::has_ended);
            has_ended || batch.left_us() == 0
        })
    }

    /// Returns the time in microseconds that the slowest of the devices takes for a read on
    /// average.
    pub(super) fn average_us(&self) -> u64 {
        let averages = self.devices().map(|device| device.health.average_us());
        averages.max().unwrap_or(0)
    }
}

impl Batch {
    fn begin(&mut self, ssd: &Ssd, patience: Patience) -> Result {
        let device = &self.device;
        let deadline = ssd.deadline_us();
        let limit = device.health.limit(deadline, ssd.milliseconds());
        let limit = limit.ok_or(EAGAIN)?;
        // A caller that may wait until the deadline may also wait for a free request of the device.
        let (limit, nowait) = match patience {
            Patience::Adaptive => (limit, true),
            Patience::Deadline => (deadline, false),
        };
        self.limit = limit;
        let count = self.entries.len();
        let pages = Page::several(count)?;
        let mut positions = [0; STEP];
        for (position, entry) in positions.iter_mut().zip(self.entries.iter()) {
            *position = device.position(entry.place.number);
        }
        device.counts.reads.add(1);
        self.begun = Instant::now();
        self.reading = Some(device.disk.begin(&positions[..count], pages, nowait)?);
        Ok(())
    }

    /// Returns the microseconds that the read may still take.
    fn left_us(&self) -> u64 {
        let passed = self.begun.elapsed().as_micros_ceil().max(0) as u64;
        self.limit.saturating_sub(passed)
    }

    /// Ends the read, if it has begun, and records its result. Waits for it if `wait` is set. A
    /// read that succeeds after its limit still returns its pages.
    fn end(&mut self, ssd: &Ssd, wait: bool) -> Option<Result<KVec<Option<Page>>>> {
        let reading = self.reading.take()?;
        let (left, count) = (self.left_us(), self.entries.len());
        let read = reading.finish(if wait { left } else { 0 });
        let device = &self.device;
        device.trace_read(count, &read, self.begun);
        Some(match read {
            Ok((pages, took)) => {
                match took > self.limit + TICKS_US {
                    true => device.note_failed(ssd, ETIMEDOUT, count),
                    false => device.note_succeeded(ssd, took),
                }
                Ok(pages)
            }
            // The read was abandoned before its limit, which says nothing about the device.
            Err(ETIMEDOUT) if !wait && left > 0 => Err(ETIMEDOUT),
            Err(error) => {
                device.note_failed(ssd, error, count);
                Err(error)
            }
        })
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if let Some(host) = host().filter(|_| self.reading.is_some()) {
            self.end(&host.ssd, false);
        }
    }
}

impl Device {
    /// Passes the tracepoint for a read that began at `start`.
    fn trace_read(
        &self,
        pages: usize,
        read: &Result<(KVec<Option<Page>>, u64)>,
        start: Instant<Monotonic>,
    ) {
        if !tracepoints::ssd_read_is_on() {
            return;
        }
        let (error, latency) = match read {
            Ok((_, took)) => (Ok(()), took * 1000),
            Err(error) => (Err(*error), tracepoints::nanoseconds_since(start)),
        };
        tracepoints::ssd_read(self.number as u32, pages as u32, errno(error), latency);
    }

    /// Records a read that took `us` microseconds.
    fn note_succeeded(&self, ssd: &Ssd, us: u64) {
        self.health.succeeded(us);
        ssd.note_slow(self, self.health.average_us() >= SLOW_US);
        self.tell_state();
    }

    /// Records a failed read of `pages` pages. The errors `EAGAIN` and `ENOMEM` say nothing about
    /// the health of the device: it is suspected already, its queue is full, or the host has no
    /// memory.
    fn note_failed(&self, ssd: &Ssd, error: Error, pages: usize) {
        match error {
            EAGAIN | ENOMEM => {
                self.counts.refused_reads.add(pages as u64);
                return;
            }
            ETIMEDOUT => self.counts.timeouts.add(1),
            _ => self.counts.read_errors.add(1),
        }
        self.note_strike(ssd);
    }

    /// Records a read that failed because of the device.
    fn note_strike(&self, ssd: &Ssd) {
        self.health.failed(ssd.milliseconds());
        self.tell_state();
    }

    /// Tests in the background whether a suspected device has recovered, unless that was tested
    /// recently. Without this, a device without pages would stay suspected, because no more pages
    /// are put on it.
    pub(crate) fn probe(&self, ssd: &Ssd) {
        let Some(limit) = self.health.limit(ssd.deadline_us(), ssd.milliseconds()) else {
            return;
        };
        // The task does not own the device, so that the command which removes the device closes it.
        let number = self.number;
        queue::spawn(without_waiting(), move || {
            let Some(host) = host() else { return };
            if let Some(device) = host.ssd.device(number) {
                device.try_read(&host.ssd, limit);
            }
        });
    }

    /// Reads the first page of the device, waits for up to `limit` microseconds, and records the
    /// result.
    fn try_read(&self, ssd: &Ssd, limit: u64) {
        let Ok(pages) = Page::several(1) else { return };
        let read = self.disk.begin(&[0], pages, true);
        let start = Instant::now();
        let read = read.and_then(|reading| reading.finish(limit));
        self.trace_read(1, &read, start);
        match read {
            Ok((_, took)) => self.note_succeeded(ssd, took),
            Err(EAGAIN | ENOMEM) => {}
            Err(_) => self.note_strike(ssd),
        }
    }
}
