// SPDX-License-Identifier: GPL-2.0-only

//! The instructions that a page costs on its way to the host and back.
//!
//! The machines' clocks count instructions, a nanosecond for each. Those of the processor's own work
//! at an exit are not among them, and caches do not matter.

use anyhow::{Context as _, Result, ensure};
use ddlab::{Accel, Command, Context, Guest, GuestConfig, LabConfig, Scenario, Target, Throttle};

use crate::{
    accounting, ddctl,
    stage::{self, GUEST, HOST, Stage, pages},
    sums::Sums,
};

/// A file leaves the guest's page cache and comes back, in runs of pages and page by page.
pub(crate) const PATH: Scenario = Scenario {
    name: "path",
    about: "a page costs few instructions in the host, in KVM and in the guest",
    quick: false,
    run,
};

const CAPACITY_MIB: u64 = 128;
const FILE: u64 = 32 << 20;
const READER: &str = "reader";
/// The file's readahead, in KiB, when pages are to go in runs. Without readahead, each folio is a page
/// and is requested by itself.
const READAHEAD_KIB: u64 = 128;
/// The events of a host and a guest that tell how long calls take.
const CALLS: &[(&str, &str, &str)] = &[
    ("dd_put", "pool", "pages,latency_ns"),
    ("dd_get", "pool", "pages,latency_ns"),
];

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let config = LabConfig {
        accel: Accel::Tcg,
        vcpus: 1,
        count_instructions: true,
        ..context.lab_config()
    };
    let targets = measure(&Stage {
        lab: context.fresh_lab(config)?,
    });
    // Other scenarios need a clock that runs at the usual speed.
    context.end_lab();
    targets
}

fn measure(stage: &Stage<'_>) -> Result<Vec<Target>> {
    stage.load_host(CAPACITY_MIB)?;
    let disk = stage.blank_disk("data", 512)?;
    let config = GuestConfig::new("one").disk(&disk, Throttle::NONE);
    let guest = stage.lab.start_guest(&config)?;
    guest.exec_ok(["mkfs.xfs", "-q", &disk.path_in_guest()])?;
    guest.mount(&disk.path_in_guest(), "/mnt", "xfs", "noatime")?;
    guest.cgroup(READER, &[])?;
    guest.shell(format!("head -c {FILE} /dev/urandom > /mnt/file; sync"))?;
    let device = guest.exec_ok(["readlink", "-f", &disk.path_in_guest()])?;
    let device = device.trim().trim_start_matches("/dev/").to_owned();
    let site = Site {
        guest: &guest,
        readahead: format!("/sys/block/{device}/queue/read_ahead_kb"),
    };

    let ways = [Way::Runs, Way::Single];
    let alone = ways.map(|way| site.round(way));
    guest.load_module(GUEST, &[])?;
    stage::attached(&guest)?;
    ddctl::run(&guest, &format!("container add {READER} --policy fifo"))?;
    // What is allocated at first is not measured.
    for way in ways {
        site.round(way)?;
    }
    let mut targets = Vec::new();
    for (way, alone) in ways.into_iter().zip(alone) {
        let alone = alone?;
        let sums = [
            Sums::start(stage.host(), HOST, CALLS)?,
            Sums::start(&guest, GUEST, CALLS)?,
        ];
        let with = site.round(way)?;
        for (event, what, most) in [
            ("dd_put", "put", way.most_of_put()),
            ("dd_get", "got", way.most_of_get()),
        ] {
            let [host, calls] = [&sums[0], &sums[1]].map(|sums| Calls::of(sums, event));
            let (host, calls) = (host?, calls?);
            eprintln!(
                "    {what} {}: {host:?} in the host, {calls:?} in the guest",
                way.word()
            );
            way.check(&calls)?;
            let target = |place: &str, value: f64, most: f64| {
                let name = format!(
                    "path: instructions for each page {what} {}, {place}",
                    way.word()
                );
                Target::at_most(name, most, value, "")
            };
            targets.push(target("in the host's module", host.each(), most[0]));
            targets.push(target("in the whole call", calls.each(), most[1]));
        }
        sums.map(Sums::end).into_iter().collect::<Result<()>>()?;
        let more = with.leave.saturating_sub(alone.leave) as f64 / pages(FILE) as f64;
        eprintln!(
            "    {}: {with:?} with the module, {alone:?} without",
            way.word()
        );
        targets.push(Target::at_most(
            format!(
                "path: instructions more for each page that leaves the guest {}",
                way.word()
            ),
            way.most_to_leave(),
            more,
            "",
        ));
    }
    accounting::check(stage.host())?;
    Ok(targets)
}

