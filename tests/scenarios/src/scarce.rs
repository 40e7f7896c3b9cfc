// SPDX-License-Identifier: GPL-2.0-only

//! A host that cannot spare the tier's capacity divides the memory that it can spare by weight
//! (invariant 27), and puts take no memory from other users of the host (invariant 26).

mod pools;

use anyhow::{Result, ensure};
use ddlab::{
    Command, Context, FileSpec, Guest, Machine, ReadSpec, Running, Scenario, Target, Throttle, wait,
};

use crate::{
    accounting,
    ddctl::{self, Vm},
    hog::Hog,
    stage::{self, Stage, pages, percent},
    triggers::Histogram,
};

/// Takes memory from a host with three VMs, one of which becomes idle.
pub(crate) const SCARCE: Scenario = Scenario {
    name: "scarce",
    about: "a host that is short of memory divides the memory that it can spare by weight",
    quick: false,
    run,
};

/// The VMs. The first one becomes idle; it is the oldest in the host's list.
const VMS: [&str; 3] = ["idle", "busy", "third"];
/// Containers of each.
const CONTAINERS: usize = 8;
/// A container's file.
const FILE: u64 = 16 << 20;
/// Number of pages that the tier gives before the kernel kills a task.
const RESCUE: u64 = 1 << 16;
/// Size of the files that the other VMs stream, and number of passes while one is idle.
const STREAM: u64 = 96 << 20;
const PASSES: u64 = 4;
/// Bytes by which the floor exceeds what the host can spare, and bytes of the two batches of
/// evictions by which the tier may be behind at any time.
const PROMISED: u64 = 16 << 20;
const BATCHES: u64 = 4 << 20;
/// Fractions of the tier's initial pages that the consumer of memory takes: without puts, before
/// two VMs put, and while they do.
const PARTS: [f64; 3] = [0.2, 0.3, 0.4];

fn run(context: &mut Context) -> Result<Vec<Target>> {
    context.allow_console("Manual OOM execution|invoked oom-killer|Out of memory: Killed");
    // A capacity that exceeds the available memory.
    let stage = Stage::set(context, 2048)?;
    let host = stage.host();
    let start = |name| Side::start(&stage, name);
    let [idle, busy, third] = [start(VMS[0])?, start(VMS[1])?, start(VMS[2])?];
    let before = accounting::check(host)?;
    let full = ddctl::host(host)?;
    ensure!(
        full.limit_pages == full.capacity_pages,
        "the host was short before anything was taken: {full:?}"
    );

    let hog = Hog::start(host, Hog::HOST_FLOOR_KIB)?;
    let ramp = PressureRamp {
        host,
        hog: &hog,
        full: full.used_pages,
    };
    ramp.until_gone(PARTS[0])?;
    let kept = Kept::compare(&before, &accounting::check(host)?)?;
    // If one VM gave all pages, the scenario ends here, because the rest would take long and show
    // nothing more.
    ensure!(
        kept.spread(&kept.vms) < 30.0,
        "equal VMs kept unequal parts of theirs: {:.1?}",
        kept.vms
    );

    // Puts alone do not wake the kernel's reclaim.
    let reclaim = Reclaim::watch(host)?;
    busy.read_stream()?;

    ramp.until_gone(PARTS[1])?;
    let had = ddctl::vm(&accounting::check(host)?, VMS[0])?.used_pages;
    let limits = Histogram::start(host, "doubledecker_host/dd_limit", "pages")?;
    let limit = ddctl::host(host)?.limit_pages;
    let before = ddctl::counters(&busy.guest)?;
    let streams = [busy.stream()?, third.stream()?];
    wait::until("the streams went on for a while", || {
        let offered = (ddctl::counters(&busy.guest)? - before).put_offered;
        Ok((offered >= PASSES * pages(STREAM)).then_some(()))
    })?;
    let puts = ddctl::counters(&busy.guest)? - before;
    let own = ddctl::vm(&ddctl::vms(host)?, VMS[0])?.used_pages;
    // A third of the least number of pages that were divided. The idle VM puts none, so that it
    // does not get pages back when the limit rises again.
    let least = limits.values()?.into_iter().fold(limit, u64::min);
    drop(limits);
    let due = had.min(least / 3);

    // Pages are evicted all the time while the kernel asks for memory.
    ramp.until_gone(PARTS[2])?;
    let woken = reclaim.woken()?;
    fills_to_its_floor(host)?;
    drop(reclaim);
    for mut stream in streams {
        stream.kill(9)?;
        stream.wait()?;
    }
    let status = ddctl::host(host)?;
    drop(hog);

    // The remaining pages are right, and the host soon has memory for all of them again.
    let sides = [idle, busy, third];
    sides.iter().try_for_each(Side::read_all)?;
    wait::until("the tier has its capacity again", || {
        let status = ddctl::host(host)?;
        Ok((status.limit_pages == status.capacity_pages).then_some(()))
    })?;
    accounting::check(host)?;
    let rescued = rescue(host)?;
    accounting::check(host)?;
    drop(sides);
    let pools = pools::lose_alike(host)?;
    Ok(vec![
        rescued,
        pools,
        Target::at_most(
            "scarce: difference between the parts of their pages that equal VMs kept",
            // It was 0.8, as for containers.
            3.0,
            kept.spread(&kept.vms),
            "points",
        ),
        Target::at_most(
            "scarce: difference between the parts of their pages that equal containers kept",
            4.0,
            kept.spread(&kept.containers),
            "points",
        ),
        Target::at_least(
            "scarce: part of its entitlement that an idle VM holds while others put",
            // At least 99.8 % was seen.
            98.0,
            percent(own, due),
            "%",
        ),
        Target::at_least(
            "scarce: part of the puts that were stored while memory was short",
            // At least 99.9 % were stored.
            98.0,
            percent(puts.put_stored, puts.put_offered),
            "%",
        ),
        Target::none(
            "scarce: times that a put above the floor woke the host's reclaim",
            woken,
        ),
        Target::none(
            "scarce: requests for memory for which the tier gave none",
            status.counters.shrink_refused,
        ),
        Target::at_most(
            "scarce: part of the capacity that the host could spare",
            // An eighth was seen. Otherwise the host was not short.
            25.0,
            percent(status.limit_pages, status.capacity_pages),
            "%",
        ),
    ])
}

