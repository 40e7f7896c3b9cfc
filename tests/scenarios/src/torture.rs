// SPDX-License-Identifier: GPL-2.0-only

//! Processes of two containers use the same files in all ways to read and to change them, on
//! several filesystems at the same time, while pages are reclaimed and the filesystems are frozen
//! and unmounted. Every read is compared.

mod disturbance;
mod site;
mod storm;

use anyhow::Result;
use ddlab::{Context, GuestConfig, Scenario, Target, Throttle};

use crate::{
    accounting,
    ddctl::{self, PoolStats},
    ssd::device::Device,
    stage::Stage,
};
pub(crate) use disturbance::{Disturbance, end as end_disturbance};
use site::{COMMON, EXT4_ALONE, XFS_ALONE};
pub(crate) use site::{FEW, ONE, Site};
pub(crate) use storm::{CONTAINERS, Storm, add_containers};

/// A short torture, which is a part of every run.
pub(crate) const TORTURE: Scenario = Scenario {
    name: "torture",
    about: "many processes on the same files, every read compared, on ext4 and XFS",
    quick: false,
    run: |context| {
        let checks = if context.quick() { 3_000 } else { 9_000 };
        let all: Vec<_> = COMMON.iter().collect();
        // Of 9 000 reads on each filesystem, 33 000 pages came from the host and 3 276 were
        // forgotten on the fastest machine, which is disturbed for the shortest time.
        run(
            context,
            &all,
            checks,
            [checks * 5 / 2, checks * 3 / 10],
            Tiers::Memory,
        )
    },
};

/// Runs by name only, because it takes half an hour.
pub(crate) const TORTURE_EXT4: Scenario = Scenario {
    name: "torture-ext4",
    about: "torture with a million reads of ext4, with blocks of 4 and of 1 KiB",
    quick: false,
    run: |context| million(context, &EXT4_ALONE),
};

/// Runs by name only, for the same reason.
pub(crate) const TORTURE_XFS: Scenario = Scenario {
    name: "torture-xfs",
    about: "torture with a million reads of XFS, with blocks of 4 and of 1 KiB",
    quick: false,
    run: |context| million(context, &XFS_ALONE),
};

/// Number of reads of all sites together.
const MILLION: u64 = 1_000_000;

fn million(context: &mut Context, sites: &[&'static Site]) -> Result<Vec<Target>> {
    let checks = MILLION.div_ceil(sites.len() as u64);
    // Reclaim and drops follow the clock, and two sites finish their reads in less time. Of a
    // million reads of ext4 on an emulated machine, 542 727 pages came from the host and 118 058
    // were forgotten; of XFS it was more of both. In the short form, the least of four runs were
    // 13 237 and 3 209 pages. The bounds are half of these figures or more.
    let (checks, least) = match context.quick() {
        true => (checks / 50, [checks / 80, checks / 320]),
        false => (checks, [checks / 2, checks * 3 / 25]),
    };
    run(context, sites, checks, least, Tiers::Memory)
}

/// Runs by name only, like the others.
pub(crate) const TORTURE_SSD: Scenario = Scenario {
    name: "torture-ssd",
    about: "the torture with a container on a device and one that moves between the tiers",
    quick: false,
    run: |context| on_device(context, Tiers::Both),
};

/// Runs by name only, like the others.
pub(crate) const TORTURE_HYBRID: Scenario = Scenario {
    name: "torture-hybrid",
    about: "the torture with containers in both tiers, between which pages move all the time",
    quick: false,
    run: |context| on_device(context, Tiers::Hybrid),
};

fn on_device(context: &mut Context, tiers: Tiers) -> Result<Vec<Target>> {
    let checks = if context.quick() { 3_000 } else { 30_000 };
    let all: Vec<_> = COMMON.iter().collect();
    let least = [checks / 4, checks / 10];
    run(context, &all, checks, least, tiers)
}

/// The tiers that keep the containers' pages.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Tiers {
    Memory,
    /// One is on a device, which is so small that segments are evicted all the time, and one moves.
    Both,
    /// Both are in memory and on a device, and the thresholds change all the time.
    Hybrid,
}

/// A device with five segments.
const DEVICE_MIB: u64 = 12;

/// At times, the files of a site exceed the memory of the containers by more than this.
const CAPACITY_MIB: u64 = 1;
/// Smaller than the default by the same factor as the tier.
const BATCH: &str = "128K";

