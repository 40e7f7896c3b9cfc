// SPDX-License-Identifier: GPL-2.0-only

//! A guest whose kernel has only the memory that it reclaims from page caches.

use anyhow::Result;
use ddlab::{Guest, Machine, wait};

use crate::{hog::Hog, memory::Memory, torture::Storm};

/// Minimum memory of the guest. With less, tasks are killed.
const FLOOR_KIB: u64 = 12 << 10;
/// Number of pages that its kernel must have reclaimed from page caches, a third of the existing
/// ones.
const RECLAIMED: u64 = 2 << 10;
/// A file larger than the remaining memory. It is read outside of the containers, which would make
/// room for it alone.
const READ: &str = "cat /dev/dd/root > /dev/null";

/// Takes a tortured guest's memory until its kernel has to reclaim for each allocation, and checks
/// that pages still come from the host. A killed task would be reported by the console.
pub(super) fn starve(guest: &Guest) -> Result<()> {
    let enough = reclaimed(guest)? + RECLAIMED;
    let hog = Hog::start(guest, FLOOR_KIB)?;
    hog.until(|| Ok(Memory::now(guest)?.kib("MemAvailable")? < 2 * FLOOR_KIB))?;
    wait::until("the guest's kernel reclaims", || {
        guest.shell(READ)?;
        Ok((reclaimed(guest)? >= enough).then_some(()))
    })?;
    Storm::some_hits(guest)
}

/// Returns the pages that a machine's kernel reclaimed because memory was short, and not because a
/// container was full or on request.
fn reclaimed(machine: &Machine) -> Result<u64> {
    let text = machine.read_text("/proc/vmstat")?;
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    let taken = lines.filter(|(name, _)| ["pgsteal_kswapd", "pgsteal_direct"].contains(name));
    taken.map(|(_, pages)| Ok(pages.parse::<u64>()?)).sum()
}
