// SPDX-License-Identifier: GPL-2.0-only

//! Faults under a tortured guest: processors are taken offline and brought back, its VMM is stopped
//! and gets signals, its memory is taken and given back, its host and the guest itself run short of
//! memory and are suspended, and a disk fails.

mod disk;
mod hunger;
mod suspend;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use ddlab::{Context, Guest, GuestConfig, Machine, Scenario, Target, Throttle, wait};
use serde_json::json;

use crate::{
    accounting, ddctl,
    hog::Hog,
    hotplug::{self, DimmSlot, Usage},
    memory::Memory,
    stage::{self, Stage},
    torture::{FEW, Storm},
    vmm::{self, Vmm},
};

/// Provokes all faults one after the other.
pub(crate) const FAULTS: Scenario = Scenario {
    name: "faults",
    about: "faults of processors, memory and disks, signals and suspends under a tortured guest",
    quick: false,
    run,
};

const CAPACITY_MIB: u64 = 24;
/// Memory that the host's kernel must leave to the tier, in MiB.
const FLOOR_MIB: u64 = 2;
/// Available memory of a host that is short of it.
const SHORT_KIB: u64 = 96 << 10;
/// The guest's memory, and the part that a balloon takes.
const MEMORY_MIB: u64 = 448;
const BALLOON_MIB: u64 = 112;
/// Number of times that memory is plugged in and unplugged.
const REPLUGS: u32 = 4;
/// Number of signals to the VMM, each of which makes a vCPU leave the guest.
const SIGNALS: u32 = 400;
const SIGUSR1: i32 = 10;
/// Number of reads that must have been compared, half of the smallest number seen.
const MIN_READS: u64 = 20_000;

/// A tortured guest and its host.
struct TorturedGuest<'a> {
    stage: Stage<'a>,
    guest: Guest,
    /// Longest time that the host took for an operation while the VMM was stopped.
    slowest: Duration,
}

fn run(context: &mut Context) -> Result<Vec<Target>> {
    for message in disk::MESSAGES {
        context.allow_console(message);
    }
    let stage = Stage::set(context, CAPACITY_MIB)?;
    let floor = format!("set-capacity --floor {FLOOR_MIB}M");
    ddctl::run(stage.host(), &floor)?;
    let disks = stage.blank_disks(FEW.map(|site| site.name()), 512)?;
    let failing = disk::make(&stage)?;
    let config = GuestConfig::new("one").vcpus(2).memory_mib(MEMORY_MIB);
    let config = config.disks(disks.iter().chain([&failing]), Throttle::NONE);
    let balloon = "virtio-balloon-pci,deflate-on-oom=on,free-page-reporting=on";
    let config = config.vmm_arg("-device").vmm_arg(balloon);
    let config = hotplug::with_dimm_slot(config, Usage::Movable);
    let guest = stage.guest(&config)?;
    guest.exec_ok(["modprobe", "virtio_balloon"])?;
    let storm = Storm::start(&guest, &FEW, u64::MAX)?;
    let mut tortured = TorturedGuest {
        stage,
        guest,
        slowest: Duration::ZERO,
    };
    Storm::some_hits(&tortured.guest)?;
    for (what, fault) in TorturedGuest::faults() {
        fault(&mut tortured).context(what)?;
        Storm::some_hits(&tortured.guest).with_context(|| format!("after {what}"))?;
    }
    storm.stop(&tortured.guest)?;
    let mut targets = Vec::from(storm.verdict("faults", MIN_READS)?);
    disk::fail(&tortured.guest, &failing).context("a disk failed")?;
    accounting::check(stage.host())?;
    targets.push(Target::at_most(
        "faults: time until pages of a stopped VM were given to others",
        // Twice the time that it took beside two other labs.
        stage.host().at_its_pace(0.5),
        tortured.slowest.as_secs_f64(),
        "s",
    ));
    Ok(targets)
}

/// Takes the second processor of a machine offline for a while.
fn without_processor(machine: &Machine, guest: &Guest) -> Result<()> {
    let switch = "/sys/devices/system/cpu/cpu1/online";
    machine.write_file(switch, "0")?;
    Storm::some_hits(guest)?;
    machine.write_file(switch, "1")
}

/// Returns the pages of files in memory from which kernels can move everything away, according to
/// `/proc/zoneinfo`. Without memory that was plugged in there are none.
fn movable_file_pages(zones: &str) -> u64 {
    let mut zones = zones.split("\nNode ");
    let movable = zones.find(|zone| zone.contains("zone  Movable"));
    let lines = movable.unwrap_or_default().lines();
    let words = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    words
        .filter_map(|words| match words[..] {
            ["nr_zone_active_file" | "nr_zone_inactive_file", pages] => pages.parse::<u64>().ok(),
            _ => None,
        })
        .sum()
}

/// Causes a fault.
type Fault<'a> = fn(&mut TorturedGuest<'a>) -> Result<()>;

