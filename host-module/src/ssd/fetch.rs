// SPDX-License-Identifier: GPL-2.0-only

//! Reading pages for a get. They have left the index, and their places are not used again until the
//! pages are dropped.

use crate::ffi::queue;
use crate::ffi::tracepoints::{self, nanoseconds_since};
use crate::ssd::device::{errno, Device};
use crate::ssd::segment::Found;
use crate::ssd::Ssd;
use crate::state::host;
use crate::tier::page::Page;
use ddabi::request::Run;
use ddcore::ssd::place::Place;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::{Instant, Monotonic};

/// Pages that are read at a time, which bounds the memory on the stack.
const STEP: usize = 64;

/// Pages of one device that are to be read.
struct Read {
    device: Option<Arc<Device>>,
    /// Whether all pages could be read, unless they are lost.
    is_complete: bool,
    count: usize,
    /// Where the pages are among those of the call.
    at: [u16; STEP],
    places: [u64; STEP],
    sums: [u32; STEP],
    seeds: [u64; STEP],
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
    ) -> bool {
        let mut read = Read {
            device: None,
            is_complete: true,
            count: 0,
            at: [0; STEP],
            places: [0; STEP],
            sums: [0; STEP],
            seeds: [0; STEP],
        };
        for (run, first) in runs {
            for (at, index) in (first..first + run.pages as usize).zip(run.index..) {
                let Some(place) = pages[at].as_ref().and_then(Page::place) else {
                    continue;
                };
                if let Some(found) = self.find(place, &mut read, pages) {
                    match found {
                        Found::InMemory(page) => pages[at] = Some(page),
                        Found::Written(sum) => read.add(at, place.number, sum, seed(&run, index)),
                        Found::Lost => {}
                    }
                }
            }
        }
        self.read(&mut read, pages);
        read.is_complete
    }

    /// Looks a page up. What is to be read so far is read first, if the page is on another device, or
    /// if there is no room for more.
    fn find(&self, place: Place, read: &mut Read, pages: &mut [Option<Page>]) -> Option<Found> {
        let is_on = read
            .device
            .as_ref()
            .is_some_and(|device| device.number == place.device);
        if !is_on || read.count == STEP {
            self.read(read, pages);
        }
        if !is_on {
            read.device = self.device(place.device);
        }
        let device = read.device.as_ref()?;
        if device.is_wreck() {
            device.drop_pages(self);
        }
        let (segment, at) = device.locate(place.number)?;
        let found = segment.with(|inner| inner.find(at));
        if let Found::InMemory(_) = &found {
            device.counts.memory_pages.add(1);
        }
        Some(found)
    }

    /// Reads pages, all at once.
    #[inline(never)]
    fn read(&self, read: &mut Read, pages: &mut [Option<Page>]) {
        let count = core::mem::take(&mut read.count);
        let Some(device) = read.device.as_ref().filter(|_| count > 0) else {
            return;
        };
        let mut fresh = [const { None }; STEP];
        let fresh = &mut fresh[..count];
        let limit = device
            .health
            .limit(self.deadline_us(), self.milliseconds())
            .filter(|_| Page::allocate(fresh, false) == count);
        let Some(limit) = limit else {
            device.counts.refused_reads.add(count as u64);
            read.is_complete = false;
            return;
        };
        let positions = read.places[..count].iter_mut();
        positions.for_each(|place| *place = device.position(*place));
        device.counts.reads.add(1);
        match device.read_within(self, &read.places[..count], fresh, limit) {
            Ok(()) => {}
            // The device's queue is full, or the host has no memory.
            Err(EAGAIN | ENOMEM) => {
                device.counts.refused_reads.add(count as u64);
                read.is_complete = false;
                return;
            }
            Err(ETIMEDOUT) => {
                device.counts.timeouts.add(1);
                read.is_complete = false;
                return;
            }
            Err(error) => {
                device.counts.read_errors.add(1);
                read.is_complete &= error == ENODEV;
                return;
            }
        }
        for (((at, sum), seed), page) in read.at.iter().zip(&read.sums).zip(&read.seeds).zip(fresh)
        {
            let Some(found) = page.as_ref().and_then(|page| page.checksum(*seed)) else {
                continue;
            };
            if found == *sum {
                device.counts.read_pages.add(1);
                pages[usize::from(*at)] = page.take();
            } else {
                device.counts.bad_checksums.add(1);
            }
        }
    }
}

impl Device {
    /// Reads positions of the device into as many pages, for up to `limit` microseconds, and notes in
    /// its health how that went. The errors `EAGAIN` and `ENOMEM` say nothing about the device.
    fn read_within(
        &self,
        ssd: &Ssd,
        positions: &[u64],
        pages: &mut [Option<Page>],
        limit: u64,
    ) -> Result {
        let start = Instant::<Monotonic>::now();
        let result = self.disk.read(positions, pages, limit);
        match result {
            Ok(()) => self
                .health
                .succeeded(start.elapsed().as_micros_ceil().max(0) as u64),
            Err(EAGAIN | ENOMEM) => {}
            Err(_) => _ = self.health.failed(ssd.milliseconds()),
        }
        if tracepoints::ssd_read_is_on() {
            let (number, count) = (self.number as u32, positions.len() as u32);
            tracepoints::ssd_read(number, count, errno(result), nanoseconds_since(start));
        }
        self.tell_state();
        result
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
            let Some(device) = host.ssd.device(number) else {
                return;
            };
            let mut page = [None];
            if Page::allocate(&mut page, false) > 0 {
                // The result is noted in the health of the device.
                let _ = device.read_within(&host.ssd, &[0], &mut page, limit);
            }
        });
    }
}

impl Read {
    fn add(&mut self, at: usize, place: u64, sum: u32, seed: u64) {
        self.at[self.count] = at as u16;
        self.places[self.count] = place;
        self.sums[self.count] = sum;
        self.seeds[self.count] = seed;
        self.count += 1;
    }
}
