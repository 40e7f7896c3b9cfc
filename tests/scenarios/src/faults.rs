// SPDX-License-Identifier: GPL-2.0-only

//! Faults under a tortured guest: processors go and come back, its VMM is stopped
//! and gets signals, its memory is taken and given back, its host and itself run short
//! of memory and are suspended, and a disk fails.

mod disk;
mod hunger;
mod suspend;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use ddlab::{Context, Guest, GuestConfig, Machine, Scenario, Target, Throttle, wait};
use serde_json::json;

use crate::{
    books, ddctl,
    hog::Hog,
    hotplug::{self, Bay, Usage},
    memory::Memory,
    stage::{self, Stage},
    torture::{FEW, Storm},
    vmm::{self, Vmm},
};

/// All of them, one after the other.
pub(crate) const FAULTS: Scenario = Scenario {
    name: "faults",
    about: "processors, memory, signals, disks fail under a tortured guest; it and its host sleep",
    quick: false,
    run,
};

const CAPACITY_MIB: u64 = 24;
/// What the host's kernel must leave the store, in MiB.
const FLOOR_MIB: u64 = 2;
/// Memory available to a host that is short of it.
const SHORT_KIB: u64 = 96 << 10;
/// The guest's memory, and what a balloon takes of it.
const MEMORY_MIB: u64 = 448;
const BALLOON_MIB: u64 = 112;
/// How often memory is plugged in and taken out.
const REPLUGS: u32 = 4;
/// Signals to the VMM, each of which makes a virtual processor leave the guest.
const SIGNALS: u32 = 400;
const SIGUSR1: i32 = 10;
/// Reads that must have been compared, half of the fewest that were.
const LEAST_READS: u64 = 20_000;

/// A tortured guest and where it runs.
struct Patient<'a> {
    stage: Stage<'a>,
    guest: Guest,
    /// The longest that the host took for something while the VMM stood still.
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
    let config = hotplug::with_bay(config, Usage::Movable);
    let guest = stage.guest(&config)?;
    guest.exec_ok(["modprobe", "virtio_balloon"])?;
    let storm = Storm::start(&guest, &FEW, u64::MAX)?;
    let mut patient = Patient {
        stage,
        guest,
        slowest: Duration::ZERO,
    };
    Storm::some_hits(&patient.guest)?;
    for (what, fault) in Patient::faults() {
        fault(&mut patient).context(what)?;
        Storm::some_hits(&patient.guest).with_context(|| format!("after {what}"))?;
    }
    storm.stop(&patient.guest)?;
    let mut targets = Vec::from(storm.verdict("faults", LEAST_READS)?);
    disk::fail(&patient.guest, &failing).context("a disk failed")?;
    books::balance(stage.host())?;
    targets.push(Target::at_most(
        "faults: until pages of a stopped VM were given to others",
        // Twice what it took beside two other labs.
        stage.host().at_its_pace(0.5),
        patient.slowest.as_secs_f64(),
        "s",
    ));
    Ok(targets)
}

/// Takes the second processor of a machine away for a while.
fn without_processor(machine: &Machine, guest: &Guest) -> Result<()> {
    let switch = "/sys/devices/system/cpu/cpu1/online";
    machine.write_file(switch, "0")?;
    Storm::some_hits(guest)?;
    machine.write_file(switch, "1")
}

/// Pages of files in memory that kernels keep free of anything they cannot move, by what
/// `/proc/zoneinfo` says. Without memory that was plugged in there is none.
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

/// Something that happens to it.
type Fault<'a> = fn(&mut Patient<'a>) -> Result<()>;

impl<'a> Patient<'a> {
    /// All that happens.
    fn faults() -> [(&'static str, Fault<'a>); 11] {
        [
            ("a processor of the host went", |patient| {
                without_processor(patient.stage.host(), &patient.guest)
            }),
            ("a processor of the guest went", |patient| {
                without_processor(&patient.guest, &patient.guest)
            }),
            ("its VMM was stopped", Self::stop),
            ("its VMM got signals", Self::signals),
            ("a balloon took memory of the guest", Self::balloon),
            ("the guest was short of memory", |patient| {
                hunger::starve(&patient.guest)
            }),
            ("memory was plugged in and taken out", Self::replug),
            ("the host was short of memory", Self::short),
            ("the store was taken away and given back", Self::flap),
            // Last: a guest that had slept was seen to take no notice of memory plugged in.
            ("the guest slept", |patient| {
                suspend::to_memory(&patient.guest, &patient.guest)
            }),
            ("the host slept", |patient| {
                suspend::to_memory(patient.stage.host(), &patient.guest)
            }),
        ]
    }

    fn capacity(&self, mib: u64) -> Result<()> {
        ddctl::run(self.stage.host(), &format!("set-capacity {mib}M")).map(drop)
    }

    /// The VMM stands still, wherever it is, and the host wants its pages.
    fn stop(&mut self) -> Result<()> {
        let host = self.stage.host();
        let vms = ddctl::vms(host)?;
        let pid = ddctl::vm(&vms, "one")?.pid.context("its VMM is gone")?;
        for _ in 0..3 {
            vmm::freeze(host, &self.guest, pid)?;
            let start = Instant::now();
            self.capacity(CAPACITY_MIB / 4)?;
            let left = ddctl::host(host)?.used_pages;
            self.slowest = self.slowest.max(start.elapsed());
            ensure!(
                left <= stage::pages(CAPACITY_MIB << 18),
                "{left} pages left"
            );
            self.capacity(CAPACITY_MIB)?;
            vmm::thaw(&self.guest)?;
            Storm::some_hits(&self.guest)?;
        }
        Ok(())
    }

    /// Virtual processors are interrupted at any instruction of the host.
    fn signals(&mut self) -> Result<()> {
        (0..SIGNALS).try_for_each(|_| self.guest.signal(SIGUSR1))
    }

    /// Frames under the guest go and come.
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

    /// Frames come and go as a whole, with KVM's slot for them; files are in them meanwhile.
    fn replug(&mut self) -> Result<()> {
        let bay = Bay::new(self.stage.host(), &self.guest);
        for _ in 0..REPLUGS {
            bay.plug()?;
            wait::until("files are in the new memory", || {
                let pages = movable_file_pages(&self.guest.read_text("/proc/zoneinfo")?);
                Ok((pages > 0).then_some(()))
            })?;
            Storm::some_hits(&self.guest)?;
            bay.unplug()?;
            Storm::some_hits(&self.guest)?;
        }
        Ok(())
    }

    /// The host's kernel takes pages of the store.
    fn short(&mut self) -> Result<()> {
        let host = self.stage.host();
        let before = ddctl::host(host)?.counters.shrunk;
        let hog = Hog::start(host, Hog::HOST_FLOOR_KIB)?;
        hog.until(|| Ok(Memory::now(host)?.kib("MemAvailable")? < SHORT_KIB))?;
        Storm::some_hits(&self.guest)?;
        // What guests take out may not come back, for want of memory.
        wait::until("the store gave what it has", || {
            host.write_file("/proc/sys/vm/drop_caches", "2")?;
            let now = ddctl::host(host)?;
            let gave = now.counters.shrunk > before || now.used_pages <= now.floor_pages;
            Ok(gave.then_some(()))
        })?;
        drop(hog);
        Ok(())
    }

    /// The administrator cannot make up his mind.
    fn flap(&mut self) -> Result<()> {
        for _ in 0..10 {
            self.capacity(FLOOR_MIB)?;
            self.capacity(CAPACITY_MIB)?;
        }
        Ok(())
    }
}
