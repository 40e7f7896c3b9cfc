// SPDX-License-Identifier: GPL-2.0-only

//! A device that flips bits, reports errors, loses writes, or does not answer. Guests get the right
//! content from their own disks, and wait no longer than the deadline.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use ddlab::{Context, FileSpec, Guest, Machine, Scenario, Target, Throttle, wait};

use super::{
    device::{Device, REQUEST_US, Stats},
    read, set_store,
};
use crate::{
    accounting, ddctl, mapper,
    stage::{self, Stage, percent},
};

/// A container on a device that fails in several ways, one after the other.
pub(crate) const FAULTS: Scenario = Scenario {
    name: "ssd-faults",
    about: "flipped bits, errors, lost writes and stalls of a device cost misses, never wrong data",
    quick: false,
    run,
};

const DEVICE_MIB: u64 = 96;
const FILE: u64 = 24 << 20;
/// Name of the device in the device mapper.
const NAME: &str = "cache";
/// Milliseconds of a stall, many times the deadline.
const STALL_MS: u64 = 5000;

/// The device of the device mapper, and the device below it.
struct Faulty<'a> {
    host: &'a Machine,
    below: String,
    sectors: u64,
    device: Device,
}

impl<'a> Faulty<'a> {
    fn add(host: &'a Machine) -> Result<Self> {
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
    fn turn_into(&self, target: &str) -> Result<()> {
        let target = target.replace("{}", &format!("{} 0", self.below));
        let table = format!("0 {} {target}", self.sectors);
        mapper::run(self.host, &format!("suspend --noflush {NAME}"))?;
        mapper::run(self.host, &format!("load {NAME} --table '{table}'"))?;
        mapper::run(self.host, &format!("resume {NAME}"))
    }

    /// Makes it work without faults.
    fn heal(&self) -> Result<()> {
        self.turn_into("linear {}")
    }

    /// Makes it fail in one way, all the time.
    fn fail(&self, features: &str) -> Result<()> {
        let count = features.split(' ').count();
        self.turn_into(&format!("flakey {{}} 0 600 {count} {features}"))
    }

    fn stats(&self) -> Result<Stats> {
        self.device.stats(self.host)
    }

    /// Returns the number of read requests that the device has ended.
    fn read_requests(&self) -> Result<u64> {
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
    fn recover(&self, guest: &Guest, file: &FileSpec) -> Result<()> {
        wait::until("the device has recovered", || {
            read(guest, file)?;
            Ok((self.device.state(self.host)? == "active").then_some(()))
        })
    }
}

fn run(context: &mut Context) -> Result<Vec<Target>> {
    // The kernel's messages about a failing device.
    for known in ["I/O error", "dm-flakey", "device-mapper"] {
        context.allow_console(known);
    }
    let file = FileSpec::new("file", FILE, 1);
    let stage = Stage::set(context, 64)?;
    let host = stage.host();
    let faulty = Faulty::add(host)?;
    ddctl::run(host, "ssd set --deadline 1000")?;
    let disk = stage.disk("data", vec![file.clone()])?;
    let guest = stage.guest_with("one", &disk, Throttle::NONE)?;
    stage::container(&guest, &file.path, "8M", 100)?;
    set_store(&guest, &file.path, "ssd")?;
    ddctl::run(&guest, "container set-policy file fifo")?;
    read(&guest, &file)?;

    // A byte of each request changes on its way to the host.
    faulty.fail("corrupt_bio_byte 100 r 7 0")?;
    let (before, requests) = (faulty.stats()?, faulty.read_requests()?);
    read(&guest, &file)?;
    let flipped = faulty.read_requests()? - requests;
    let caught = faulty.stats()?.bad_checksums - before.bad_checksums;
    faulty.heal()?;
    ensure!(flipped > 0, "nothing was read from the device");

    // Writes are reported as done, although they are dropped.
    faulty.fail("drop_writes")?;
    read(&guest, &file)?;
    wait::until_still("writing", || Ok(faulty.stats()?.written_pages))?;
    faulty.heal()?;
    let before = faulty.stats()?;
    read(&guest, &file)?;
    let lost = faulty.stats()?.bad_checksums - before.bad_checksums;

    // Reads are reported as failed.
    read(&guest, &file)?;
    wait::until_still("writing", || Ok(faulty.stats()?.written_pages))?;
    faulty.fail("error_reads")?;
    let before = faulty.stats()?;
    read(&guest, &file)?;
    ensure!(faulty.stats()?.read_errors > before.read_errors);
    ensure!(faulty.device.state(host)? == "suspect");
    faulty.heal()?;
    faulty.recover(&guest, &file)?;

    // Reads are not answered in time.
    wait::until_still("writing", || Ok(faulty.stats()?.written_pages))?;
    ddctl::run(host, "ssd set --deadline 20")?;
    faulty.turn_into(&format!("delay {{}} {STALL_MS} {{}} 0"))?;
    let (before, start) = (faulty.stats()?, Instant::now());
    read(&guest, &file)?;
    let stalled = start.elapsed();
    ensure!(faulty.stats()?.timeouts > before.timeouts);
    // Abandoned requests end some time later.
    faulty.heal()?;
    ddctl::run(host, "ssd set --deadline 1000")?;
    faulty.recover(&guest, &file)?;

    // Writes are reported as failed.
    faulty.fail("error_writes")?;
    wait::until("the device has failed", || {
        read(&guest, &file)?;
        Ok((faulty.device.state(host)? == "failed").then_some(()))
    })?;
    ensure!(faulty.stats()?.write_errors > 0);
    read(&guest, &file)?;
    faulty.heal()?;
    ddctl::run(host, &format!("ssd remove {}", faulty.device.path()))?;
    read(&guest, &file)?;
    accounting::check(host)?;
    mapper::run(host, &format!("remove {NAME}"))?;
    faulty.device.forget(host)?;
    Ok(vec![
        // One flip in 256 changes nothing.
        Target::at_least(
            format!("ssd-faults: of {flipped} requests with a flipped byte, those caught"),
            98.0,
            percent(caught, flipped),
            "%",
        ),
        Target::at_most(
            "ssd-faults: pages found damaged, by requests with a flipped byte",
            100.0,
            percent(caught, flipped),
            "%",
        ),
        Target::at_least(
            "ssd-faults: lost writes that were noticed",
            1.0,
            lost as f64,
            "pages",
        ),
        Target::at_most(
            "ssd-faults: time in which a file is read whose device does not answer",
            STALL_MS as f64 / 1000.0,
            stalled.as_secs_f64(),
            "s",
        ),
    ])
}