impl<'a> TorturedGuest<'a> {
    /// Returns all faults.
    fn faults() -> [(&'static str, Fault<'a>); 11] {
        [
            ("a processor of the host was offline", |tortured| {
                without_processor(tortured.stage.host(), &tortured.guest)
            }),
            ("a processor of the guest was offline", |tortured| {
                without_processor(&tortured.guest, &tortured.guest)
            }),
            ("its VMM was stopped", Self::stop),
            ("its VMM got signals", Self::signals),
            ("a balloon took memory of the guest", Self::balloon),
            ("the guest was short of memory", |tortured| {
                hunger::starve(&tortured.guest)
            }),
            ("memory was plugged in and taken out", Self::replug),
            ("the host was short of memory", Self::short),
            ("the capacity was changed repeatedly", Self::flap),
            // This is the last, because a guest that had slept was seen to ignore memory that was
            // plugged in.
            ("the guest was suspended", |tortured| {
                suspend::to_memory(&tortured.guest, &tortured.guest)
            }),
            ("the host was suspended", |tortured| {
                suspend::to_memory(tortured.stage.host(), &tortured.guest)
            }),
        ]
    }

    fn capacity(&self, mib: u64) -> Result<()> {
        ddctl::run(self.stage.host(), &format!("set-capacity {mib}M")).map(drop)
    }

    /// Stops the VMM at any point while the host takes pages away.
    fn stop(&mut self) -> Result<()> {
        let host = self.stage.host();
        let vms = ddctl::vms(host)?;
        let pid = ddctl::vm(&vms, "one")?
            .pid
            .context("the guest's VMM has ended")?;
        for _ in 0..3 {
            vmm::freeze(host, &self.guest, pid)?;
            let start = Instant::now();
            self.capacity(CAPACITY_MIB / 4)?;
            let left = ddctl::host(host)?.used_pages;
            self.slowest = self.slowest.max(start.elapsed());
            ensure!(
                left <= stage::pages(CAPACITY_MIB << 18),
                "{left} pages are left"
            );
            self.capacity(CAPACITY_MIB)?;
            vmm::thaw(&self.guest)?;
            Storm::some_hits(&self.guest)?;
        }
        Ok(())
    }

    /// Interrupts vCPUs with signals to the VMM, which arrive at any instruction of the host.
    fn signals(&mut self) -> Result<()> {
        (0..SIGNALS).try_for_each(|_| self.guest.signal(SIGUSR1))
    }

    /// Removes and returns frames under the guest.
    fn balloon(&mut self) -> Result<()> {
        let vmm = Vmm::new(self.stage.host(), &self.guest);
        let actual = || -> Result<u64> {
            let answer = vmm.ask(&json!({"execute": "query-balloon"}))?;
            answer["actual"].as_u64().context("there is no balloon")
        };
        let whole = actual()?;
        for bytes in [whole - (BALLOON_MIB << 20), whole] {
            let wanted = json!({"execute": "balloon", "arguments": {"value": bytes}});
            vmm.ask(&wanted)?;
            wait::until("the balloon has its size", || {
                Ok((actual()? == bytes).then_some(()))
            })?;
            Storm::some_hits(&self.guest)?;
        }
        Ok(())
    }

    /// Removes and returns frames together with KVM's slot for them, while they have pages of
    /// files.
    fn replug(&mut self) -> Result<()> {
        let slot = DimmSlot::new(self.stage.host(), &self.guest);
        for _ in 0..REPLUGS {
            slot.plug()?;
            wait::until("files are in the new memory", || {
                let pages = movable_file_pages(&self.guest.read_text("/proc/zoneinfo")?);
                Ok((pages > 0).then_some(()))
            })?;
            Storm::some_hits(&self.guest)?;
            slot.unplug()?;
            Storm::some_hits(&self.guest)?;
        }
        Ok(())
    }

    /// Makes the host's kernel take pages of the tier.
    fn short(&mut self) -> Result<()> {
        let host = self.stage.host();
        let before = ddctl::host(host)?.counters.shrunk;
        let hog = Hog::start(host, Hog::HOST_FLOOR_KIB)?;
        hog.until(|| Ok(Memory::now(host)?.kib("MemAvailable")? < SHORT_KIB))?;
        Storm::some_hits(&self.guest)?;
        // Pages that guests read may not be stored again, because memory is missing.
        wait::until("the tier has given all pages that it can give", || {
            host.write_file("/proc/sys/vm/drop_caches", "2")?;
            let now = ddctl::host(host)?;
            let gave = now.counters.shrunk > before || now.used_pages <= now.floor_pages;
            Ok(gave.then_some(()))
        })?;
        drop(hog);
        Ok(())
    }

    /// Changes the capacity again and again.
    fn flap(&mut self) -> Result<()> {
        for _ in 0..10 {
            self.capacity(FLOOR_MIB)?;
            self.capacity(CAPACITY_MIB)?;
        }
        Ok(())
    }
}
