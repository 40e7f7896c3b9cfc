// SPDX-License-Identifier: GPL-2.0-only

//! The instructions that a page costs on its way to the host and back.
//!
//! The machines' clocks count instructions, a nanosecond for each. The processor's own work at an
//! exit is not among them, and caches do not matter. Pages are copied by 512 to 1400 instructions,
//! because the emulated processor does not claim to copy bytes quickly: an instruction that does so
//! would count once for each byte. In the whole call, about 2500 instructions of KVM decode the
//! hypercall, whose length processors report and the emulator does not.

use anyhow::{Result, ensure};
use ddlab::{Command, Context, Guest, GuestConfig, Machine, Scenario, Target, Throttle};

use crate::{
    accounting, ddctl,
    stage::{self, GUEST, HOST, Stage, pages},
    triggers::Sums,
};

/// A file leaves the guest's page cache and comes back, in runs of pages and page by page.
pub(crate) const PATH: Scenario = Scenario {
    name: "path",
    about: "a page that is put or read back costs few instructions in the host and in KVM",
    quick: false,
    run,
};

const CAPACITY_MIB: u64 = 128;
const FILE: u64 = 32 << 20;
/// Limit of the reader, which can hold half of the file.
const LIMIT: &str = "16M";
const READER: &str = "reader";
/// Distance of pages that are read one after the other, an odd number.
const STRIDE: u64 = 1367;
/// Number of passes after which the memory of both modules is allocated.
const WARM: u32 = 3;
/// Pages of a call in runs, and of single pages, on average.
const RUNS: (f64, f64) = (16.0, 128.0);
const SINGLY: (f64, f64) = (1.0, 1.2);
/// The events of a host and a guest that report how long calls take.
const CALLS: &[(&str, &str, &str)] = &[
    ("dd_put", "pool", "pages,latency_ns"),
    ("dd_get", "pool", "pages,latency_ns"),
];

fn run(context: &mut Context) -> Result<Vec<Target>> {
    stage::counting_instructions(context, measure)
}

fn measure(stage: &Stage<'_>) -> Result<Vec<Target>> {
    stage.load_host(CAPACITY_MIB)?;
    let disk = stage.blank_disk("data", 512)?;
    let config = GuestConfig::new("one").disk(&disk, Throttle::NONE);
    let guest = stage.lab.start_guest(&config)?;
    guest.exec_ok(["mkfs.xfs", "-q", &disk.path_in_guest()])?;
    guest.mount(&disk.path_in_guest(), "/mnt", "xfs", "noatime")?;
    guest.shell(format!("head -c {FILE} /dev/urandom > /mnt/file; sync"))?;
    // The file's pages belong to the cgroup that wrote it.
    guest.drop_caches(false)?;
    guest.cgroup(READER, &[("memory.max", LIMIT)])?;
    guest.load_module(GUEST, &[])?;
    stage::attached(&guest)?;
    ddctl::run(&guest, &format!("container add {READER} --policy fifo"))?;
    let site = Site {
        host: stage.host(),
        guest: &guest,
    };

    // A reader with less memory than the file: each window of its readahead comes from the host,
    // and as many pages are reclaimed.
    let sequential = "cat /mnt/file > /dev/null";
    for _ in 0..WARM {
        site.run(sequential)?;
    }
    let (put, got) = (("dd_put", "put in runs"), ("dd_get", "got in runs"));
    let mut targets = Vec::new();
    targets.extend(site.measure([sequential; 2], put, RUNS, [2200.0, 2400.0])?);
    targets.extend(site.measure([sequential; 2], got, RUNS, [1100.0, 1300.0])?);

    // Pages that are read in an order without neighbours are folios of their own, and are requested
    // one by one. `drop_caches` removes one folio after the other.
    guest.write_file(&format!("/sys/fs/cgroup/{READER}/memory.max"), "max")?;
    let block = stage::block_directory(&guest, &disk)?;
    guest.write_file(&format!("{block}/queue/read_ahead_kb"), "0")?;
    let last = pages(FILE) - 1;
    let page_by_page = format!(
        "perl -e 'open F, \"<\", \"/mnt/file\"; for (0..{last}) {{ \
         sysseek F, ($_ * {STRIDE} & {last}) << 12, 0; sysread F, $page, 4096 }}'"
    );
    let drop = "echo 1 > /proc/sys/vm/drop_caches";
    for _ in 0..WARM {
        site.run(drop)?;
        site.run(&page_by_page)?;
    }
    let (put, got) = (("dd_put", "put by itself"), ("dd_get", "got by itself"));
    let (drop, read) = (drop, page_by_page.as_str());
    targets.extend(site.measure([read, drop], put, SINGLY, [9800.0, 17400.0])?);
    targets.extend(site.measure([drop, read], got, SINGLY, [6150.0, 15900.0])?);
    accounting::check(stage.host())?;
    Ok(targets)
}

/// Calls of a kind, with the instructions of their part that one machine measures.
#[derive(Debug)]
struct Calls {
    count: u64,
    pages: u64,
    instructions: u64,
}

impl Calls {
    fn of(sums: &Sums<'_>, event: &str) -> Result<Self> {
        Ok(Self {
            count: sums.of(event, "hitcount")?,
            pages: sums.of(event, "pages")?,
            instructions: sums.of(event, "latency_ns")?,
        })
    }

    /// Checks that calls had as many pages as meant, and returns the target.
    fn target(&self, what: &str, place: &str, range: (f64, f64), bound: f64) -> Result<Target> {
        eprintln!("    {what}, {place}: {self:?}");
        let each = stage::ratio(self.pages, self.count);
        let (least, most) = range;
        ensure!(
            (least..=most).contains(&each) && self.pages >= pages(FILE) * 9 / 10,
            "{what}: {each} pages in a call: {self:?}"
        );
        Ok(Target::at_most(
            format!("path: instructions for each page {what}, {place}"),
            bound,
            stage::ratio(self.instructions, self.pages),
            "",
        ))
    }
}

struct Site<'a> {
    host: &'a Machine,
    guest: &'a Guest,
}

impl Site<'_> {
    /// Runs a line once for the host's module and once for the whole calls, because the event of
    /// the host takes time in the whole call, and another line before each. Returns the targets of
    /// the puts or gets, which have a number of pages in `range`.
    fn measure(
        &self,
        [before, line]: [&str; 2],
        (event, what): (&str, &str),
        range: (f64, f64),
        [host, whole]: [f64; 2],
    ) -> Result<[Target; 2]> {
        self.run(before)?;
        let sums = Sums::start(self.host, HOST, CALLS)?;
        self.run(line)?;
        let in_host = Calls::of(&sums, event)?;
        drop(sums);
        self.run(before)?;
        let sums = Sums::start(self.guest, GUEST, CALLS)?;
        self.run(line)?;
        let in_guest = Calls::of(&sums, event)?;
        Ok([
            in_host.target(what, "in the host's module", range, host)?,
            in_guest.target(what, "in the whole call", range, whole)?,
        ])
    }

    /// Runs a line in the reader's cgroup.
    fn run(&self, line: &str) -> Result<()> {
        self.guest
            .run_ok(&Command::shell(line).cgroup(READER))
            .map(drop)
    }
}
