// SPDX-License-Identifier: GPL-2.0-only

//! Huge pages of a host whose tier is full: how many the kernel obtains, and how many pages the
//! tier loses for them.

use anyhow::{Context as _, Result, ensure};
use ddlab::{Context, Machine, Scenario, Target};

use crate::{
    accounting, ddctl,
    share::Share,
    stage::{Stage, percent},
};

/// Runs mini VMs whose pages lie between each other's in the host's memory.
pub(crate) const HUGE: Scenario = Scenario {
    name: "huge",
    about: "the memory beside a full tier, and that of an emptied one, is obtained as huge pages",
    quick: false,
    run,
};

const VMS: u32 = 16;
const CAPACITY_MIB: u64 = 1024;
const CAPACITY: u64 = CAPACITY_MIB << 8;
/// Number of pages of each VM, which together fill the tier.
const PAGES: u64 = CAPACITY / VMS as u64;
/// Pages of a huge page.
const HUGE_PAGE: u64 = 512;
const POOL: &str = "/proc/sys/vm/nr_hugepages";

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let stage = Stage::set(context, CAPACITY_MIB)?;
    let host = stage.host();
    let without = obtained(host)?;

    // All VMs put in turns, a few pages at a time, in place of the pages that they put at first.
    let mut share = Share::start(host, (VMS, PAGES, 0), None)?;
    share.go_on("streamed")?;
    share.go_on("busy")?;
    let used = ddctl::host(host)?.used_pages;
    ensure!(used > CAPACITY / 100 * 99, "the tier has {used} pages");
    let full = obtained(host)?;

    for vm in ddctl::vms(host)?.iter().step_by(2) {
        ddctl::run(host, &format!("flush {}", vm.id))?;
    }
    let half = obtained(host)?;
    accounting::check(host)?;
    share.end()?;
    ddctl::run(host, "flush --all")?;
    let empty = obtained(host)?;
    eprintln!(
        "    without pages, full, half empty, empty: {without:?} {full:?} {half:?} {empty:?}"
    );
    let target = |name: &str, least, part| {
        let name = format!("huge: part of the free memory that is obtained as huge pages, {name}");
        Target::at_least(name, least, part, "%")
    };
    Ok(vec![
        target("beside a full tier", 95.0, full.part()),
        target("beside a tier that has lost half", 75.0, half.part()),
        target(
            "after a tier was emptied, relative to before",
            97.0,
            percent(empty.pages, without.pages),
        ),
    ])
}

/// The huge pages that a host obtains.
#[derive(Clone, Copy, Debug)]
struct Obtained {
    pages: u64,
    /// Free pages before.
    free: u64,
    /// Pages that the tier lost until the huge pages were counted.
    lost: u64,
}

impl Obtained {
    /// Returns the percentage of the free pages.
    fn part(self) -> f64 {
        percent(self.pages * HUGE_PAGE, self.free + self.lost)
    }
}

/// Asks the kernel for as many huge pages as there is free memory, and gives them back.
fn obtained(host: &Machine) -> Result<Obtained> {
    let free = free_pages(host)?;
    let before = ddctl::host(host)?.used_pages;
    host.write_file(POOL, (free / HUGE_PAGE).to_string())?;
    let pages = host.read_text(POOL)?.trim().parse()?;
    host.write_file(POOL, "0")?;
    let lost = before - ddctl::host(host)?.used_pages;
    Ok(Obtained { pages, free, lost })
}

fn free_pages(host: &Machine) -> Result<u64> {
    let text = host.read_text("/proc/meminfo")?;
    let line = text.lines().find(|line| line.starts_with("MemFree:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(kib.context("MemFree")?.parse::<u64>()? / 4)
}
