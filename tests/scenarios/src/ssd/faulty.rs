// SPDX-License-Identifier: GPL-2.0-only

//! A device of the SSD tier that can be made to fail.

use anyhow::{Context as _, Result};
use ddlab::{Context, FileSpec, Guest, Machine, wait};

use super::device::{Device, REQUEST_US, Stats};
use crate::{ddctl, mapper};

const DEVICE_MIB: u64 = 96;
/// Name of the device in the device mapper.
const NAME: &str = "cache";

/// The device of the device mapper, and the device below it.
pub(crate) struct Faulty<'a> {
    pub(super) host: &'a Machine,
    below: String,
    sectors: u64,
    device: Device,
}

impl<'a> Faulty<'a> {
    /// Allows the kernel's messages about a device that fails.
    pub(crate) fn allow_console(context: &mut Context) {
        for known in ["I/O error", "dm-flakey", "device-mapper"] {
            context.allow_console(known);
        }
    }

    /// Makes the device, which works, and adds it to the tier.
    pub(crate) fn add(host: &'a Machine) -> Result<Self> {
        let below = Device::make(host, DEVICE_MIB, REQUEST_US)?;
        for module in ["dm-flakey", "dm-delay"] {
            host.exec_ok(["modprobe", module])?;
        }
        let sectors = mapper::sectors(host, &below)?;
        mapper::create(host, NAME, &format!("0 {sectors} linear {below} 0"))?;
        let device = Device::add_path(host, format!("/dev/mapper/{NAME}"))?;
        Ok(Self {
            host,
            below,
            sectors,
            device,
        })
    }

    /// Replaces the target of the device. `{}` in `target` stands for the device below.
    pub(super) fn turn_into(&self, target: &str) -> Result<()> {
        let target = target.replace("{}", &format!("{} 0", self.below));
        let table = format!("0 {} {target}", self.sectors);
        mapper::run(self.host, &format!("suspend --noflush {NAME}"))?;
        mapper::run(self.host, &format!("load {NAME} --table '{table}'"))?;
        mapper::run(self.host, &format!("resume {NAME}"))
    }

    /// Makes it work without faults.
    pub(crate) fn heal(&self) -> Result<()> {
        self.turn_into("linear {}")
    }

    /// Makes it fail in one way, all the time.
    pub(crate) fn fail(&self, features: &str) -> Result<()> {
        let count = features.split(' ').count();
        self.turn_into(&format!("flakey {{}} 0 600 {count} {features}"))
    }

    pub(super) fn stats(&self) -> Result<Stats> {
        self.device.stats(self.host)
    }

    /// Returns the number of read requests that the device has ended.
    pub(super) fn read_requests(&self) -> Result<u64> {
        let number = format!("stat -c %Hr:%Lr {}", self.device.path());
        let stat = self
            .host
            .shell(format!("cat /sys/dev/block/$({number})/stat"))?;
        let first = stat
            .split_whitespace()
            .next()
            .context("the device's statistics are empty")?;
        first.parse().context("the number of reads is invalid")
    }

    /// Reads the file until the device is trusted, which takes some good reads.
    pub(super) fn recover(&self, guest: &Guest, file: &FileSpec) -> Result<()> {
        wait::until("the device has recovered", || {
            super::read(guest, file)?;
            Ok((self.state()? == "active").then_some(()))
        })
    }

    /// Returns its state as a word.
    pub(super) fn state(&self) -> Result<String> {
        self.device.state(self.host)
    }

    /// Returns its path in the tier.
    pub(crate) fn path(&self) -> &str {
        self.device.path()
    }

    /// Removes the device from the tier.
    pub(crate) fn remove(&self) -> Result<()> {
        ddctl::run(self.host, &format!("ssd remove {}", self.path())).map(drop)
    }

    /// Removes the device, which is no longer in the tier.
    pub(crate) fn forget(self) -> Result<()> {
        mapper::run(self.host, &format!("remove {NAME}"))?;
        self.device.forget(self.host)
    }
}
