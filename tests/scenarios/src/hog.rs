// SPDX-License-Identifier: GPL-2.0

//! What takes a kernel's memory.

use anyhow::{Result, ensure};
use ddlab::Machine;

use crate::memory::Memory;

/// Takes a host's memory and gives it back when dropped.
pub(crate) struct Hog<'a>(&'a Machine);

impl<'a> Hog<'a> {
    /// Memory left free by the first, coarse step.
    const LEFT_KIB: u64 = 192 << 10;

    /// Takes nearly all that is free.
    pub(crate) fn start(host: &'a Machine) -> Result<Self> {
        let hog = Self(host);
        host.mount("tmpfs", "/run/hog", "tmpfs", "size=100%")?;
        // Huge pages nobody touches: taken at once, without being cleared.
        let free = Memory::now(host)?.kib("MemFree")?;
        let pages = free.saturating_sub(Self::LEFT_KIB) / 2048;
        host.write_file("/proc/sys/vm/nr_hugepages", pages.to_string())?;
        Ok(hog)
    }

    /// Takes a little more and again a little, until it is enough.
    pub(crate) fn until(&self, enough: impl Fn() -> Result<bool>) -> Result<()> {
        for n in 0.. {
            if enough()? {
                return Ok(());
            }
            let available = Memory::now(self.0)?.kib("MemAvailable")?;
            ensure!(
                available > 48 << 10,
                "nothing more can be taken ({n} steps)"
            );
            self.0
                .exec_ok(["fallocate", "-l", "8M", &format!("/run/hog/{n}")])?;
        }
        Ok(())
    }
}

impl Drop for Hog<'_> {
    fn drop(&mut self) {
        // If this fails the lab is of no more use, and the scenario fails too.
        let _ = self.0.write_file("/proc/sys/vm/nr_hugepages", "0");
        let _ = self.0.exec_ok(["umount", "/run/hog"]);
    }
}