/// Runs until each site has seen `checks` reads. At least these numbers of pages must come from the
/// host and be forgotten; otherwise the run would show nothing.
fn run(
    context: &mut Context,
    sites: &[&'static Site],
    checks: u64,
    [from_host, forgotten]: [u64; 2],
    tiers: Tiers,
) -> Result<Vec<Target>> {
    let stage = Stage::set(context, CAPACITY_MIB * sites.len() as u64)?;
    ddctl::run(stage.host(), &format!("set-capacity --batch {BATCH}"))?;
    let disks = stage.blank_disks(sites.iter().map(|site| site.name()), 512)?;
    let config = GuestConfig::new("one").vcpus(2).memory_mib(768);
    let guest = stage.guest(&config.disks(&disks, Throttle::NONE))?;
    let mut device = None;
    if tiers != Tiers::Memory {
        device = Some(Device::add(stage.host(), DEVICE_MIB)?);
        // An emulated host may be slow for other reasons than its device.
        ddctl::run(
            stage.host(),
            "ssd set --deadline 5000 --wait guest --retain on",
        )?;
    }
    let storm = Storm::start(&guest, sites, checks)?;
    let mover = match tiers {
        Tiers::Memory => None,
        Tiers::Both => Some(storm::move_between_tiers(&guest)?),
        Tiers::Hybrid => Some(storm::move_thresholds(stage.host(), &guest)?),
    };
    let sums = storm.end()?;
    if let Some(mover) = mover {
        end_disturbance(mover)?;
    }
    let counters = ddctl::counters(&guest)?;
    accounting::check(stage.host())?;
    let mut targets = Vec::new();
    if let Some(device) = device {
        let stats = device.stats(stage.host())?;
        eprintln!("    torture: {stats:?}");
        let damaged = Target::none(
            "torture: pages that the device returned damaged",
            stats.bad_checksums,
        );
        targets.push(damaged.detail(format!("of {}", stats.read_pages)));
        targets.push(Target::at_least(
            "torture: pages that came from the device",
            100.0,
            stats.read_pages as f64,
            "",
        ));
        ddctl::run(stage.host(), &format!("ssd remove {}", device.path()))?;
        device.forget(stage.host())?;
    }
    if tiers == Tiers::Hybrid {
        let vms = ddctl::vms(stage.host())?;
        let moved = |counter: fn(&PoolStats) -> u64| -> u64 {
            vms.iter().map(|vm| accounting::total(vm, counter)).sum()
        };
        for (direction, pages) in [
            ("down", moved(|stats| stats.demoted)),
            ("up", moved(|stats| stats.promoted)),
        ] {
            let name = format!("torture: pages that moved {direction}");
            targets.push(Target::at_least(
                name,
                checks as f64 / 10.0,
                pages as f64,
                "",
            ));
        }
    }
    for (site, sum) in sums {
        let missing = sum.missing(site);
        let never = Target::none(
            format!(
                "torture: operations that never succeeded on {}",
                site.name()
            ),
            missing.len(),
        );
        targets.push(never.detail(format!("missing {missing:?}, done {:?}", sum.done)));
        if site.grows() {
            targets.push(Target::some(
                format!("torture: times that {} grew", site.name()),
                site.grown(&guest)?,
            ));
        }
        let wrong = Target::none(
            format!("torture: wrong reads on {}", site.name()),
            sum.wrong.len(),
        );
        targets.push(wrong.detail(format!(
            "of {} ({} MiB), between {} changes",
            sum.checks,
            sum.bytes >> 20,
            sum.changes
        )));
        let rare = sum.rare();
        let rarely = Target::none(
            format!(
                "torture: ways to read {} that were rarely compared",
                site.name()
            ),
            rare.len(),
        );
        targets.push(rarely.detail(format!("{rare:?}")));
        // Kernels refuse direct reads of blocks that are reserved and not allocated yet.
        targets.push(Target::at_most(
            format!("torture: reads that {} refused", site.name()),
            1.0,
            sum.refused(),
            "%",
        ));
    }
    targets.push(Target::at_least(
        "torture: pages that came from the host",
        from_host as f64,
        counters.get_hits as f64,
        "",
    ));
    targets.push(Target::at_least(
        "torture: pages forgotten because their content changed",
        forgotten as f64,
        counters.invalidated as f64,
        "",
    ));
    Ok(targets)
}
