// SPDX-License-Identifier: GPL-2.0-only

//! A container in both tiers: pages that leave memory go to a device, and return to memory when
//! there is space (experiments of section 5.5 of the thesis, scaled).

use std::time::Instant;

use anyhow::{Result, ensure};
use ddlab::{Context, FileSpec, Scenario, Target, Throttle, wait};

use super::{counted, device::Device, endurance, read, set_store};
use crate::{
    accounting, ddctl,
    stage::{self, HOST, Stage, percent},
    triggers::Sums,
};

/// A container whose file is larger than the memory tier.
pub(crate) const HYBRID: Scenario = Scenario {
    name: "hybrid",
    about: "pages move between the tiers at the thresholds, and no page is lost or old",
    quick: true,
    run,
};

/// Sums over the events of the SSD tier.
const EVENTS: &[(&str, &str, &str)] = &[
    ("dd_demote", "vm", "pages"),
    ("dd_promote", "vm", "pages"),
    ("dd_ssd_read", "device", "pages"),
    ("dd_ssd_write", "device", "pages"),
    ("dd_ssd_state", "device", "hitcount"),
];
const DEVICE_MIB: u64 = 128;
const CAPACITY_MIB: u64 = 32;
const FILE: u64 = 96 << 20;
/// The file of another container, which does not fit into its memory.
const OTHER: u64 = 24 << 20;
/// The capacity after which pages are promoted, and the pages of its low threshold: a quarter less.
const LARGER_MIB: u64 = 64;
const LOW: u64 = 48 << 8;
/// Pages of the write budget, for a second: 1 MiB.
const BUDGET: u64 = 1 << 8;

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let file = FileSpec::new("file", FILE, 1);
    let other = FileSpec::new("other", OTHER, 2);
    let stage = Stage::set(context, CAPACITY_MIB)?;
    let host = stage.host();
    let events = Sums::start(host, HOST, EVENTS)?;
    let device = Device::add(host, DEVICE_MIB)?;
    // An emulated host may be slow for other reasons than its device.
    ddctl::run(host, "ssd set --deadline 5000")?;
    let disk = stage.disk("data", vec![file.clone(), other.clone()])?;
    let guest = stage.guest_with("one", &disk, Throttle::NONE)?;
    stage::container(&guest, &file.path, "8M", 100)?;
    set_store(&guest, &file.path, "hybrid")?;
    // The default policy would keep the present pages.
    ddctl::run(&guest, "container set-policy file fifo")?;

    // Memory to SSD (table 5.1): the pages that were put are in memory or on the device.
    read(&guest, &file)?;
    accounting::check(host)?;
    let down = counted(host, "file")?;
    let in_memory = down.used - down.ssd_used;
    let capacity = CAPACITY_MIB << 8;
    ensure!(down.demoted > 0 && down.ssd_puts == 0, "{down:?}");
    ensure!(in_memory <= capacity, "{in_memory} of {capacity} pages");
    let sum = down.used + down.evictions + down.hits + down.flushes;
    ensure!(
        down.puts == sum && down.demoted == down.ssd_used,
        "the pages do not add up ({sum}): {down:?}"
    );
    let full = percent(in_memory, capacity);

    // All pages that are read back are right, from both tiers.
    read(&guest, &file)?;
    accounting::settle(host, &guest)?;
    let back = counted(host, "file")?;
    let (asked, hits) = (back.gets - down.gets, back.hits - down.hits);
    ensure!(back.ssd_hits > down.ssd_hits, "{back:?}");

    // SSD to memory (equation 5.2): memory fills up to its low threshold, and no further. While the
    // file was read, a kernel that checks itself may have evicted so many pages that did not fit on
    // its slow device in time that all of the others fit into memory.
    let low = if host.checks_itself() {
        LOW.min(back.used)
    } else {
        LOW
    };
    ddctl::run(host, &format!("set-capacity {LARGER_MIB}M"))?;
    let used = || ddctl::host(host).map(|host| host.used_pages);
    let what = "memory is filled up to its low threshold";
    wait::until(what, || Ok((used()? >= low).then_some(()))).or_else(|error| {
        let (pool, device) = (counted(host, "file")?, device.stats(host)?);
        Err(error.context(format!("{pool:?} {device:?}")))
    })?;
    accounting::check(host)?;
    let used = used()?;
    let up = counted(host, "file")?;
    let promoted = up.promoted - back.promoted;
    ensure!(
        used == low,
        "memory has {used} pages instead of {low}: {up:?}"
    );
    ensure!(
        up.used == back.used && up.evictions == back.evictions,
        "{back:?} {up:?}"
    );
    for (event, counted) in [("dd_demote", up.demoted), ("dd_promote", up.promoted)] {
        let pages = events.of(event, "pages")?;
        ensure!(
            pages == counted && pages > 0,
            "{event} has {pages} pages of {counted}"
        );
    }
    // Events precede counters, and are of requests, which may have failed.
    let stats = device.stats(host)?;
    for (event, counted) in [
        ("dd_ssd_read", stats.read_pages),
        ("dd_ssd_write", stats.written_pages),
    ] {
        let pages = events.of(event, "pages")?;
        ensure!(
            pages >= counted && counted > 0,
            "{event} has {pages} pages of {counted}"
        );
    }
    read(&guest, &file)?;

    // If a container is moved to the SSD tier, its pages in memory move there as well.
    let before = accounting::check(host).and_then(|_| counted(host, "file"))?;
    set_store(&guest, &file.path, "ssd")?;
    let what = "the pages in memory go to the device";
    wait::until(what, || {
        let stats = counted(host, "file")?;
        Ok((stats.used == stats.ssd_used).then_some(()))
    })?;
    accounting::check(host)?;
    let moved = counted(host, "file")?;
    let kept = percent(
        moved.demoted - before.demoted,
        before.used - before.ssd_used,
    );
    // On a kernel that checks itself, pages are demoted faster than the device writes them, and
    // pages that no device takes are evicted.
    let moved_least = if host.checks_itself() { 50.0 } else { 99.0 };
    read(&guest, &file)?;

    let again = endurance::admits(host, &guest, &other)?;

    // No more is written than the budget allows. Pages that the device does not take are evicted.
    set_store(&guest, &file.path, "hybrid")?;
    ddctl::run(host, "set-capacity 16M")?;
    let set_budget = |pages: u64| {
        let (path, kib) = (device.path(), pages * 4);
        ddctl::run(host, &format!("ssd set {path} --write-budget {kib}K"))
    };
    set_budget(BUDGET)?;
    let (before, start) = (device.stats(host)?, Instant::now());
    read(&guest, &file)?;
    read(&guest, &file)?;
    accounting::check(host)?;
    let (after, time) = (device.stats(host)?, start.elapsed());
    // Pages that were put before can be written after the budget was set.
    let written = after.written_pages - before.written_pages;
    let allowed = (time.as_secs_f64() + 1.0) * BUDGET as f64 + before.in_memory() as f64;
    ensure!(after.over_budget > 0, "{after:?}");
    ensure!(
        written as f64 <= allowed,
        "{written} pages were written in {time:?}, more than the allowed {allowed}"
    );
    after.check_reads()?;
    // Readers on a kernel that checks itself are too slow to use up the budget.
    let budget = BUDGET / if host.checks_itself() { 8 } else { 1 };
    set_budget(budget)?;
    let divided = endurance::divides(host, &guest, [&file, &other], budget)?;
    ddctl::run(host, &format!("ssd remove {}", device.path()))?;
    read(&guest, &file)?;
    accounting::check(host)?;
    device.forget(host)?;
    // It was added and is gone.
    let states = events.of("dd_ssd_state", "hitcount")?;
    ensure!(states >= 2, "{states} states of the device");
    Ok(vec![
        Target::at_least("hybrid: use of memory by a large file", 90.0, full, "%"),
        Target::at_least(
            "hybrid: requested pages that were returned",
            97.0,
            percent(hits, asked),
            "%",
        ),
        // Half of the least of twelve runs, three of which were on kernels that check themselves.
        Target::at_least("hybrid: pages promoted", 2240.0, promoted as f64, ""),
        Target::at_least(
            "hybrid: pages that moved with their container to the SSD tier",
            moved_least,
            kept,
            "%",
        ),
        again,
        divided,
    ])
}
