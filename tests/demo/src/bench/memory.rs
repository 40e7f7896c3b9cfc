// SPDX-License-Identifier: GPL-2.0-only

//! The host's memory in which VMMs run, and its page cache.

use anyhow::{Context as _, Result};
use ddlab::Machine;

/// The host's cgroup for all VMMs.
pub(crate) const CGROUP: &str = "vmm";

const MOUNT: &str = "/sys/fs/cgroup";

/// The cgroup of the VMMs. Their guests' memory is allocated at the start, so that only page cache
/// changes.
#[derive(Clone, Debug)]
pub(crate) struct HostMemory {
    host: Machine,
}

impl HostMemory {
    /// Creates the cgroup without a limit.
    pub(crate) fn create(host: &Machine) -> Result<Self> {
        host.cgroup(CGROUP, &[("memory.max", "max")])?;
        Ok(Self { host: host.clone() })
    }

    /// Limits the page cache of the VMMs' reads and writes to this size.
    pub(crate) fn bound(&self, cache_bytes: u64) -> Result<()> {
        let current = self.number("memory.current")?;
        let others = current.saturating_sub(self.page_cache()?);
        let limit = (others + cache_bytes).to_string();
        self.host.cgroup(CGROUP, &[("memory.max", &limit)])
    }

    /// Returns the bytes of page cache.
    pub(crate) fn page_cache(&self) -> Result<u64> {
        let stat = self.read("memory.stat")?;
        file_bytes(&stat).context("the cgroup does not count page cache")
    }

    fn number(&self, file: &str) -> Result<u64> {
        Ok(self.read(file)?.parse()?)
    }

    fn read(&self, file: &str) -> Result<String> {
        self.host.read_text(&format!("{MOUNT}/{CGROUP}/{file}"))
    }
}

/// Returns the bytes charged to a container of a guest.
pub(crate) fn of_container(guest: &Machine, name: &str) -> Result<u64> {
    let text = guest.read_text(&format!("{MOUNT}/{name}/memory.current"))?;
    Ok(text.parse()?)
}

/// Returns the page cache in `memory.stat`.
fn file_bytes(stat: &str) -> Option<u64> {
    let mut lines = stat.lines();
    lines.find_map(|line| line.strip_prefix("file ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_files_do_not_count_as_page_cache() {
        let stat = "anon 7\nfile_mapped 8\nfile 4096\nkernel 1";
        assert_eq!(file_bytes(stat), Some(4096));
        assert_eq!(file_bytes(""), None);
    }
}
