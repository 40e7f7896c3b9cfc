// SPDX-License-Identifier: GPL-2.0-only

//! A program that uses up the memory of a machine.

use anyhow::{Result, ensure};
use ddlab::Machine;

use crate::memory::Memory;

/// Directory of its files, which cannot be reclaimed.
const DIR: &str = "/run/hog";

/// Uses up a machine's memory, and frees it when dropped.
pub(crate) struct Hog<'a> {
    machine: &'a Machine,
    floor_kib: u64,
}

impl<'a> Hog<'a> {
    /// Minimum memory that is left to a host.
    pub(crate) const HOST_FLOOR_KIB: u64 = 48 << 10;

    /// Takes nearly all free memory. Four times the floor remains free, so that this never reduces
    /// available memory below the floor.
    pub(crate) fn start(machine: &'a Machine, floor_kib: u64) -> Result<Self> {
        let hog = Self { machine, floor_kib };
        machine.mount("tmpfs", DIR, "tmpfs", "size=100%")?;
        // Huge pages are allocated at once and, because they are not touched, are not cleared.
        let free = Memory::now(machine)?.kib("MemFree")?;
        let pages = free.saturating_sub(4 * floor_kib) / 2048;
        machine.write_file("/proc/sys/vm/nr_hugepages", pages.to_string())?;
        Ok(hog)
    }

    /// Takes small amounts of memory until `enough` returns `true`.
    pub(crate) fn until(&self, enough: impl Fn() -> Result<bool>) -> Result<()> {
        let little = format!("{}K", self.floor_kib / 6);
        for n in 0.. {
            if enough()? {
                return Ok(());
            }
            let available = Memory::now(self.machine)?.kib("MemAvailable")?;
            ensure!(
                available > self.floor_kib,
                "nothing more can be taken ({n} steps)"
            );
            let file = format!("{DIR}/{n}");
            self.machine.exec_ok(["fallocate", "-l", &little, &file])?;
        }
        Ok(())
    }
}

impl Drop for Hog<'_> {
    fn drop(&mut self) {
        // If this fails the lab is useless, and the scenario fails too.
        let _ = self.machine.write_file("/proc/sys/vm/nr_hugepages", "0");
        let _ = self.machine.exec_ok(["umount", DIR]);
    }
}
