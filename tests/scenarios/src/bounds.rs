// SPDX-License-Identifier: GPL-2.0-only

//! Repeated work of the guest module is bounded and leaves nothing behind: when the kernel does not
//! let it attach, while there is no host, and beside work that does not benefit from the cache.

mod alone;
mod costs;

use std::{thread, time::Duration};

use anyhow::{Result, ensure};
use ddlab::{Command, Context, FileSpec, Guest, GuestConfig, Scenario, Target, Throttle, wait};

use self::costs::Probe;
use crate::{
    accounting,
    ddctl::{self, GuestCounters},
    filesystem::XFS,
    stage::{self, GUEST, HOST, Stage, attached},
};

/// Tests one guest with and without a host.
pub(crate) const BOUNDS: Scenario = Scenario {
    name: "bounds",
    about: "the repeated work of the guest module is bounded, and leaves nothing behind",
    quick: false,
    run,
};

/// Patch with which the freeing of folios that were noted for a put is not seen.
const FREED_UNSEEN: &str = "freed-unseen";
/// Patch with which ftrace fails to detach.
const DETACH_FAILS: &str = "detach-fails";
/// The faults that the scenario provokes itself, besides those that it must notice.
pub(crate) const FAULTS: [&str; 2] = [FREED_UNSEEN, DETACH_FAILS];

const CAPACITY_MIB: u64 = 256;
/// Size of files that are read for the first time.
const LEN: u64 = 16 << 20;
/// Bytes of a file with more chunks than the smallest map has room for in a shard.
const LONG: u64 = 128 << 20;
/// Number of tasks that reclaim at the same time: several for each of the module's 64 places, of
/// which a task probes 8.
const TASKS: u32 = 256;
/// Number of shards of the module's map.
const SHARDS: u64 = 64;
/// The cgroup whose pages are reclaimed.
const READER: &str = "reader";
const LIMIT: &str = "24M";
/// The disk of the long file, and its mount point.
const DATA: &str = "/mnt";

fn run(context: &mut Context) -> Result<Vec<Target>> {
    context.allow_console("cannot attach to");
    let stage = Stage {
        lab: context.lab()?,
    };
    let files = vec![
        FileSpec::new("alone", LEN, 1),
        FileSpec::new("cold", LEN, 2),
        FileSpec::new("long", LONG, 3),
    ];
    let data = stage.disk("data", files)?;
    let xfs = stage.blank_disk(XFS.name, 512)?;
    let journal = stage.blank_disk("journal", 256)?;
    let config = GuestConfig::new("one").disks([&data, &xfs, &journal], Throttle::NONE);
    let guest = stage.lab.start_guest(&config)?;
    guest.mount(&data.path_in_guest(), DATA, "ext4", "noatime")?;
    guest.cgroup(READER, &[("memory.max", LIMIT)])?;
    let mut targets = Vec::new();

    seeded(&guest)?;
    alone::reaps(&guest)?;
    let requests = costs::requests(&guest, &data, "alone")?;
    targets.push(alone::attaches(&stage, &guest)?);

    ddctl::run(&guest, &format!("container add {READER} --policy fifo"))?;
    targets.push(costs::sequential(
        requests,
        costs::requests(&guest, &data, "cold")?,
    ));
    targets.push(costs::journalled(&guest, &journal)?);
    targets.push(costs::written(&guest, &xfs)?);
    forgets(&guest)?;
    costs::reloaded(&guest, &xfs)?;
    targets.push(departs(&stage, &guest)?);
    targets.push(costs::paced(&guest)?);
    accounting::check(stage.host())?;
    stays(&stage, &guest)?;
    Ok(targets)
}

/// Loads the module. It draws two random numbers for the hash of each shard of its map, so that
/// programs cannot choose names of files that collide.
fn seeded(guest: &Guest) -> Result<()> {
    let probe = Probe::on(guest, "dd_seed", "get_random_u64")?;
    guest.load_module(GUEST, &[])?;
    let drawn = probe.hits()?;
    // Starting a program draws a few, too.
    ensure!(
        drawn >= 2 * SHARDS,
        "only {drawn} random numbers were drawn for {SHARDS} shards"
    );
    Ok(())
}

