// SPDX-License-Identifier: GPL-2.0-only

//! Reading pages for a get. Each has an owner beside the index, so that its place is not used again
//! meanwhile.

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

/// Pages of a device that are read at a time.
const STEP: usize = 64;

/// A page that is to be read.
#[derive(Clone, Copy)]
struct Entry {
    /// The position of the page among those of the call.
    at: usize,
    place: Place,
    sum: u32,
    seed: u64,
}

/// Pages of one device that are read at once.
struct Batch {
    device: Arc<Device>,
    entries: KVec<Entry>,
    reading: Option<Reading>,
    begun: Instant<Monotonic>,
    /// Microseconds that the read may take.
    limit: u64,
}

/// What was read for a get when it came first.
pub(crate) struct ReadBefore {
    /// The data of pages by their places, or `None` for those that could not be read.
    pages: KVec<(Place, Option<Page>)>,
    /// Owners of the places. As long as they exist, a place in the index stands for the page that was
    /// read, and not for a later one.
    _held: KVec<Page>,
}

impl ReadBefore {
    /// Returns a value for a get that was not deferred.
    pub(crate) const fn nothing() -> Self {
        Self {
            pages: KVec::new(),
            _held: KVec::new(),
        }
    }

    /// Takes a page out.
    fn take(&mut self, place: Place) -> Option<Option<Page>> {
        let mut pages = self.pages.iter_mut();
        let (_, page) = pages.find(|(other, _)| *other == place)?;
        Some(page.take())
    }
}

/// The reads of a call.
pub(crate) struct Reads {
    batches: KVec<Batch>,
    /// Whether all pages that are not lost have been read.
    is_complete: bool,
}

impl Ssd {
    /// Replaces pages of the SSD tier by pages of memory with their data, as far as they can be
    /// read. `runs` are the runs of the call with the places of their pages in `pages`. Returns
    /// `false` if some may be read later, because the device or the host is busy.
    #[inline(never)]
    pub(crate) fn fetch(
        &self,
        runs: impl Iterator<Item = (Run, usize)>,
        pages: &mut [Option<Page>],
        seed: impl Fn(&Run, u64) -> u64,
        read_before: &mut ReadBefore,
    ) -> bool {
        let mut reads = self.look_up(runs, pages, seed, read_before);
        reads.begin(self);
        reads.finish(self, |entry, page| {
            if page.is_some() {
                pages[entry.at] = page;
            }
        })
    }

