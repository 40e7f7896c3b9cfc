// SPDX-License-Identifier: GPL-2.0-only

//! Costs of work that does not benefit from the cache, counted by the kernel's probes.

use std::{collections::BTreeSet, thread, time::Duration};

use anyhow::{Context as _, Result, ensure};
use ddlab::{Command, Disk, Guest, Target};

use super::{DATA, LIMIT, LONG, READER};
use crate::{
    ddctl,
    filesystem::XFS,
    stage::{self, GUEST, ratio},
};

/// Requests of the usual readahead, in KiB.
const READAHEAD_KIB: u64 = 128;
/// Files of a filesystem that is not cached.
const FILES: u64 = 100;
/// Number of small writes to one page.
const WRITES: u64 = 2000;
/// Bytes of a file that a chunk of the map stands for.
const CHUNK: u64 = 512 << 10;
/// Number of addresses at which a filesystem's module is loaded: more than the guest module can
/// remember tables of operations.
const ADDRESSES: usize = 10;
/// Minimum time for which files are read with a full map.
const SECONDS: f64 = 10.0;

/// Reads a file for the first time, sequentially and with a hint to the kernel. Returns the number
/// of requests to the disk.
pub(super) fn requests(guest: &Guest, disk: &Disk, file: &str) -> Result<u64> {
    let block = stage::block_directory(guest, disk)?;
    let usual = guest.read_text(&format!("{block}/queue/read_ahead_kb"))?;
    let set = |kib: &str| guest.write_file(&format!("{block}/queue/read_ahead_kb"), kib);
    let reads = || -> Result<u64> {
        let text = guest.read_text(&format!("{block}/stat"))?;
        let first = text.split_whitespace().next();
        Ok(first.context("the disk has no statistics")?.parse()?)
    };
    set(&READAHEAD_KIB.to_string())?;
    let before = reads()?;
    // md5sum calls posix_fadvise(), and reads less at a time than a window has: the kernel's
    // requests are as long as a task's reads, if these are longer.
    guest.run_ok(&Command::shell(format!("md5sum {DATA}/{file}")).cgroup(READER))?;
    let requests = reads()? - before;
    set(usual.trim())?;
    Ok(requests)
}

/// Checks that a reader that asked for long requests gets them with the module, too.
pub(super) fn sequential(alone: u64, with: u64) -> Target {
    Target::at_most(
        "bounds: requests of a sequential cold read, relative to those without the module",
        // Between 0.97 and 0.99 in four runs.
        1.1,
        ratio(with, alone),
        "×",
    )
}

/// A probe on a kernel function.
pub(super) struct Probe<'a> {
    guest: &'a Guest,
    name: &'static str,
}

const TRACING: &str = "/sys/kernel/tracing";

impl<'a> Probe<'a> {
    pub(super) fn on(guest: &'a Guest, name: &'static str, function: &str) -> Result<Self> {
        guest.shell(format!(
            "cd {TRACING}; echo 'p:{name} {function}' >> kprobe_events; echo > trace; \
             echo 1 > events/kprobes/{name}/enable"
        ))?;
        Ok(Self { guest, name })
    }

    /// Removes the probe and returns how many times the function was called.
    pub(super) fn hits(self) -> Result<u64> {
        let name = self.name;
        let hits = self.guest.shell(format!(
            "cd {TRACING}; echo 0 > events/kprobes/{name}/enable; \
             awk '$1 == \"{name}\" {{ print $2 }}' kprobe_profile; echo '-:{name}' >> kprobe_events"
        ))?;
        hits.trim()
            .parse()
            .with_context(|| format!("{name}: {hits}"))
    }
}

/// Returns how many names of functions were looked up while files of a filesystem that is not
/// cached were read.
pub(super) fn journalled(guest: &Guest, disk: &Disk) -> Result<Target> {
    let device = disk.path_in_guest();
    guest.exec_ok(["mke2fs", "-q", "-t", "ext4", &device])?;
    guest.mount(&device, "/journal", "ext4", "noatime,data=journal")?;
    guest.shell(format!(
        "for n in $(seq {FILES}); do echo $n > /journal/$n; done; sync; umount /journal"
    ))?;
    guest.mount(&device, "/journal", "ext4", "noatime,data=journal")?;
    let probe = Probe::on(guest, "dd_named", "sprint_symbol_no_offset")?;
    guest.shell("cat /journal/[0-9]* > /dev/null")?;
    let names = probe.hits()?;
    guest.exec_ok(["umount", "/journal"])?;
    Ok(Target::at_most(
        format!("bounds: names looked up while {FILES} uncached files were read"),
        // Three in each of four runs.
        10.0,
        names as f64,
        "",
    ))
}