/// The pages of an unmounted filesystem are forgotten after some time.
fn forgets(guest: &Guest) -> Result<()> {
    guest.run_ok(&Command::shell("cat /xfs/file > /dev/null").cgroup(READER))?;
    stage::reclaim(guest, READER, LIMIT)?;
    guest.exec_ok(["umount", DATA, "/xfs"])?;
    wait::until("pages of filesystems that are gone are forgotten", || {
        Ok((ddctl::counters(guest)?.map_pages == 0).then_some(()))
    })?;
    guest.mount("/dev/dd/data", DATA, "ext4", "noatime")
}

/// Folios that were noted and whose freeing was not seen do not prevent a task from putting after
/// the hooks are attached again.
fn departs(stage: &Stage<'_>, guest: &Guest) -> Result<Target> {
    reload(stage, guest, FREED_UNSEEN)?;
    ddctl::run(guest, &format!("container add {READER} --policy fifo"))?;
    let skipped = || -> Result<GuestCounters> {
        let before = ddctl::counters(guest)?;
        read_long(guest)?;
        Ok(ddctl::counters(guest)? - before)
    };
    let full = skipped()?;
    ensure!(
        full.put_skipped_slots > 0,
        "all pages found a place: {full:?}"
    );
    take_all_places(guest)?;
    stage.host().unload_module(HOST)?;
    stage::alone(guest)?;
    stage.load_host(CAPACITY_MIB)?;
    attached(guest)?;
    // There is room for all pages here, so that only a few folios are reclaimed.
    let limit = format!("/sys/fs/cgroup/{READER}/memory.max");
    guest.write_file(&limit, "max")?;
    let before = ddctl::counters(guest)?;
    guest.run_ok(&Command::shell(format!("head -c 1M {DATA}/cold > /dev/null")).cgroup(READER))?;
    stage::reclaim(guest, READER, "64K")?;
    let counted = ddctl::counters(guest)? - before;
    guest.write_file(&limit, LIMIT)?;
    guest.unload_module(GUEST)?;
    Ok(Target::none(
        "bounds: pages that find no place after the hooks were detached for a while",
        counted.put_skipped_slots,
    ))
}

/// Makes more tasks reclaim than there are places. All of them live until the last one has
/// reclaimed, so that a later task finds no place if one of them keeps its place.
fn take_all_places(guest: &Guest) -> Result<()> {
    let task = format!(
        "echo 64K > /sys/fs/cgroup/{READER}/memory.reclaim 2> /dev/null; \
         echo >> /run/reclaimed; exec sleep infinity"
    );
    guest
        .shell(format!(
            "tasks=; for n in $(seq {TASKS}); do sh -c '{task}' & tasks=\"$tasks $!\"; done; \
         until [ \"$(wc -l < /run/reclaimed)\" -eq {TASKS} ]; do sleep 0.2; done; kill $tasks"
        ))
        .map(drop)
}

/// A module that cannot be detached because ftrace fails is not unloaded.
fn stays(stage: &Stage<'_>, guest: &Guest) -> Result<()> {
    reload(stage, guest, DETACH_FAILS)?;
    let mut unloading = guest.spawn(&Command::new(["rmmod", GUEST]))?;
    wait::until("unloading ends or does not", || {
        let said = guest.exec_ok(["dmesg"])?;
        let stays = said.contains("cannot detach from the kernel");
        Ok((stays || unloading.poll()?.is_some()).then_some(()))
    })?;
    thread::sleep(Duration::from_secs(2));
    ensure!(unloading.poll()?.is_none(), "the module went away");
    Ok(())
}

/// Loads the guest module again, with a fault of its environment in addition to the mutation that
/// the scenario is tried with.
fn reload(stage: &Stage<'_>, guest: &Guest, fault: &'static str) -> Result<()> {
    guest.unload_module(GUEST)?;
    let outer = stage.lab.mutations();
    stage.lab.mutate(outer.iter().copied().chain([fault]));
    let loaded = guest.load_module(GUEST, &[]);
    stage.lab.mutate(outer);
    loaded?;
    attached(guest).map(drop)
}

/// Reads the long file in a container that can hold a part of it.
fn read_long(guest: &Guest) -> Result<()> {
    let read = Command::shell(format!("cat {DATA}/long > /dev/null"));
    guest.run_ok(&read.cgroup(READER)).map(drop)
}
