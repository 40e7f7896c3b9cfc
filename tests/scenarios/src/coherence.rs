// SPDX-License-Identifier: GPL-2.0-only

//! Content that is read through the cache is that on disk, whatever happens to the files: the guest
//! executes a long random series of operations, and the results of its reads are compared with the
//! same series executed on bytes outside of it.

mod attach;
mod rules;
mod scsi;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use ddhelper::churn::{Plan, ReadResult, Replay};
use ddlab::{
    Command, Context, Disk, Guest, GuestConfig, Running, Scenario, Target, Throttle, wait,
};

use crate::{
    accounting, ddctl,
    filesystem::{EXT4, EXT4_1K, Filesystem, XFS},
    stage::{self, Stage},
};

/// Runs three filesystems at the same time, each in a container from which pages are reclaimed and
/// whose files others read, with a tier that is too small for all.
pub(crate) const COHERENCE: Scenario = Scenario {
    name: "coherence",
    about: "bytes read through the cache are the bytes on disk, on ext4 and XFS",
    quick: true,
    run,
};

/// Each filesystem has a cgroup of its name.
const SITES: [Filesystem; 3] = [EXT4, EXT4_1K, XFS];

/// For a single rule: no folio is smaller than a block, and files end inside of blocks.
const XFS_16K: Filesystem = Filesystem {
    name: "xfs-16k",
    block: 16384,
    make: "mkfs.xfs -q -b size=16k",
    ..XFS
};

/// For single rules: owners of files may set their generations, and files may be encrypted.
const EXT4_PLAIN: Filesystem = Filesystem {
    name: "ext4-plain",
    make: "mke2fs -q -t ext4 -b 4096 -O ^metadata_csum,encrypt",
    ..EXT4
};

/// For single rules: its disk, which is memory, replaces blocks atomically, discards them, and
/// fills them with zeros by itself.
const EXT4_SCSI: Filesystem = Filesystem {
    name: "ext4-scsi",
    ..EXT4
};

/// For single rules: files on its realtime device, which is memory, may be DAX, and those on its
/// other device may not.
const XFS_DAX: Filesystem = Filesystem {
    name: "xfs-dax",
    make: "mkfs.xfs -q -m rmapbt=0,reflink=0 -r rtdev=/dev/pmem0",
    ..XFS
};
/// Memory that the guest takes for persistent.
const PERSISTENT: &str = "memmap=64M!512M";

/// Maximum size of a file. The files of a site together are several times its limit.
const MAX_LEN: u64 = 2 << 20;
const LIMIT: &str = "12M";

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let steps = if context.quick() { 200 } else { 1000 };
    let stage = Stage::set(context, 32)?;
    let all = || SITES.iter().chain([&XFS_16K, &XFS_DAX, &EXT4_PLAIN]);
    let disks = stage.blank_disks(all().map(|site| site.name), 512)?;
    let config = GuestConfig::new("one").vcpus(2).memory_mib(640).nodes(2);
    let config = config.kernel_arg(PERSISTENT);
    // Frames keep their content, so that pages that were not filled are detected.
    let config = config.kernel_arg("init_on_alloc=0");
    let config = config.disks(&disks, Throttle::NONE);
    let guest = stage.lab.start_guest(&config)?;
    let plain = disks.last().context("there are too few disks")?;
    let mut targets = vec![attach::hold(&guest, plain)?];
    ddctl::run(&guest, "container set-weight default 0")?;

    guest.exec_ok(["modprobe", "-a", "nd_pmem", "nd_e820", "quota_v2"])?;
    wait::until("the device is there", || {
        let there = guest.exec(["test", "-b", "/dev/pmem0"])?;
        Ok(there.exit.success().then_some(()))
    })?;
    for (site, disk) in all().zip(&disks) {
        site.mount(&guest, &disk.path_in_guest())?;
    }
    EXT4_SCSI.mount(&guest, &scsi::disk(&guest)?)?;
    targets.extend(rules::hold(&guest)?);
    if targets.iter().any(|target| !target.met) {
        // Random operations would notice the same fault only once more.
        return Ok(targets);
    }
    let mut runs = Vec::new();
    for (seed, (site, disk)) in (1..).zip(SITES.iter().zip(&disks)) {
        let plan = site.plan(seed, steps);
        runs.push((site, plan, site.start(&guest, disk, &plan)?));
    }
    let (mut pages, mut wrong) = (0, Vec::new());
    for (site, plan, running) in &mut runs {
        let replay = site.judge(*plan, running)?;
        pages += replay.pages;
        let all = replay.wrong.iter();
        wrong.extend(all.map(|wrong| format!("{}: {wrong}", site.name)));
    }
    // The first faulty pages give details that the figure does not.
    for line in wrong.iter().take(10) {
        eprintln!("    {line}");
    }
    let counters = ddctl::counters(&guest)?;
    accounting::check(stage.host())?;
    targets.extend([
        Target::at_most("coherence: wrong pages", 0.0, wrong.len() as f64, "")
            .detail(format!("of {pages} that were read")),
        // Without such pages the scenario would show nothing.
        // Less than half of those for each step in six runs.
        Target::at_least(
            "coherence: pages that came from the host",
            f64::from(steps * 100),
            counters.get_hits as f64,
            "",
        ),
        Target::at_least(
            "coherence: pages forgotten because their content changed",
            f64::from(steps * 30),
            counters.invalidated as f64,
            "",
        ),
    ]);
    Ok(targets)
}

impl Filesystem {
    fn plan(&self, seed: u64, steps: u32) -> Plan {
        Plan {
            seed,
            steps,
            files: 24,
            longest: MAX_LEN,
            block: self.block,
            offline: self.fstype == "ext4",
        }
    }

    /// Makes the filesystem and the container that uses it.
    fn mount(&self, guest: &Guest, device: &str) -> Result<()> {
        self.format(guest, device)?;
        let options = match self.name == XFS_DAX.name {
            true => "noatime,rtdev=/dev/pmem0",
            false => "noatime",
        };
        guest.mount(device, &self.path(), self.fstype, options)?;
        stage::container(guest, self.name, LIMIT, 100)
    }

    fn start(&self, guest: &Guest, disk: &Disk, plan: &Plan) -> Result<Running> {
        let device = disk.path_in_guest();
        let mount = self.path();
        let plan = serde_json::to_string(plan)?;
        let arguments = [
            ("--plan", plan.as_str()),
            ("--device", &device),
            ("--mount", &mount),
            ("--fstype", self.fstype),
            ("--cgroup", self.name),
        ];
        let words = arguments.iter().flat_map(|(name, value)| [*name, *value]);
        let command = Command::new(["ddhelper", "churn"].into_iter().chain(words));
        guest.spawn(&command.cgroup(self.name))
    }

    fn judge(&self, plan: Plan, running: &mut Running) -> Result<Replay> {
        let exit = running.wait()?;
        let output = running.output()?;
        if !exit.success() {
            let words: Vec<&str> = output.lines().filter(|l| !l.starts_with('{')).collect();
            bail!("the churn on {} failed: {}", self.name, words.join("\n"));
        }
        let report: Vec<ReadResult> = output
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()
            .with_context(|| format!("the report of {}", self.name))?;
        ensure!(!report.is_empty(), "{} reported nothing", self.name);
        Replay::judge(plan, &report).map_err(|text| anyhow!("{}: {text}", self.name))
    }
}
