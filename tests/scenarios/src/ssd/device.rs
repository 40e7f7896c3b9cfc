// SPDX-License-Identifier: GPL-2.0-only

//! A device of the SSD tier: a `null_blk` that keeps its data in the host's memory.

use anyhow::{Context as _, Result, ensure};
use ddlab::Machine;
use serde::Deserialize;

use crate::ddctl;

/// Name of the device and of its directory in configfs.
const NAME: &str = "nullb0";
const CONFIGFS: &str = "/sys/kernel/config";

/// Time of a request in microseconds.
pub(crate) const REQUEST_US: u64 = 100;

/// Size and counters of a device.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Stats {
    pub(crate) segments: u64,
    pub(crate) free_segments: u64,
    pub(crate) read_pages: u64,
    pub(crate) read_errors: u64,
    pub(crate) timeouts: u64,
    pub(crate) bad_checksums: u64,
    pub(crate) written_pages: u64,
    pub(crate) write_errors: u64,
    pub(crate) over_budget: u64,
    pub(crate) discarded_pages: u64,
    segment_places: u64,
}

impl Stats {
    /// Returns the most pages that can wait in memory until they are written.
    pub(crate) fn in_memory(&self) -> u64 {
        (self.segments - self.free_segments) * self.segment_places
    }

    /// Fails if a read failed or brought wrong data. Reads may be late, which costs misses only:
    /// the time that one may take follows the average, and a processor of an emulated host can stop
    /// for longer while the machine is busy.
    pub(crate) fn check_reads(&self) -> Result<()> {
        let bad = self.bad_checksums + self.read_errors;
        ensure!(bad == 0, "reads of the device failed: {self:?}");
        Ok(())
    }
}

#[derive(Deserialize)]
struct Listed {
    path: String,
    state: String,
    stats: Stats,
}

#[derive(Deserialize)]
struct List {
    devices: Vec<Listed>,
}

/// The device, which is in the tier.
pub(crate) struct Device {
    /// Path of the tier's device: the device itself, or one of the device mapper on top of it.
    path: String,
}

impl Device {
    /// Makes a device and adds it to the tier.
    pub(crate) fn add(host: &Machine, mib: u64) -> Result<Self> {
        Self::add_slow(host, mib, REQUEST_US)
    }

    /// Makes a device whose requests take `request_us` microseconds, and adds it to the tier.
    pub(crate) fn add_slow(host: &Machine, mib: u64, request_us: u64) -> Result<Self> {
        let path = Self::make(host, mib, request_us)?;
        Self::add_path(host, path)
    }

    /// Adds a path to the tier.
    pub(crate) fn add_path(host: &Machine, path: String) -> Result<Self> {
        ddctl::run(host, &format!("ssd add {path}"))?;
        Ok(Self { path })
    }

    /// Adds a path to the tier, whatever data it has.
    pub(crate) fn add_used_path(host: &Machine, path: String) -> Result<Self> {
        ddctl::run(host, &format!("ssd add --force {path}"))?;
        Ok(Self { path })
    }

    /// Makes a device whose requests take `request_us` microseconds. Returns its path.
    pub(crate) fn make(host: &Machine, mib: u64, request_us: u64) -> Result<String> {
        host.exec_ok(["modprobe", "null_blk", "nr_devices=0"])?;
        host.shell(format!(
            "mountpoint -q {CONFIGFS} || mount -t configfs none {CONFIGFS}"
        ))?;
        let directory = Self::directory();
        host.exec_ok(["mkdir", &directory])?;
        // Requests end in interrupts, after the device's time.
        for (key, value) in [
            ("size", mib.to_string()),
            ("memory_backed", "1".into()),
            // Discarded blocks read as zeros, so that a discard of pages in use is noticed.
            ("discard", "1".into()),
            ("irqmode", "2".into()),
            ("completion_nsec", (request_us * 1000).to_string()),
            ("power", "1".into()),
        ] {
            host.write_file(&format!("{directory}/{key}"), value)?;
        }
        Ok(format!("/dev/{NAME}"))
    }

    fn directory() -> String {
        format!("{CONFIGFS}/nullb/{NAME}")
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Removes the device, as if it were pulled out.
    pub(crate) fn power_off(&self, host: &Machine) -> Result<()> {
        host.write_file(&format!("{}/power", Self::directory()), "0")
    }

    /// Removes the device, which is no longer in the tier.
    pub(crate) fn forget(self, host: &Machine) -> Result<()> {
        Self::end(host)
    }

    /// Ends a device that was made and is not in the tier.
    pub(crate) fn end(host: &Machine) -> Result<()> {
        host.write_file(&format!("{}/power", Self::directory()), "0")?;
        host.exec_ok(["rmdir", &Self::directory()]).map(drop)
    }

    pub(crate) fn stats(&self, host: &Machine) -> Result<Stats> {
        Ok(self.listed(host)?.stats)
    }

    /// Returns its state as a word.
    pub(crate) fn state(&self, host: &Machine) -> Result<String> {
        Ok(self.listed(host)?.state)
    }

    fn listed(&self, host: &Machine) -> Result<Listed> {
        let text = ddctl::run(host, "--json ssd list")?;
        let list: List = serde_json::from_str(&text)?;
        let path = self.path();
        let listed = list.devices.into_iter().find(|listed| listed.path == path);
        listed.with_context(|| format!("no {path}: {text}"))
    }
}
