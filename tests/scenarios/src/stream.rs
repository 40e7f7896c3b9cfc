// SPDX-License-Identifier: GPL-2.0-only

//! A file larger than the memory of its reader is read from disk once, and from the host every time
//! after that. The tracepoints of both modules agree with the counters.

use anyhow::{Result, ensure};
use ddlab::{
    Context, Disk, FileSpec, Guest, GuestConfig, Machine, ReadSpec, Scenario, Target, Throttle,
    wait,
};

use crate::{
    accounting,
    cgroup::Stat,
    ddctl,
    meter::{Measured, Meter},
    stage::{self, Stage, pages, percent, ratio},
    tracepoints,
};

/// Reads 96 MiB three times with a limit of 48 MiB; in the long form on XFS as well.
pub(crate) const STREAM: Scenario = Scenario {
    name: "stream",
    about: "a large file is read from disk once, and from the host after that, with few exits",
    quick: true,
    run,
};

const CAPACITY_MIB: u64 = 256;
/// Memory that a guest takes for persistent, which is a device with DAX.
const PERSISTENT: &str = "memmap=64M!384M";
/// Bytes of a file on it.
const PERSISTENT_MIB: u64 = 24;
/// Percentage of a file's pages that come from the host after the first pass; all of them did.
const MIN_PERCENT: f64 = 99.9;
/// Pages for each exit, of at most 128 in a call; 126.7 and 116.5 were seen.
const IN_A_GET: f64 = 120.0;
const IN_A_PUT: f64 = 105.0;
/// Name of the guest.
const NAME: &str = "one";
/// The cgroup that reads.
const READER: &str = "reader";

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let quick = context.quick();
    let file = FileSpec::new("large", 96 << 20, 1);
    let stage = Stage::set(context, CAPACITY_MIB)?;
    let small = FileSpec::new("small", 4 << 20, 2);
    let ext4 = stage.disk("ext4", vec![file.clone(), small.clone()])?;
    let xfs = stage.blank_disk("xfs", 512)?;
    let config = GuestConfig::new(NAME)
        // Some of it is for bpftrace.
        .memory_mib(768)
        .disk(&ext4, Throttle::NONE)
        .disk(&xfs, Throttle::NONE)
        .kernel_arg(PERSISTENT);
    let guest = stage.guest(&config)?;
    stage::container(&guest, READER, "48M", 100)?;
    guest.mount(&ext4.path_in_guest(), "/ext4", "ext4", "noatime")?;

    let mut targets = read_thrice(&guest, &ext4, &file)?;
    belong(&stage)?;
    if !quick {
        copy_to_xfs(&guest, &xfs)?;
        targets.extend(read_thrice(&guest, &xfs, &file)?);
        targets.push(read_persistent(&guest)?);
    }
    tracepoints::count(
        &stage,
        (&guest, NAME),
        ("/ext4/small", &small),
        READER,
        !quick,
    )?;
    agree(&stage, &guest)?;
    tracepoints::lose_host(&stage, &guest, CAPACITY_MIB)?;
    tracepoints::unload(&stage, &guest)?;
    Ok(targets)
}

/// Writes the file to a new XFS, which is then mounted again, so that its pages are in no cache.
fn copy_to_xfs(guest: &Machine, disk: &Disk) -> Result<()> {
    let device = disk.path_in_guest();
    guest.exec_ok(["mkfs.xfs", "-q", &device])?;
    guest.mount(&device, "/xfs", "xfs", "noatime")?;
    guest.shell("cp /ext4/large /xfs/large; umount /xfs")?;
    guest.mount(&device, "/xfs", "xfs", "noatime")
}

