// SPDX-License-Identifier: GPL-2.0-only

//! A part of all allocations fails while a guest is tortured: first those of the host module, then
//! those of the guest module's worker and of the guest's administrator.

use anyhow::{Context as _, Result, ensure};
use ddlab::{Command, FileSpec, GuestConfig, ReadSpec, Target, Throttle, content};

use super::{
    CAPACITY_MIB,
    faults::{Below, Faults, MARKED},
};
use crate::{
    accounting, ddctl,
    site::Site,
    stage::{self, GUEST, HOST, Stage},
    torture::{FEW, Storm},
};

/// Percentage of failing allocations in the host, which are those of puts and gets.
const PERCENT_AT_HOST: u32 = 10;
/// Percentage in the guest, where only rare operations allocate.
const PERCENT_IN_GUEST: u32 = 20;
/// Size of a file that is read again and again, from a container that can hold half of it.
const FILE: u64 = 16 << 20;
const MAX_READS: u32 = 60;
/// Number of reads that must have been compared, a sixth of those in the short form.
const MIN_READS: u64 = 20_000;
const READER: &str = "reader";
const READER_LIMIT: &str = "8M";
/// A container that is added and removed repeatedly.
const PASSER: &str = "passer";
/// Number of files, which is too many for the initial memory of the guest's map.
const SMALL_FILES: u64 = 7500;

pub(super) fn run(stage: &Stage<'_>, quick: bool) -> Result<Vec<Target>> {
    let host = stage.host();
    stage.load_host(CAPACITY_MIB)?;
    let file = FileSpec::new("file", FILE, 1);
    let mut files = content::small_files("tree", SMALL_FILES, 1000, 2);
    files.push(file.clone());
    let data = stage.disk("data", files)?;
    let blank = stage.blank_disks(FEW.map(|site| site.name()), 512)?;
    let config = GuestConfig::new("one").vcpus(2).memory_mib(768);
    let guest = stage.guest(&config.disks(blank.iter().chain([&data]), Throttle::NONE))?;
    guest.mount(&data.path_in_guest(), "/mnt", "ext4", "noatime")?;
    for name in [READER, PASSER] {
        guest.cgroup(name, &[("memory.max", READER_LIMIT)])?;
    }
    let storm = Storm::start(&guest, &FEW, u64::MAX)?;
    Storm::some_hits(&guest)?;
    let spec = ReadSpec::new("/mnt/file").cgroup(READER);
    let read = || stage::read(&guest, &spec, &file);

    let faults = Faults::new(host)?;
    faults.only(Below::Module(HOST))?;
    let wanted = if quick { 100 } else { 400 };
    faults.at_random(PERCENT_AT_HOST, false)?;
    for _ in 0..MAX_READS {
        read()?;
        if faults.count()? >= wanted {
            break;
        }
    }
    let at_host = faults.stop()?;
    read()?;
    Storm::some_hits(&guest).context("after allocations failed at the host")?;
    say(&format!("{at_host} allocations of the host failed"));

    let inside = Faults::new(&guest)?;
    inside.only(Below::Module(GUEST))?;
    inside.mark_workers()?;
    inside.at_random(PERCENT_IN_GUEST, true)?;
    for round in 0..if quick { 2 } else { 6 } {
        let marked = |line: &str| -> Result<bool> {
            let line = format!("{MARKED} ddctl --guest {line}");
            Ok(guest.run(&Command::shell(line))?.exit.success())
        };
        for policy in ["adaptive", "tinylfu", "s3", "fifo"] {
            if marked(&format!("container add {PASSER} --policy {policy}"))? {
                while !marked(&format!("container remove {PASSER}"))? {}
            }
        }
        marked("stats")?;
        marked("flush --all")?;
        host.unload_module(HOST)
            .with_context(|| format!("round {round}"))?;
        stage.load_host(CAPACITY_MIB)?;
        read()?;
    }
    // The map grows when there is memory, and works without growing when there is none.
    guest.cgroup("many", &[("memory.max", READER_LIMIT)])?;
    let many = "for dir in /mnt/tree/*; do cat $dir/*; done > /dev/null";
    guest.run_ok(&Command::shell(many).cgroup("many"))?;
    let in_guest = inside.stop()?;
    say(&format!("{in_guest} allocations of the guest failed"));
    stage::attached(&guest)?;
    Storm::some_hits(&guest).context("after allocations failed in the guest")?;
    read()?;
    storm.stop(&guest)?;
    let mut targets = Vec::from(storm.verdict("allocations", MIN_READS)?);
    let site = Site {
        host,
        guest: &guest,
    };
    let weights = ["default", "left", "right"].map(|name| (name, 100));
    site.shows("after allocations succeed again", &weights)?;
    for faults in [&faults, &inside] {
        faults.unsaid()?;
    }
    accounting::check(host)?;
    let counters = ddctl::host(host)?.counters;
    say(&format!(
        "the host refused {} calls",
        counters.refused_memory
    ));
    guest.unload_module(GUEST)?;
    let left = ddctl::host(host)?.used_pages;
    ensure!(left == 0, "{left} pages are left");
    guest.shutdown()?;
    targets.extend([
        Target::at_least(
            "allocations: failures at the host under load",
            wanted as f64,
            at_host as f64,
            "",
        ),
        Target::at_least(
            "allocations: failures in the guest under load",
            if quick { 10.0 } else { 50.0 },
            in_guest as f64,
            "",
        ),
    ]);
    Ok(targets)
}

fn say(text: &str) {
    eprintln!("    allocations: {text}");
}