    /// Looks up what is to be read for some pages of the SSD tier. Those whose data is still in memory
    /// are replaced at once.
    pub(crate) fn look_up(
        &self,
        runs: impl Iterator<Item = (Run, usize)>,
        pages: &mut [Option<Page>],
        seed: impl Fn(&Run, u64) -> u64,
        read_before: &mut ReadBefore,
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
                if let Some(page) = read_before.take(place) {
                    // A page that could not be read then is not read again: the guest has waited.
                    if page.is_some() {
                        pages[at] = page;
                    }
                    continue;
                }
                match self.find(place, &mut last) {
                    Some((_, Found::InMemory(page))) => pages[at] = Some(page),
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

    /// Returns the device of a place, and where its page is. `last` has the device of the last call.
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
            device.drop_pages(self);
        }
        let (segment, at) = device.locate(place.number)?;
        let found = segment.with(|inner| inner.find(at));
        if let Found::InMemory(_) = &found {
            device.counts.memory_pages.add(1);
        }
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

    /// Begins the reads, all at once.
    #[inline(never)]
    pub(crate) fn begin(&mut self, ssd: &Ssd) {
        for batch in self.batches.iter_mut() {
            let begun = batch.begin(ssd);
            if let Err(error) = begun {
                self.is_complete &= batch.device.note_failed(ssd, error, batch.entries.len());
            }
        }
    }

    /// Waits for the reads, and returns what they have read. `held` are owners of all places.
    pub(super) fn collect(self, ssd: &Ssd, held: KVec<Page>) -> Result<ReadBefore, AllocError> {
        let mut pages = KVec::with_capacity(self.pages(), without_waiting())?;
        self.finish(ssd, |entry, page| {
            // There is room.
            let _ = pages.push_within_capacity((entry.place, page));
        });
        Ok(ReadBefore { pages, _held: held })
    }

    /// Waits for the reads, each as long as it may take, and calls `read` with each page and its data,
    /// or `None` if it could not be read. Returns `false` if some may be read later.
    #[inline(never)]
    fn finish(self, ssd: &Ssd, mut read: impl FnMut(&Entry, Option<Page>)) -> bool {
        let mut is_complete = self.is_complete;
        for mut batch in self.batches {
            let mut pages = KVec::new();
            if let Some(reading) = batch.reading.take() {
                let count = batch.entries.len();
                let passed = batch.begun.elapsed().as_micros_ceil().max(0) as u64;
                let read = reading.finish(batch.limit.saturating_sub(passed));
                batch.device.trace_read(count, &read, batch.begun);
                match read {
                    Ok((data, took)) => {
                        batch.device.note_succeeded(took);
                        pages = data;
                    }
                    Err(error) => is_complete &= batch.device.note_failed(ssd, error, count),
                }
            }
            let counts = &batch.device.counts;
            let mut pages = pages.into_iter();
            for entry in batch.entries.iter() {
                let page = pages.next().flatten();
                let sum = page.as_ref().and_then(|page| page.checksum(entry.seed));
                let is_right = sum == Some(entry.sum);
                match sum {
                    Some(_) if is_right => counts.read_pages.add(1),
                    Some(_) => counts.bad_checksums.add(1),
                    None => {}
                }
                read(entry, page.filter(|_| is_right));
            }
        }
        is_complete
    }

    /// Returns the number of pages.
    pub(super) fn pages(&self) -> usize {
        self.batches.iter().map(|batch| batch.entries.len()).sum()
    }

    /// Returns whether the devices have ended all reads, or may take no longer, so that
    /// [`Reads::finish`] does not wait.
    pub(super) fn has_ended(&self) -> bool {
        self.batches.iter().all(|batch| {
            let passed = batch.begun.elapsed().as_micros_ceil().max(0) as u64;
            let has_ended = batch.reading.as_ref().is_none_or(Reading::has_ended);
            has_ended || passed >= batch.limit
        })
    }

    /// Returns the time in microseconds that the slowest of the devices takes for a read on average.
    pub(super) fn average_us(&self) -> u64 {
        let averages = self
            .batches
            .iter()
            .map(|batch| batch.device.health.average_us());
        averages.max().unwrap_or(0)
    }
}

impl Batch {
    fn begin(&mut self, ssd: &Ssd) -> Result {
        let device = &self.device;
        let limit = device.health.limit(ssd.deadline_us(), ssd.milliseconds());
        self.limit = limit.ok_or(EAGAIN)?;
        let count = self.entries.len();
        let mut pages = KVec::with_capacity(count, without_waiting())?;
        let mut positions = [0; STEP];
        for (position, entry) in positions.iter_mut().zip(self.entries.iter()) {
            *position = device.position(entry.place.number);
            pages.push(None, without_waiting())?;
        }
        if Page::allocate(&mut pages, false) < count {
            return Err(ENOMEM);
        }
        device.counts.reads.add(1);
        self.begun = Instant::now();
        self.reading = Some(device.disk.begin(&positions[..count], pages)?);
        Ok(())
    }
}

impl Device {
    /// Passes the tracepoint of a read that began at `start`.
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

    /// Notes a read that took `us` microseconds.
    fn note_succeeded(&self, us: u64) {
        self.health.succeeded(us);
        self.tell_state();
    }

    /// Notes a read of `pages` that failed. Returns `false` if they may be read later. The errors
    /// `EAGAIN` and `ENOMEM` say nothing about the device: it is suspected already or its queue is
    /// full, or the host has no memory.
    fn note_failed(&self, ssd: &Ssd, error: Error, pages: usize) -> bool {
        match error {
            EAGAIN | ENOMEM => {
                self.counts.refused_reads.add(pages as u64);
                return false;
            }
            ETIMEDOUT => self.counts.timeouts.add(1),
            _ => self.counts.read_errors.add(1),
        }
        self.health.failed(ssd.milliseconds());
        self.tell_state();
        error == ENODEV
    }

    /// Tries in the background whether a device that is suspected has recovered, if that was not tried
    /// just now. Without this, a device that has no pages left would stay suspected, because it gets no
    /// others.
    pub(crate) fn probe(&self, ssd: &Ssd) {
        let Some(limit) = self.health.limit(ssd.deadline_us(), ssd.milliseconds()) else {
            return;
        };
        // The task does not own the device, so that the device is closed where it is removed.
        let number = self.number;
        queue::spawn(move || {
            let Some(host) = host() else { return };
            if let Some(device) = host.ssd.device(number) {
                device.try_read(&host.ssd, limit);
            }
        });
    }

    /// Reads its first page, for up to `limit` microseconds, and notes how that went in its health.
    fn try_read(&self, ssd: &Ssd, limit: u64) {
        let mut pages = KVec::new();
        if pages.push(None, without_waiting()).is_err() || Page::allocate(&mut pages, false) == 0 {
            return;
        }
        let read = self.disk.begin(&[0], pages);
        let start = Instant::now();
        let read = read.and_then(|reading| reading.finish(limit));
        self.trace_read(1, &read, start);
        match read {
            Ok((_, took)) => self.note_succeeded(took),
            Err(EAGAIN | ENOMEM) => {}
            Err(_) => {
                self.health.failed(ssd.milliseconds());
                self.tell_state();
            }
        }
    }
}
