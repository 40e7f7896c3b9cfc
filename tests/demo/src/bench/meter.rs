// SPDX-License-Identifier: GPL-2.0-only

//! Costs of the host, counted in the same way for all ways.

use std::{ops::Sub, time::Instant};

use anyhow::{Context as _, Result};
use ddlab::{Disk, Machine};
use ddload::ProcessorTimes;

/// Size of a sector in the kernel's disk statistics.
const SECTOR: u64 = 512;

/// Reads the host's counters.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    host: Machine,
    /// The kernel's statistics of the guests' disks.
    disks: Vec<String>,
}

/// Counters at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    at: Instant,
    counters: Counters,
}

/// Differences of the counters between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spent {
    pub(crate) seconds: f64,
    pub(crate) counters: Counters,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counters {
    /// Bytes read from the guests' disks, below all caches of the host.
    pub(crate) disk_bytes: u64,
    /// Requests that read them.
    pub(crate) disk_requests: u64,
    /// Exits of all VMs.
    pub(crate) exits: u64,
    /// Processor time of the host in seconds, the guests' included.
    pub(crate) cpu_s: f64,
}

impl Meter {
    /// Creates a meter of the disks.
    pub(crate) fn new<'a>(
        host: &Machine,
        disks: impl IntoIterator<Item = &'a Disk>,
    ) -> Result<Self> {
        let statistics = |disk: &Disk| {
            let device = host.exec_ok(["readlink", "-f", &disk.path_in_host()])?;
            let name = device.trim().trim_start_matches("/dev/");
            Ok(format!("/sys/block/{name}/stat"))
        };
        Ok(Self {
            host: host.clone(),
            disks: disks.into_iter().map(statistics).collect::<Result<_>>()?,
        })
    }

    /// Reads the counters.
    pub(crate) fn read(&self) -> Result<Reading> {
        let mut counters = Counters::default();
        for path in &self.disks {
            let (requests, sectors) = disk(&self.host.read_text(path)?)
                .with_context(|| format!("{path} is not understood"))?;
            counters.disk_requests += requests;
            counters.disk_bytes += sectors * SECTOR;
        }
        let exits = self.host.read_text("/sys/kernel/debug/kvm/exits")?;
        counters.exits = exits.parse().context("KVM does not count exits")?;
        let stat = self.host.read_text("/proc/stat")?;
        let processors = ProcessorTimes::parse(&stat).context("/proc/stat is not understood")?;
        counters.cpu_s = processors.busy().as_secs_f64();
        Ok(Reading {
            at: Instant::now(),
            counters,
        })
    }
}

impl Reading {
    /// Returns the bytes read from disk so far.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.counters.disk_bytes
    }
}

impl Sub for Reading {
    type Output = Spent;

    fn sub(self, before: Self) -> Spent {
        let (now, then) = (self.counters, before.counters);
        Spent {
            seconds: (self.at - before.at).as_secs_f64(),
            counters: Counters {
                disk_bytes: now.disk_bytes.saturating_sub(then.disk_bytes),
                disk_requests: now.disk_requests.saturating_sub(then.disk_requests),
                exits: now.exits.saturating_sub(then.exits),
                cpu_s: now.cpu_s - then.cpu_s,
            },
        }
    }
}

/// Returns the read requests and sectors of a disk.
fn disk(stat: &str) -> Option<(u64, u64)> {
    let mut fields = stat.split_whitespace();
    let requests = fields.next()?.parse().ok()?;
    let sectors = fields.nth(1)?.parse().ok()?;
    Some((requests, sectors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_numbers_are_read() {
        let stat = "     120        3     4096      7     9 0 8 1 0 2 3";
        assert_eq!(disk(stat), Some((120, 4096)));
        assert_eq!(disk("1 2"), None);
    }
}
