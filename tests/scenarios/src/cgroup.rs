// SPDX-License-Identifier: GPL-2.0-only

//! Memory of cgroups (paths below the mount).

use anyhow::{Context as _, Result};
use ddlab::Machine;

/// Returns the MiB that a cgroup uses.
pub(crate) fn held_mib(machine: &Machine, cgroup: &str) -> Result<f64> {
    let current = read(machine, cgroup, "memory.current")?;
    let bytes: f64 = current.parse().context("memory.current is not a number")?;
    Ok(bytes / f64::from(1 << 20))
}

/// `memory.stat` of a cgroup at one moment.
pub(crate) struct Stat(String);

impl Stat {
    pub(crate) fn of(machine: &Machine, cgroup: &str) -> Result<Self> {
        read(machine, cgroup, "memory.stat").map(Self)
    }

    /// Returns the value of a line, which is in bytes for most.
    pub(crate) fn get(&self, name: &str) -> Result<u64> {
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
        let found = self.0.lines().find_map(value);
        found.with_context(|| format!("memory.stat has no line `{name}`"))
    }
}

fn read(machine: &Machine, cgroup: &str, file: &str) -> Result<String> {
    machine.read_text(&format!("/sys/fs/cgroup/{cgroup}/{file}"))
}
