// SPDX-License-Identifier: GPL-2.0-only

//! Writing segments, by tasks of the module's work queue.

use crate::ffi::queue;
use crate::ffi::tracepoints::{self, nanoseconds_since};
use crate::memory::{gfp_nowarn, without_waiting};
use crate::ssd::device::{errno, Device};
use crate::ssd::segment::Inner;
use crate::ssd::Ssd;
use crate::state::host;
use crate::tier::page::Page;
use kernel::alloc::AllocError;
use kernel::prelude::*;
use kernel::sync::atomic::ordering::{Full, Relaxed};
use kernel::sync::Arc;
use kernel::time::{Instant, Monotonic};

/// Maximum number of segments of a device that are written at a time.
const WRITERS: u32 = 4;

impl Device {
    /// Queues a segment that has pages to be written.
    pub(crate) fn write_soon(self: &Arc<Self>, segment: u32) {
        let is_new = self
            .segment(segment)
            .with(|inner| !core::mem::replace(&mut inner.queued, true));
        if is_new {
            // The capacity suffices for all segments, and each is queued only once.
            let _ = self.queue.lock().push_within_capacity(segment);
        }
        self.begin_writer();
    }

    /// Returns the segment that has waited longest.
    fn next_to_write(&self) -> Option<u32> {
        self.queue.lock().remove(0).ok()
    }

    /// Returns whether segments are written or queued.
    pub(super) fn is_writing(&self) -> bool {
        self.writers.load(Relaxed) > 0 || !self.queue.lock().is_empty()
    }

    /// Starts a writer if segments are queued but none could be started when they were.
    pub(crate) fn resume_writing(self: &Arc<Self>) {
        if self.writers.load(Relaxed) == 0 && !self.queue.lock().is_empty() {
            self.begin_writer();
        }
    }

    /// Starts a writer, unless [`WRITERS`] are running.
    fn begin_writer(self: &Arc<Self>) {
        let writers = self.writers.fetch_add(1, Full);
        if writers >= WRITERS {
            self.writers.fetch_sub(1, Full);
            return;
        }
        if let Some(host) = host().filter(|_| writers == 0) {
            self.note_progress(&host.ssd);
        }
        let device = self.clone();
        if !queue::spawn(without_waiting(), move || device.write_queue()) {
            // The next segment that is queued or opened starts a writer.
            self.writers.fetch_sub(1, Full);
        }
    }

    fn write_queue(self: &Arc<Self>) {
        loop {
            while let Some(segment) = self.next_to_write() {
                let Some(host) = host() else { continue };
                if self.write(&host.ssd, segment).is_err() {
                    // The host has no memory. The next segment that is queued or opened starts
                    // another writer.
                    let _ = self.queue.lock().push_within_capacity(segment);
                    self.writers.fetch_sub(1, Full);
                    return;
                }
            }
            self.writers.fetch_sub(1, Full);
            // A segment may have been queued while this writer was still counted.
            if self.queue.lock().is_empty() {
                break;
            }
            if self.writers.fetch_add(1, Full) >= WRITERS {
                self.writers.fetch_sub(1, Full);
                break;
            }
        }
    }

    /// Writes the pages of a segment that wait to be written.
    fn write(&self, ssd: &Ssd, segment: u32) -> Result<(), AllocError> {
        let size = self.size() as usize;
        let mut pages = KVVec::<Option<Page>>::with_capacity(size, gfp_nowarn())?;
        let mut written = KVVec::<Page>::with_capacity(size, gfp_nowarn())?;
        let place = self.segment(segment);
        let stream = place.with(|inner| inner.stream());
        while let Some((first, is_dead)) = place.with(|inner| inner.next_write(&mut pages)) {
            if is_dead {
                // Puts that were refused after they had got places, or pages that were read or
                // flushed before they were written.
                place.with(|inner| inner.end_write(false, &mut written));
                self.unstage(pages.len());
                written.clear();
                pages.clear();
                continue;
            }
            let at = self.position(self.first_place(segment) + u64::from(first));
            let start = tracepoints::ssd_write_is_on().then(Instant::<Monotonic>::now);
            let result = self.disk.write(at, &pages, stream);
            if let Some(start) = start {
                let (number, count) = (self.number as u32, pages.len() as u32);
                tracepoints::ssd_write(number, count, errno(result), nanoseconds_since(start));
            }
            match result {
                Ok(()) => self.counts.written_pages.add(pages.len() as u64),
                Err(_) => self.write_failed(ssd),
            }
            place.with(|inner| inner.end_write(result.is_ok(), &mut written));
            self.unstage(pages.len());
            self.note_progress(ssd);
            written.clear();
            pages.clear();
        }
        drop(place.with(Inner::take_unused));
        self.vacate(segment);
        Ok(())
    }
}