/// Raises the floor above what the host can spare. Puts fill the tier up to it although the host is
/// short, because below the floor the tier may make the kernel reclaim memory.
fn fills_to_its_floor(host: &Machine) -> Result<()> {
    let before = ddctl::host(host)?;
    ensure!(
        before.limit_pages < before.capacity_pages,
        "the host is not short of memory any more: {before:?}"
    );
    let floor = before.limit_pages + pages(PROMISED);
    let set = |pages: u64| ddctl::run(host, &format!("set-capacity --floor {}K", pages * 4));
    set(floor)?;
    wait::until("the tier fills up to its floor", || {
        let used = ddctl::host(host)?.used_pages;
        Ok((used >= floor - pages(BATCHES)).then_some(()))
    })?;
    set(before.floor_pages).map(drop)
}

/// Makes the kernel kill a task because of missing memory. Before that, the tier must give more
/// than the shrinker asks for at a time.
fn rescue(host: &Machine) -> Result<Target> {
    let before = ddctl::host(host)?;
    // This task is the first to be killed.
    let victim = "echo 1000 > /proc/self/oom_score_adj; exec sleep infinity";
    let mut victim = host.spawn(&Command::shell(victim))?;
    wait::until("the task is the first to be killed", || {
        let adjusted = host.shell("cat /proc/[0-9]*/oom_score_adj 2> /dev/null || true")?;
        Ok(adjusted.lines().any(|line| line == "1000").then_some(()))
    })?;
    host.write_file("/proc/sysrq-trigger", "f")?;
    victim.wait()?;
    let spare = before.used_pages.saturating_sub(before.floor_pages);
    ensure!(spare > 0, "the tier is not above its floor");
    let after = ddctl::host(host)?;
    let given = after.counters.shrunk - before.counters.shrunk;
    eprintln!(
        "    scarce: the tier held {} pages before a task was killed and {} after, and gave {given}",
        before.used_pages, after.used_pages
    );
    // Pages that a guest reads in between are counted as gone as well.
    let gone = before.used_pages.saturating_sub(after.used_pages);
    ensure!(given > 0, "the shrinker asked the tier for no page");
    Ok(Target::at_least(
        "scarce: part of the expected pages freed before the kernel kills a task",
        100.0,
        percent(gone, spare.min(RESCUE)),
        "%",
    ))
}

/// Memory pressure that increases.
struct PressureRamp<'a> {
    host: &'a Machine,
    hog: &'a Hog<'a>,
    /// Initial number of pages in the tier.
    full: u64,
}

