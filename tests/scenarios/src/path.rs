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
    let [put, got] = site.count(sequential)?;
    let mut targets = Vec::from(put.targets("put in runs", (16.0, 128.0), [2200.0, 2400.0])?);
    targets.extend(got.targets("got in runs", (16.0, 128.0), [1100.0, 1300.0])?);

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
    let [put, _] = site.count(drop)?;
    let [_, got] = site.count(&page_by_page)?;
    targets.extend(put.targets("put by itself", (1.0, 1.2), [9800.0, 17400.0])?);
    targets.extend(got.targets("got by itself", (1.0, 1.2), [6150.0, 15900.0])?);
    accounting::check(stage.host())?;
    Ok(targets)
}

/// Calls of a kind.
#[derive(Debug)]
struct Calls {
    count: u64,
    pages: u64,
    /// Instructions in the host's module, and of the whole call in the guest.
    instructions: [u64; 2],
}

impl Calls {
    fn of([host, guest]: &[Sums<'_>; 2], event: &str) -> Result<Self> {
        Ok(Self {
            count: guest.of(event, "hitcount")?,
            pages: guest.of(event, "pages")?,
            instructions: [
                host.of(event, "latency_ns")?,
                guest.of(event, "latency_ns")?,
            ],
        })
    }

    /// Checks that calls had as many pages as meant, and returns the targets.
    fn targets(
        &self,
        what: &str,
        (least, most): (f64, f64),
        bounds: [f64; 2],
    ) -> Result<[Target; 2]> {
        eprintln!("    {what}: {self:?}");
        let each = stage::ratio(self.pages, self.count);
        ensure!(
            (least..=most).contains(&each) && self.pages >= pages(FILE) * 9 / 10,
            "{what}: {each} pages in a call: {self:?}"
        );
        let target = |place: &str, at: usize| {
            Target::at_most(
                format!("path: instructions for each page {what}, {place}"),
                bounds[at],
                stage::ratio(self.instructions[at], self.pages),
                "",
            )
        };
        Ok([
            target("in the host's module", 0),
            target("in the whole call", 1),
        ])
    }
}

struct Site<'a> {
    host: &'a Machine,
    guest: &'a Guest,
}

impl Site<'_> {
    /// Runs a line, and counts the puts and the gets that it causes.
    fn count(&self, line: &str) -> Result<[Calls; 2]> {
        let sums = [
            Sums::start(self.host, HOST, CALLS)?,
            Sums::start(self.guest, GUEST, CALLS)?,
        ];
        self.run(line)?;
        let calls = ["dd_put", "dd_get"].map(|event| Calls::of(&sums, event));
        let [put, got] = calls;
        Ok([put?, got?])
    }

    /// Runs a line in the reader's cgroup.
    fn run(&self, line: &str) -> Result<()> {
        self.guest
            .run_ok(&Command::shell(line).cgroup(READER))
            .map(drop)
    }
}
