// SPDX-License-Identifier: GPL-2.0-only

//! Discards of free segments, so that a device need not preserve their old pages during its garbage
//! collection.

use crate::ffi::queue;
use crate::ssd::device::Device;
use crate::state::host;
use ddabi::PAGE_SIZE;
use kernel::sync::atomic::ordering::Relaxed;

/// Number of bytes that are discarded at a time on a large device, because each discard costs a
/// device about as much as a write.
const BATCH: usize = 64 << 20;

/// Maximum number of segments that are discarded at a time.
const MAX_SEGMENTS: usize = 64;

/// On a small device, one segment in this many is discarded at a time.
const PART: usize = 128;

impl Device {
    /// Returns the number of stale segments that are discarded at a time.
    pub(super) fn discard_batch(&self) -> usize {
        let batch = BATCH / (self.size() as usize * PAGE_SIZE);
        batch.min(self.segments.len() / PART).clamp(1, MAX_SEGMENTS)
    }

    /// Discards the pages of stale segments in the background, by one task for each device.
    pub(super) fn begin_discard(&self) {
        if !self.discarding.claim() {
            return;
        }
        // The task does not own the device, so that the command which removes the device closes it.
        let number = self.number;
        self.discarding.run(move || {
            let Some(host) = host() else { return };
            if let Some(device) = host.ssd.device(number) {
                device.discard_stale();
                device.discarding.end();
            }
        });
    }

    fn discard_stale(&self) {
        let mut batch = [0; MAX_SEGMENTS];
        let mut count = 1;
        while count > 0 && !queue::is_leaving() && !self.disk.is_dead() {
            count = self.take_stale(&mut batch);
            for segment in &batch[..count] {
                let (first, pages) = (self.position(self.first_place(*segment)), self.size());
                // If the device fails the discard, the segment can still be used.
                if self.disk.discard(first, pages.into()).is_ok() {
                    self.counts.discarded_pages.add(pages.into());
                }
            }
            let mut free = self.free.lock();
            for segment in &batch[..count] {
                // The capacity suffices for all segments.
                let _ = free.segments.push_within_capacity(*segment);
            }
            self.free_count.add(count, Relaxed);
        }
    }

    /// Takes a batch of stale segments, which cannot be opened until they are returned. Returns
    /// their number, or 0 if there are too few for a batch.
    fn take_stale(&self, batch: &mut [u32; MAX_SEGMENTS]) -> usize {
        let mut free = self.free.lock();
        let count = self.discard_batch();
        if free.stale.len() < count {
            return 0;
        }
        for place in &mut batch[..count] {
            // There are at least `count` of them.
            *place = free.stale.pop().unwrap_or_default();
        }
        self.free_count.fetch_sub(count, Relaxed);
        count
    }
}