impl PressureRamp<'_> {
    /// Increases the pressure until a fraction of the tier's initial pages is gone.
    fn until_gone(&self, part: f64) -> Result<()> {
        let left = (self.full as f64 * (1.0 - part)) as u64;
        self.hog
            .until(|| Ok(ddctl::host(self.host)?.used_pages < left))
    }
}

/// Counts how often the module makes the host's kernel reclaim memory. The kernel counts by the
/// stacks of tasks, so that other users of memory do not matter.
struct Reclaim<'a> {
    background: Histogram<'a>,
    direct: Histogram<'a>,
}

impl<'a> Reclaim<'a> {
    fn watch(host: &'a Machine) -> Result<Self> {
        let stacks = |event| Histogram::start(host, event, "common_stacktrace");
        Ok(Self {
            background: stacks("vmscan/mm_vmscan_wakeup_kswapd")?,
            direct: stacks("vmscan/mm_vmscan_direct_reclaim_begin")?,
        })
    }

    fn woken(&self) -> Result<u64> {
        let module = "doubledecker_host";
        Ok(self.background.by_module(module)? + self.direct.by_module(module)?)
    }
}

/// Percentages of the initial pages that were kept.
struct Kept {
    vms: Vec<f64>,
    containers: Vec<f64>,
}

impl Kept {
    fn compare(before: &[Vm], after: &[Vm]) -> Result<Self> {
        let (mut vms, mut all) = (Vec::new(), Vec::new());
        for name in VMS {
            let (before, after) = (ddctl::vm(before, name)?, ddctl::vm(after, name)?);
            vms.push(percent(after.used_pages, before.used_pages));
            let pairs = containers(before).zip(containers(after));
            all.extend(pairs.map(|(before, after)| percent(after, before)));
        }
        Ok(Self {
            vms,
            containers: all,
        })
    }

    fn spread(&self, kept: &[f64]) -> f64 {
        let most = kept.iter().copied().fold(0.0, f64::max);
        most - kept.iter().copied().fold(100.0, f64::min)
    }
}

/// Returns the numbers of pages of the containers that were filled.
fn containers(vm: &Vm) -> impl Iterator<Item = u64> {
    let filled = vm.containers.iter().filter(|one| one.name.starts_with('c'));
    filled.map(|one| one.used_pages)
}

/// A VM with a full container for each of its files.
struct Side {
    guest: Guest,
    files: Vec<FileSpec>,
    stream: FileSpec,
}

impl Side {
    fn start(stage: &Stage<'_>, name: &str) -> Result<Self> {
        let file = |n| FileSpec::new(format!("c{n}"), FILE, n as u64);
        let files: Vec<FileSpec> = (0..CONTAINERS).map(file).collect();
        let stream = FileSpec::new("stream", STREAM, 99);
        let mut all = files.clone();
        all.push(stream.clone());
        let disk = stage.disk(name, all.clone())?;
        let guest = stage.guest_with(name, &disk, Throttle::NONE)?;
        for file in &all {
            guest.cgroup(&file.path, &[("memory.max", "12M")])?;
            let path = &file.path;
            ddctl::run(&guest, &format!("container add {path} --policy fifo"))?;
        }
        let side = Self {
            guest,
            files,
            stream,
        };
        side.read_all()?;
        // This reclaims pages that are still in the guest's page cache.
        for file in &side.files {
            let reclaim = format!("/sys/fs/cgroup/{}/memory.reclaim", file.path);
            side.guest
                .shell(format!("echo 12M > {reclaim} 2> /dev/null || true"))?;
        }
        Ok(side)
    }

    fn read_all(&self) -> Result<()> {
        for file in &self.files {
            let path = format!("/mnt/{}", file.path);
            stage::read(&self.guest, &ReadSpec::new(path).cgroup(&file.path), file)?;
        }
        Ok(())
    }

    /// Reads a large file once, which puts its pages.
    fn read_stream(&self) -> Result<()> {
        let spec = ReadSpec::new("/mnt/stream").cgroup("stream");
        stage::read(&self.guest, &spec, &self.stream)
    }

    /// Reads the large file again and again.
    fn stream(&self) -> Result<Running> {
        let forever = "while :; do cat /mnt/stream > /dev/null; done";
        self.guest.spawn(&Command::shell(forever).cgroup("stream"))
    }
}
