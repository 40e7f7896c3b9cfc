// SPDX-License-Identifier: GPL-2.0

//! Processes of two containers on the same files, with every way to read and to
//! change them there is, on four filesystems at a time, while these are
//! reclaimed from, frozen and unmounted. Every read is compared.

use anyhow::{Context as _, Result, ensure};
use ddlab::{
    Command, Context, Disk, Guest, GuestConfig, Machine, Running, Scenario, Target, Throttle,
};
use serde::Deserialize;

use crate::{
    books, ddctl,
    stage::{self, Stage},
};

/// A part of it for every run.
pub(crate) const TORTURE: Scenario = Scenario {
    name: "torture",
    about: "many processes on the same files, every read compared, on ext4 and XFS",
    quick: false,
    run: |context| run(context, 6_000),
};

/// A million reads of each filesystem.
pub(crate) const TORTURE_LONG: Scenario = Scenario {
    name: "torture-long",
    about: "torture with a million reads of each filesystem",
    quick: false,
    run: |context| run(context, 1_000_000),
};

/// A filesystem; its name is that of its disk, mount point and models.
pub(crate) struct Site {
    pub(crate) name: &'static str,
    fstype: &'static str,
    block: u64,
    make: &'static [&'static str],
}

pub(crate) const SITES: [Site; 4] = [
    Site {
        name: "ext4",
        fstype: "ext4",
        block: 4096,
        make: &["mke2fs", "-q", "-t", "ext4", "-b", "4096"],
    },
    Site {
        name: "ext4-1k",
        fstype: "ext4",
        block: 1024,
        make: &["mke2fs", "-q", "-t", "ext4", "-b", "1024"],
    },
    Site {
        name: "xfs",
        fstype: "xfs",
        block: 4096,
        make: &["mkfs.xfs", "-q"],
    },
    Site {
        name: "xfs-1k",
        fstype: "xfs",
        block: 1024,
        make: &["mkfs.xfs", "-q", "-b", "size=1k"],
    },
];

/// Files of a filesystem: together several times what its containers may hold.
const FILES: u32 = 24;
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
    let mut workers = Vec::new();
    let mut disturbers = Vec::new();
    for (site, disk) in SITES.iter().zip(&disks) {
        site.make(&guest, &disk.path_in_guest())?;
        disturbers.push(site.disturb(&guest, &disk.path_in_guest())?);
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
        checks as f64,
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

impl Site {
    fn path(&self) -> String {
        format!("/{}", self.name)
    }

    /// Where its models are: on tmpfs, made by nobody's container, which could
    /// not reclaim them.
    fn models(&self) -> String {
        format!("/run/models-{}", self.name)
    }

    /// Has all its processes end soon, and say what they saw.
    pub(crate) fn stop(&self, guest: &Machine) -> Result<()> {
        guest.write_file(&format!("{}/stop", self.models()), "")
    }

    /// Makes and mounts it, and what tells the processes what its files hold.
    pub(crate) fn make(&self, guest: &Guest, device: &str) -> Result<()> {
        guest.exec_ok(self.make.iter().chain([&device]).copied())?;
        guest.mount(device, &self.path(), self.fstype, "noatime")?;
        let files = FILES.to_string();
        guest.exec_ok(["ddhelper", "torture-models", &self.models(), &files])?;
        Ok(())
    }

    /// Starts what reclaims, freezes and unmounts it.
    pub(crate) fn disturb(&self, guest: &Guest, device: &str) -> Result<Running> {
        let line = format!(
            "ddhelper torture-disturb --mount {} --device {device} --fstype {} --models {} --seed {} \
             --unmount --cgroup {} --cgroup {}",
            self.path(),
            self.fstype,
            self.models(),
            self.block,
            CONTAINERS[0],
            CONTAINERS[1],
        );
        guest.spawn(&Command::new(line.split_whitespace()))
    }

    /// Starts a process that reads and changes its files.
    pub(crate) fn work(&self, guest: &Guest, container: &str, checks: u64) -> Result<Running> {
        // Both sides make other choices, and so does each filesystem.
        let seed = container.len() as u64 * 100 + self.block + self.fstype.len() as u64;
        let line = format!(
            "ddhelper torture --dir {} --models {} --seed {seed} --checks {checks} --block {}",
            self.path(),
            self.models(),
            self.block,
        );
        guest.spawn(&Command::new(line.split_whitespace()).cgroup(container))
    }
}
