// SPDX-License-Identifier: GPL-2.0-only

//! Costs of work in a guest.

use anyhow::{Context as _, Result};
use ddlab::{Disk, Machine};

use crate::{
    ddctl::{self, GuestCounters},
    stage,
};

/// Measures work on one disk of a guest.
pub(crate) struct Meter<'a> {
    guest: &'a Machine,
    /// The kernel's statistics of the disk.
    statistics: String,
}

/// Costs of a piece of work.
pub(crate) struct Measured {
    /// The guest module's counts during the work.
    pub(crate) counters: GuestCounters,
    /// Pages read from disk during the work, according to the kernel.
    pub(crate) disk_pages: u64,
}

impl<'a> Meter<'a> {
    /// Returns a meter for a disk.
    pub(crate) fn new(guest: &'a Machine, disk: &Disk) -> Result<Self> {
        let block = stage::block_directory(guest, disk)?;
        Ok(Self {
            guest,
            statistics: format!("{block}/stat"),
        })
    }

    /// Executes the work and measures it.
    pub(crate) fn measure(&self, work: impl FnOnce() -> Result<()>) -> Result<Measured> {
        let (counters, sectors) = self.read()?;
        work()?;
        let (after, sectors_after) = self.read()?;
        Ok(Measured {
            counters: after - counters,
            disk_pages: (sectors_after - sectors) / 8,
        })
    }

    fn read(&self) -> Result<(GuestCounters, u64)> {
        let text = self.guest.read_text(&self.statistics)?;
        // The third number is that of sectors read.
        let sectors = text.split_whitespace().nth(2);
        let sectors = sectors.context("the disk has no statistics")?.parse()?;
        Ok((ddctl::counters(self.guest)?, sectors))
    }
}