/// How pages go.
#[derive(Clone, Copy)]
enum Way {
    /// Many in a call, as memory is reclaimed and files are read ahead.
    Runs,
    /// One in each call.
    Single,
}

impl Way {
    fn word(self) -> &'static str {
        match self {
            Self::Runs => "in runs",
            Self::Single => "by itself",
        }
    }

    /// Checks that calls had as many pages as meant.
    fn check(self, calls: &Calls) -> Result<()> {
        let each = stage::ratio(calls.pages, calls.count);
        let is_right = match self {
            Self::Runs => each >= 16.0,
            Self::Single => each <= 1.1,
        };
        ensure!(
            is_right && calls.pages >= pages(FILE) * 9 / 10,
            "{} pages in {} calls",
            calls.pages,
            calls.count
        );
        Ok(())
    }

    fn most_of_put(self) -> [f64; 2] {
        match self {
            Self::Runs => [2000.0, 3000.0],
            Self::Single => [6000.0, 12000.0],
        }
    }

    fn most_of_get(self) -> [f64; 2] {
        match self {
            Self::Runs => [2000.0, 3000.0],
            Self::Single => [6000.0, 12000.0],
        }
    }

    fn most_to_leave(self) -> f64 {
        match self {
            Self::Runs => 4000.0,
            Self::Single => 15000.0,
        }
    }
}

/// Calls of a kind.
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

    fn each(&self) -> f64 {
        stage::ratio(self.instructions, self.pages)
    }
}

/// Instructions of the guest's machine while the file leaves its page cache and comes back.
#[derive(Debug)]
struct Round {
    leave: u64,
    #[expect(dead_code, reason = "it is printed")]
    back: u64,
}

struct Site<'a> {
    guest: &'a Guest,
    /// The file that sets the disk's readahead.
    readahead: String,
}

impl Site<'_> {
    /// Reads the file, makes its pages leave, and reads it again.
    fn round(&self, way: Way) -> Result<Round> {
        let (readahead, leave) = match way {
            Way::Runs => (
                READAHEAD_KIB,
                format!("echo 512M > /sys/fs/cgroup/{READER}/memory.reclaim"),
            ),
            // A folio at a time leaves this way.
            Way::Single => (0, "echo 1 > /proc/sys/vm/drop_caches".to_owned()),
        };
        self.guest.drop_caches(false)?;
        self.guest
            .write_file(&self.readahead, readahead.to_string())?;
        let read = "cat /mnt/file > /dev/null";
        self.timed(read)?;
        let leave = self.timed(&format!("{leave} 2> /dev/null || true"))?;
        Ok(Round {
            leave,
            back: self.timed(read)?,
        })
    }

    /// Runs a line in the reader's cgroup. Returns the number of instructions.
    fn timed(&self, line: &str) -> Result<u64> {
        let clock = "date +%s%N";
        let line = format!("begin=$({clock}); {line}; end=$({clock}); echo $((end - begin))");
        let output = self.guest.run_ok(&Command::shell(line).cgroup(READER))?;
        output
            .trim()
            .parse()
            .with_context(|| format!("no number: {output}"))
    }
}
