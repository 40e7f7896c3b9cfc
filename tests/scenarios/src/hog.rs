// SPDX-License-Identifier: GPL-2.0-only

//! What takes a kernel's memory.

use anyhow::{Result, ensure};
use ddlab::Machine;

use crate::memory::Memory;

/// Where its files are, which cannot be reclaimed.
const DIR: &str = "/run/hog";

/// Takes a machine's memory and gives it back when dropped.
pub(crate) struct Hog<'a> {
    machine: &'a Machine,
    floor_kib: u64,
}

impl<'a> Hog<'a> {
    /// What a host is left at the least.
    pub(crate) const HOST_FLOOR_KIB: u64 = 48 << 10;

    /// Takes nearly all that is free: four times the floor stays. What is available will never
    /// be less than the floor by its doing.
    pub(crate) fn start(machine: &'a Machine, floor_kib: u64) -> Result<Self> {
        let hog = Self { machine, floor_kib };
        machine.mount("tmpfs", DIR, "tmpfs", "size=100%")?;
        // Huge pages that are not touched: taken at once, without being cleared.
        let free = Memory::now(machine)?.kib("MemFree")?;
        let pages = free.saturating_sub(4 * floor_kib) / 2048;
        machine.write_file("/proc/sys/vm/nr_hugepages", pages.to_string())?;
        Ok(hog)
    }

    /// Takes a little more and again a little, until it is enough.
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
        // If this fails the lab is of no more use, and the scenario fails too.
        let _ = self.machine.write_file("/proc/sys/vm/nr_hugepages", "0");
        let _ = self.machine.exec_ok(["umount", DIR]);
    }
}
