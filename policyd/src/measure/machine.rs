// SPDX-License-Identifier: GPL-2.0-only

//! Reads the state of the VM's memory.

use super::{cgroup::pressure, pseudo::Pseudo};
use crate::engine::Machine;
use std::path::Path;

/// Reads `meminfo` and `pressure/memory` below a `/proc`. Missing values are zero or absent.
pub(super) fn read(files: &mut Pseudo, proc: &Path) -> Machine {
    let meminfo = files.read(&proc.join("meminfo")).unwrap_or_default();
    let bytes = |key: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(key))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        kib.checked_mul(1024)
    };
    let [total, available, swap_free] =
        ["MemTotal:", "MemAvailable:", "SwapFree:"].map(|key| bytes(key).unwrap_or(0));
    let stall = files.read(&proc.join("pressure/memory"));
    let memory_us = stall.and_then(pressure);
    let vmstat = files.read(&proc.join("vmstat"));
    Machine {
        total,
        available,
        swap_free,
        memory_us,
        reclaims: vmstat.and_then(reclaims),
    }
}

/// Returns how often tasks reclaimed because a zone was short, plus pages that kswapd scanned.
/// Unlike `pgscan_direct`, neither counts reclaim at a cgroup's limit.
fn reclaims(vmstat: &str) -> Option<u64> {
    let counts = vmstat.lines().filter_map(|line| {
        let (key, value) = line.split_once(' ')?;
        let is_global = key.starts_with("allocstall_") || key == "pgscan_kswapd";
        value.parse::<u64>().ok().filter(|_| is_global)
    });
    counts.reduce(u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    #[test]
    fn the_machine_is_read() {
        let proc = TempDir::new().unwrap();
        let files = &mut Pseudo::new();
        assert_eq!(read(files, proc.path()), Machine::default());
        let meminfo = "MemTotal:        8000 kB\nMemFree: 1 kB\nMemAvailable: 4000 kB\n";
        fs::write(proc.path().join("meminfo"), meminfo).unwrap();
        fs::create_dir(proc.path().join("pressure")).unwrap();
        let vmstat = "nr_free_pages 9\npgscan_kswapd 30\npgscan_direct 500\nallocstall_dma 0\n\
                      allocstall_normal 4\n";
        fs::write(proc.path().join("vmstat"), vmstat).unwrap();
        let stall = "some avg10=1.00 avg60=0 avg300=0 total=55\n";
        fs::write(proc.path().join("pressure/memory"), stall).unwrap();
        let machine = read(files, proc.path());
        assert_eq!((machine.total, machine.available), (8_192_000, 4_096_000));
        assert_eq!((machine.swap_free, machine.memory_us), (0, Some(55)));
        assert_eq!(machine.reclaims, Some(34));
        assert_eq!(reclaims("nr_free_pages 9\n"), None);
    }
}
