// SPDX-License-Identifier: GPL-2.0

//! Processes of two containers on the same files, with every way to read and to
//! change them there is, on several filesystems at a time, while these are
//! reclaimed from, frozen and unmounted. Every read is compared.

mod site;

use anyhow::{Context as _, Result, ensure};
use ddlab::{Context, Disk, GuestConfig, Running, Scenario, Target, Throttle};
use serde::Deserialize;

use crate::{
    books, ddctl,
    stage::{self, Stage},
};
pub(crate) use site::{SITES, Site};

/// A part of it for every run.
pub(crate) const TORTURE: Scenario = Scenario {
    name: "torture",
    about: "many processes on the same files, every read compared, on ext4 and XFS",
    quick: false,
    run: |context| run(context, 4_000),
};

/// A million reads of each filesystem.
pub(crate) const TORTURE_LONG: Scenario = Scenario {
    name: "torture-long",
    about: "torture with a million reads of each filesystem",
    quick: false,
    run: |context| run(context, 1_000_000),
};

/// Each filesystem is worked on from both.
pub(crate) const CONTAINERS: [&str; 2] = ["left", "right"];
pub(crate) const LIMIT: &str = "14M";
/// Less than all files together.
const CAPACITY_MIB: u64 = 24;

/// What a process of the torture says in the end.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Tally {
    pub(crate) checks: u64,
    bytes: u64,
    pub(crate) changes: u64,
    refused: u64,
    pub(crate) wrong: Vec<String>,
}

fn run(context: &mut Context, checks: u64) -> Result<Vec<Target>> {
    let stage = Stage::set(context, CAPACITY_MIB)?;
    let disks: Vec<Disk> = SITES
        .iter()
        .map(|site| stage.blank_disk(site.name, 512))
        .collect::<Result<_>>()?;
    let mut config = GuestConfig::new("one").vcpus(2).memory_mib(768);
    for disk in &disks {
        config = config.disk(disk, Throttle::NONE);
    }
    let guest = stage.guest(&config)?;
    for name in CONTAINERS {
        stage::container(&guest, name, LIMIT, 100)?;
    }
    // What one container wants to keep is the other's to judge.
    ddctl::run(
        &guest,
        &format!("container set-policy {} fifo", CONTAINERS[0]),
    )?;
    let mut workers = Vec::new();
    let mut disturbers = Vec::new();
    for (site, disk) in SITES.iter().zip(&disks) {
        let device = site.make(&guest, &disk.path_in_guest())?;
        disturbers.push(site.disturb(&guest, &device)?);
        for container in CONTAINERS {
            let share = checks.div_ceil(CONTAINERS.len() as u64);
            workers.push((site, site.work(&guest, container, share)?));
        }
    }
    let mut sums: Vec<Tally> = SITES.iter().map(|_| Tally::default()).collect();
    for (site, worker) in &mut workers {
        let tally = finish(site.name, worker)?;
        let at = SITES.iter().position(|one| one.name == site.name);
        let sum = &mut sums[at.context("the site is one of them")?];
        sum.checks += tally.checks;
        sum.bytes += tally.bytes;
        sum.changes += tally.changes;
        sum.refused += tally.refused;
        sum.wrong.extend(tally.wrong);
    }
    for disturber in &mut disturbers {
        ensure!(
            disturber.poll()?.is_none(),
            "a disturber ended: {}",
            disturber.output()?
        );
        disturber.kill(9)?;
        disturber.wait()?;
    }
    let counters = ddctl::counters(&guest)?;
    books::balance(stage.host())?;
    let mut targets = Vec::new();
    for (site, sum) in SITES.iter().zip(&sums) {
        for line in sum.wrong.iter().take(10) {
            eprintln!("    {line}");
        }
        targets.push(Target::at_most(
            format!(
                "torture: wrong reads of {} ({} MiB) on {}, between {} changes",
                sum.checks,
                sum.bytes >> 20,
                site.name,
                sum.changes
            ),
            0.0,
            sum.wrong.len() as f64,
            "",
        ));
    }
    // Without these it would show nothing.
    targets.push(Target::at_least(
        "torture: pages that came from the host",
        checks as f64,
        counters.get_hits as f64,
        "",
    ));
    targets.push(Target::at_least(
        "torture: pages forgotten because their content changed",
        checks as f64 / 4.0,
        counters.invalidated as f64,
        "",
    ));
    Ok(targets)
}

/// Waits for a process of the torture; what it says.
pub(crate) fn finish(name: &str, worker: &mut Running) -> Result<Tally> {
    let exit = worker.wait()?;
    let output = worker.output()?;
    ensure!(exit.success(), "the torture of {name} failed: {output}");
    serde_json::from_str(output.trim()).with_context(|| format!("{name} said {output}"))
}