/// Returns how many times the map was searched while a page was written repeatedly.
pub(super) fn written(guest: &Guest, disk: &Disk) -> Result<Target> {
    let device = disk.path_in_guest();
    XFS.format(guest, &device)?;
    guest.mount(&device, &XFS.path(), "xfs", "noatime")?;
    // This makes the filesystem one that is cached.
    guest.shell("head -c 8M /dev/zero > /xfs/file; sync")?;
    guest.drop_caches(false)?;
    guest.shell("head -c 4096 /xfs/file > /dev/null")?;
    let before = ddctl::counters(guest)?;
    guest.shell(format!(
        "perl -e 'open F, \"+<\", \"/xfs/file\"; for (1..{WRITES}) {{ sysseek F, 0, 0; \
         syswrite F, \"some bytes\" }}'"
    ))?;
    let counted = ddctl::counters(guest)? - before;
    Ok(Target::at_most(
        format!("bounds: searches of the map for {WRITES} writes to a page"),
        // Two in each of four runs, and some more if the page is written back in between.
        WRITES as f64 / 50.0,
        counted.changes as f64,
        "",
    ))
}

/// Files of a filesystem are cached after its module was at more addresses than the guest module
/// can remember. Other modules take a part of the memory that it had before. The checked kernels
/// have the filesystems built in, so that there is nothing to load.
pub(super) fn reloaded(guest: &Guest, disk: &Disk) -> Result<()> {
    let largest_first = "find /lib/modules/*/kernel/fs/nls -name '*.ko*' -printf '%s %f\n' | \
                         sort -rn | sed 's/.* //; s/\\..*//'";
    let modules = guest.shell(largest_first)?;
    let path = XFS.path();
    let mut addresses = BTreeSet::new();
    for module in modules.split_whitespace() {
        guest.exec_ok(["modprobe", "-r", "xfs"])?;
        guest.exec_ok(["modprobe", "-a", module, "xfs"])?;
        addresses.insert(guest.read_text("/sys/module/xfs/sections/.rodata")?);
        guest.mount(&disk.path_in_guest(), &path, "xfs", "noatime")?;
        let read = Command::shell(format!("cat {path}/file > /dev/null")).cgroup(READER);
        guest.run_ok(&read)?;
        stage::reclaim(guest, READER, LIMIT)?;
        let before = ddctl::counters(guest)?;
        guest.run_ok(&read)?;
        let counted = ddctl::counters(guest)? - before;
        ensure!(
            counted.get_hits > 0,
            "no page of xfs came from the host after its module was loaded again: {addresses:?}"
        );
        guest.exec_ok(["umount", &path])?;
        if addresses.len() == ADDRESSES {
            return Ok(());
        }
    }
    ensure!(modules.is_empty(), "xfs was only at {addresses:?}");
    Ok(())
}

/// Reads a page of each chunk of the long file, and reclaims them immediately.
fn leave_long(guest: &Guest) -> Result<()> {
    let last = LONG / CHUNK - 1;
    let read = format!(
        "perl -e 'open F, \"<\", \"{DATA}/long\"; \
         for (0..{last}) {{ sysseek F, $_ * {CHUNK}, 0; sysread F, $page, 4096 }}'"
    );
    let reclaim = format!("echo 24M > /sys/fs/cgroup/{READER}/memory.reclaim");
    let both = format!("{read}; {reclaim} 2> /dev/null || true");
    guest.run_ok(&Command::shell(both).cgroup(READER)).map(drop)
}

/// Returns the number of the worker's calls in a minute in which each put finds the map full.
pub(super) fn paced(guest: &Guest) -> Result<Target> {
    // The map is too small for the chunks of the long file.
    guest.load_module(GUEST, &["map_mib=1"])?;
    stage::attached(guest)?;
    ddctl::run(guest, &format!("container add {READER} --policy fifo"))?;
    // Calls that are made once are over by then.
    thread::sleep(Duration::from_secs(1));
    let uptime = || -> Result<f64> {
        let text = guest.read_text("/proc/uptime")?;
        let first = text.split_whitespace().next();
        Ok(first.context("there is no uptime")?.parse()?)
    };
    let (before, start) = (ddctl::counters(guest)?, uptime()?);
    let mut rounds = 0;
    while uptime()? - start < SECONDS {
        leave_long(guest)?;
        rounds += 1;
    }
    let counted = ddctl::counters(guest)? - before;
    let seconds = uptime()? - start;
    ensure!(
        counted.put_skipped_map > 10 * rounds,
        "the map was not full in {rounds} rounds: {counted:?}"
    );
    let others = counted.calls
        - counted.put_calls
        - counted.get_calls
        - counted.flush_calls
        - counted.retries;
    Ok(Target::at_most(
        "bounds: signs of life in a minute under load",
        30.0,
        others as f64 * 60.0 / seconds,
        "",
    ))
}