fn read_thrice(guest: &Guest, disk: &Disk, file: &FileSpec) -> Result<Vec<Target>> {
    let filesystem = disk.path_in_guest().replace("/dev/dd", "");
    let meter = Meter::new(guest, disk)?;
    let pass = || -> Result<Measured> {
        meter.measure(|| {
            let spec = ReadSpec::new(format!("{filesystem}/large")).cgroup(READER);
            stage::read(guest, &spec, file)
        })
    };
    let (first, second, third) = (pass()?, pass()?, pass()?);

    let all = pages(file.len);
    let again = second.counters.get_hits + third.counters.get_hits;
    let gets = second.counters.get_calls + third.counters.get_calls;
    let stored = second.counters.put_stored + third.counters.put_stored;
    let puts = second.counters.put_calls + third.counters.put_calls;
    let name = |what: &str| format!("{}: {what}", filesystem.trim_start_matches('/'));
    let from_host = |pass: &Measured| percent(pass.counters.get_hits, all);
    Ok(vec![
        Target::none(
            name("gets while a file is read for the first time"),
            first.counters.get_calls,
        ),
        Target::at_least(
            name("pages of the second pass from the host"),
            MIN_PERCENT,
            from_host(&second),
            "%",
        ),
        Target::at_least(
            name("pages of the third pass from the host"),
            MIN_PERCENT,
            from_host(&third),
            "%",
        ),
        Target::at_most(
            name("pages of both passes from disk"),
            100.0 - MIN_PERCENT,
            percent(second.disk_pages + third.disk_pages, 2 * all),
            "%",
        ),
        Target::at_least(
            name("pages for each exit of a sequential get"),
            IN_A_GET,
            ratio(again, gets),
            "",
        ),
        Target::at_least(
            name("pages for each exit of a sequential put"),
            IN_A_PUT,
            ratio(stored, puts),
            "",
        ),
    ])
}

/// The reader's pages belong to the reader's container.
fn belong(stage: &Stage<'_>) -> Result<()> {
    let vms = ddctl::vms(stage.host())?;
    let vm = ddctl::vm(&vms, NAME)?;
    let held = vm.container(READER)?.used_pages;
    ensure!(
        held > 0 && held == vm.used_pages,
        "of {} pages {held} are the reader's",
        vm.used_pages
    );
    Ok(())
}

/// Reclaims pages of a device with DAX, whose files can change without a hook.
fn read_persistent(guest: &Guest) -> Result<Target> {
    guest.exec_ok(["modprobe", "-a", "nd_pmem", "nd_e820"])?;
    wait::until("the device is there", || {
        let there = guest.exec(["test", "-b", "/dev/pmem0"])?;
        Ok(there.exit.success().then_some(()))
    })?;
    guest.exec_ok(["mke2fs", "-q", "-t", "ext4", "/dev/pmem0"])?;
    guest.mount("/dev/pmem0", "/pmem", "ext4", "noatime")?;
    guest.shell(format!(
        "head -c {PERSISTENT_MIB}M /ext4/large > /pmem/file; sync"
    ))?;
    guest.drop_caches(false)?;
    guest.read(&ReadSpec::new("/pmem/file").cgroup(READER))?;
    let cached = || Stat::of(guest, READER)?.get("file");
    let (before, held) = (ddctl::counters(guest)?, cached()?);
    // The amount exceeds the existing memory, which the kernel reports.
    let reclaim = format!("/sys/fs/cgroup/{READER}/memory.reclaim");
    guest.shell(format!("echo 64M > {reclaim} || true"))?;
    let counted = ddctl::counters(guest)? - before;
    let gone = held.saturating_sub(cached()?);
    ensure!(
        gone >= (PERSISTENT_MIB - 1) << 20,
        "only {gone} bytes of {held} were reclaimed"
    );
    Ok(Target::none(
        "pages of a device that offers DAX that went to the host",
        counted.put_stored,
    ))
}

/// Both sides have counted the same pages.
fn agree(stage: &Stage<'_>, guest: &Machine) -> Result<()> {
    let vms = accounting::check(stage.host())?;
    let vm = ddctl::vm(&vms, NAME)?;
    let ours = ddctl::counters(guest)?;
    let theirs = (
        accounting::total(vm, |stats| stats.puts),
        accounting::total(vm, |stats| stats.hits),
    );
    ensure!(
        theirs == (ours.put_stored, ours.get_hits),
        "the host counts {theirs:?} stored and returned pages, but the guest {ours:?}"
    );
    Ok(())
}
