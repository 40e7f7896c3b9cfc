// SPDX-License-Identifier: GPL-2.0-only

//! Pages in memory that wait to be written to a device.

use super::Device;
use crate::ssd::Ssd;
use kernel::sync::atomic::ordering::Relaxed;

/// Maximum number of pages that wait in memory until they are written to a device: 64 MiB.
const STAGING: u64 = 1 << 14;

/// A device is stuck if pages wait but no write has ended for this many milliseconds.
const STUCK_MS: u64 = 1000;

impl Device {
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
}
