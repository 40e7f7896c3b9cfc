// SPDX-License-Identifier: GPL-2.0-only

//! Existing test tools, fio, stress-ng and fsx, on one filesystem after the other. Each runs in a
//! container that can hold a fraction of its files, while pages are reclaimed from the container
//! and the filesystem is frozen and remounted. All tools verify what they read, and each gets pages
//! from the host.

mod fio;
mod fsx;
mod stress_ng;

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use ddlab::{Command, Context, Guest, GuestConfig, Running, Scenario, Target, Throttle};

use crate::{
    accounting, ddctl,
    filesystem::{EXT4, EXT4_1K, Filesystem, XFS, XFS_1K},
    stage::Stage,
    torture::{Disturbance, end_disturbance},
};

/// Runs by name only, because it takes minutes under emulation.
pub(crate) const TOOLS: Scenario = Scenario {
    name: "tools",
    about: "fio, stress-ng and fsx verify what they read on ext4 and XFS",
    quick: false,
    run,
};

const SITES: [Filesystem; 4] = [EXT4, EXT4_1K, XFS, XFS_1K];
const ALL: [Tool; 3] = [fio::FIO, stress_ng::STRESS_NG, fsx::FSX];

/// Less than the size of all files together.
const CAPACITY_MIB: u64 = 64;
/// Size of an ext4 with all files that stress-ng leaves.
const DISK_MIB: u64 = 1024;
/// Directory of the lock that disturbers expect; no other task uses it here.
const MODELS: &str = "/run/models";
/// Number of pages that must come from the host, and the same for the short form: a third of the
/// smallest number seen. The number depends on the order in which the tools and the disturber run.
const FROM_HOST: [u64; 2] = [8_000, 500];

/// A program that verifies what it reads.
struct Tool {
    name: &'static str,
    /// Memory of its container, little more than that of its processes.
    limit: &'static str,
    /// Makes the files that it needs outside of its directory.
    prepare: fn(&Guest) -> Result<()>,
    /// Lines of shell, each for a separate process; a short form if `quick`.
    lines: fn(quick: bool) -> Vec<String>,
    /// Returns how many operations were verified according to its output.
    verified: fn(&str) -> Result<u64>,
    /// Minimum number of verified operations on a filesystem, slightly below the usual number; and
    /// the same for the short form.
    least: [u64; 2],
}

/// A tool that runs on a filesystem.
struct Work {
    tool: &'static Tool,
    filesystem: &'static Filesystem,
    processes: Vec<Running>,
    start: Instant,
}

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let quick = context.quick();
    let stage = Stage::set(context, CAPACITY_MIB)?;
    let disks = stage.blank_disks(SITES.map(|site| site.name), DISK_MIB)?;
    let config = GuestConfig::new("one").vcpus(2).memory_mib(1024);
    let guest = stage.guest(&config.disks(&disks, Throttle::NONE))?;
    // The ratio is of the container's memory; with a lower one the tool would wait after each small
    // write.
    guest.write_file("/proc/sys/vm/dirty_ratio", "60")?;
    guest.exec_ok(["ddhelper", "torture-models", MODELS, "0"])?;
    ALL.iter().try_for_each(|tool| (tool.prepare)(&guest))?;
    let mut targets = Vec::new();
    for (filesystem, disk) in SITES.iter().zip(&disks) {
        targets.extend(on(&guest, filesystem, &disk.path_in_guest(), quick)?);
    }
    accounting::check(stage.host())?;
    Ok(targets)
}

/// Runs all tools at the same time on a filesystem of a device.
fn on(
    guest: &Guest,
    filesystem: &'static Filesystem,
    device: &str,
    quick: bool,
) -> Result<Vec<Target>> {
    let place = filesystem.path();
    filesystem.format(guest, device)?;
    guest.mount(device, &place, filesystem.fstype, "noatime")?;
    let works = ALL
        .iter()
        .map(|tool| Work::start(guest, tool, filesystem, quick));
    let works = works.collect::<Result<Vec<_>>>()?;
    let disturbance = Disturbance {
        filesystem,
        place: &place,
        device,
        models: MODELS,
        unmount: false,
        grow_from: None,
    };
    let containers = ALL.iter().map(|tool| container(tool, filesystem));
    let disturber = disturbance.start(guest, containers)?;
    let ends = works.into_iter().map(|work| work.end(guest, quick));
    let targets = ends.collect::<Result<Vec<_>>>()?;
    end_disturbance(disturber)?;
    Ok(targets.into_iter().flatten().collect())
}

/// Returns the container of a tool on a filesystem.
fn container(tool: &Tool, filesystem: &Filesystem) -> String {
    format!("{}-{}", tool.name, filesystem.name)
}

impl Work {
    /// Starts a tool in a separate container and directory, with a policy that admits all pages.
    fn start(
        guest: &Guest,
        tool: &'static Tool,
        filesystem: &'static Filesystem,
        quick: bool,
    ) -> Result<Self> {
        let container = container(tool, filesystem);
        guest.cgroup(&container, &[("memory.max", tool.limit)])?;
        let add = format!("container add {container} --weight 100 --policy fifo");
        ddctl::run(guest, &add)?;
        let dir = format!("{}/{}", filesystem.path(), tool.name);
        guest.exec_ok(["mkdir", &dir])?;
        let start = |line| {
            let command = Command::new(["bash", "-euo", "pipefail", "-c", line]);
            guest.spawn(&command.cwd(&dir).cgroup(&container))
        };
        let lines = (tool.lines)(quick);
        let processes = lines.iter().map(|line| start(line));
        Ok(Self {
            tool,
            filesystem,
            processes: processes.collect::<Result<_>>()?,
            start: Instant::now(),
        })
    }

    /// Waits for its end. Returns its results.
    fn end(self, guest: &Guest, quick: bool) -> Result<[Target; 2]> {
        let container = container(self.tool, self.filesystem);
        let mut verified = 0;
        for mut process in self.processes {
            let exit = process.wait()?;
            let output = process.output()?;
            ensure!(exit.success(), "{container} failed ({exit:?}): {output}");
            let count = (self.tool.verified)(&output);
            verified += count.with_context(|| format!("{container} wrote {output}"))?;
        }
        let containers = ddctl::containers(guest)?;
        let stats = ddctl::container(&containers, &container)?.stats;
        let hits = stats.context("the container has no figures")?.hits;
        let took = self.start.elapsed().as_secs();
        eprintln!("    {container}: {verified} operations verified, {hits} hits, {took} s");
        let (name, place) = (self.tool.name, self.filesystem.name);
        let form = usize::from(quick);
        Ok([
            Target::at_least(
                format!("tools: pages that the host returned to {name} on {place}"),
                FROM_HOST[form] as f64,
                hits as f64,
                "",
            ),
            Target::at_least(
                format!("tools: operations that {name} verified on {place}"),
                self.tool.least[form] as f64,
                verified as f64,
                "",
            ),
        ])
    }
}
