// SPDX-License-Identifier: GPL-2.0-only

//! A guest whose kernel has no memory left but what it takes from page caches.

use anyhow::Result;
use ddlab::{Guest, Machine, wait};

use crate::{hog::Hog, memory::Memory, torture::Storm};

/// What the guest is left at the least: with less, tasks are killed.
const FLOOR_KIB: u64 = 12 << 10;
/// Pages that its kernel must have taken from page caches: a third of what there is.
const RECLAIMED: u64 = 2 << 10;
/// Larger than what is left, and in no container that had to make room for it alone.
const READ: &str = "cat /dev/dd/root > /dev/null";

/// Takes a tortured guest's memory until its kernel has to reclaim for each allocation, and
/// has pages come from the host all the same. Consoles would tell if a task were killed.
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

/// Pages that a machine's kernel took because memory was short, not because a container was
/// full or it was asked for.
fn reclaimed(machine: &Machine) -> Result<u64> {
    let text = machine.read_text("/proc/vmstat")?;
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    let taken = lines.filter(|(name, _)| ["pgsteal_kswapd", "pgsteal_direct"].contains(name));
    taken.map(|(_, pages)| Ok(pages.parse::<u64>()?)).sum()
}
