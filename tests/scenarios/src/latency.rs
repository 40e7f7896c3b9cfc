// SPDX-License-Identifier: GPL-2.0-only

//! What the cache does inside a guest keeps no other task waiting for long, however large folios
//! and files are.

mod swap;

use anyhow::{Context as _, Result, ensure};
use ddlab::{Accel, Command, Context, Guest, GuestConfig, LabConfig, Scenario, Target, Throttle};

use crate::{
    books,
    cgroup::Stat,
    counters::GuestCounters,
    ddctl,
    stage::{self, GUEST, Stage, pages, percent},
};

/// Large folios leave and come back, and a file with pages all over is cut, on one processor that
/// another task wants all the time. The machines' clocks count instructions.
pub(crate) const LATENCY: Scenario = Scenario {
    name: "latency",
    about: "an urgent task waits for no more than a part of a large folio",
    quick: false,
    run,
};

const CAPACITY_MIB: u64 = 256;
/// The file in large folios.
const LARGE: u64 = 32 << 20;
/// Pages of the other file, and the distance between them: each is in a chunk of the map's own.
const SPARSE: u64 = 8192;
const DISTANCE_KIB: u64 = 512;
/// Bound of the guest's map: all these chunks are in the shard of one file.
const MAP: &str = "map_mib=256";
/// How often all is done.
const ROUNDS: u32 = 4;
/// The cgroup whose pages leave.
const READER: &str = "reader";
/// How long an urgent task may wait: one call with 128 pages, which is the longest in the same run
/// and took 1.7 million instructions, and what the emulated machine takes for an interrupt.
const MOST_MS: f64 = 2.0;

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
    // Others want a clock that goes with theirs.
    context.end_lab();
    targets
}

fn measure(stage: &Stage<'_>) -> Result<Vec<Target>> {
    stage.load_host(CAPACITY_MIB)?;
    stage.host().cgroup(swap::VMM, &[])?;
    let disk = stage.blank_disk("data", 8192)?;
    let config = GuestConfig::new("one")
        .disk(&disk, Throttle::NONE)
        .cgroup(swap::VMM);
    let guest = stage.lab.start_guest(&config)?;
    guest.exec_ok(["mkfs.xfs", "-q", &disk.path_in_guest()])?;
    guest.mount(&disk.path_in_guest(), "/mnt", "xfs", "noatime")?;
    guest.cgroup(READER, &[])?;
    guest.shell(format!("yes double | head -c {LARGE} > /mnt/large; sync"))?;
    let site = Site { guest: &guest };

    let [alone, module] = [false, true].map(|with| -> Result<_> {
        if with {
            guest.load_module(GUEST, &[MAP])?;
            stage::attached(&guest)?;
            ddctl::run(&guest, &format!("container add {READER} --policy fifo"))?;
        }
        site.grow()?;
        let (mut leave, mut back, mut cut) = (Course::new(), Course::new(), Course::new());
        for _ in 0..ROUNDS {
            leave.add(site.late(&site.reclaim())?);
            back.add(site.late("ddhelper huge /mnt/large")?);
            site.has_large_folios()?;
        }
        for _ in 0..ROUNDS {
            let held = site.scatter(with)?;
            cut.add(site.late("truncate -s 0 /mnt/sparse")?);
            ensure!(
                !with || (held > SPARSE / 2 && cut.counted.invalidated > 0),
                "{held} pages of the sparse file were at the host: {:?}",
                cut.counted
            );
        }
        eprintln!("    with the module: {with}; {leave:?}, {back:?}, {cut:?}");
        Ok([leave, back, cut])
    });
    let ([leave_alone, back_alone, cut_alone], [leave, back, cut]) = (alone?, module?);
    let (put, got) = (leave.counted, back.counted);
    let all = pages(LARGE) * u64::from(ROUNDS);
    let [resident, swapped] = swap::exits(stage, &site)?;
    books::balance(stage.host())?;
    Ok(vec![
        resident,
        swapped,
        Target::at_least(
            "latency: pages of large folios that went to the host",
            90.0,
            percent(put.put_stored, all),
            "%",
        ),
        Target::at_least(
            "latency: pages of large folios that came back",
            90.0,
            percent(got.get_hits, all),
            "%",
        ),
        Target::at_most(
            "latency: pages in a put, on average",
            128.0,
            stage::ratio(put.put_stored, put.put_calls),
            "",
        ),
        Target::at_most(
            "latency: pages in a get, on average",
            128.0,
            stage::ratio(got.get_hits, got.get_calls),
            "",
        ),
        waited("large folios leave", &leave_alone, &leave),
        waited("they come back", &back_alone, &back),
        waited("a file with pages in many chunks is cut", &cut_alone, &cut),
    ])
}

/// How much longer than with the kernel alone an urgent task waited.
fn waited(what: &str, alone: &Course, with: &Course) -> Target {
    Target::at_most(
        format!("latency: million instructions more that an urgent task waits while {what}"),
        MOST_MS,
        (with.ms - alone.ms).max(0.0),
        "",
    )
}

/// The same work, several times.
#[derive(Debug)]
struct Course {
    /// How long an urgent task waited each time at the worst, in milliseconds; the least of all:
    /// the host has other things to do now and then, and what is looked for is there each time.
    ms: f64,
    /// What was counted, all times together.
    counted: GuestCounters,
}

impl Course {
    fn new() -> Self {
        Self {
            ms: f64::INFINITY,
            counted: GuestCounters::default(),
        }
    }

    fn add(&mut self, (ms, counted): (f64, GuestCounters)) {
        self.ms = self.ms.min(ms);
        self.counted = self.counted + counted;
    }
}

struct Site<'a> {
    guest: &'a Guest,
}

impl Site<'_> {
    /// Has the reader hold the large file, in large folios.
    fn grow(&self) -> Result<()> {
        self.guest.drop_caches(false)?;
        self.run("ddhelper huge /mnt/large")?;
        self.has_large_folios()
    }

    fn has_large_folios(&self) -> Result<()> {
        let huge = Stat::of(self.guest, READER)?.get("file_thp")?;
        ensure!(huge >= LARGE / 2, "only {huge} bytes are in large folios");
        Ok(())
    }

    fn reclaim(&self) -> String {
        format!("sh -c 'echo 256M > /sys/fs/cgroup/{READER}/memory.reclaim'")
    }

    /// Makes a sparse file with a page in each chunk, and has the host hold them, if there is a
    /// module. Returns the number of pages it took.
    fn scatter(&self, with: bool) -> Result<u64> {
        let each = |mode: &str, act: &str| {
            let last = SPARSE - 1;
            let shift = DISTANCE_KIB.ilog2() + 10;
            let loop_ = format!("for (0..{last}) {{ sysseek F, $_ << {shift}, 0; {act} }}");
            format!("perl -e 'open F, \"{mode}\", \"/mnt/sparse\"; {loop_}'")
        };
        self.run(&each("+>", "syswrite F, \"x\" x 4096"))?;
        self.guest.exec_ok(["sync"])?;
        self.run(&format!("{} || true", self.reclaim()))?;
        let mut held = 0;
        // The map gets more memory while some are refused: those that are, are read again.
        for _ in 0..if with { 4 } else { 0 } {
            self.run(&each("<", "sysread F, $page, 4096"))?;
            let before = ddctl::counters(self.guest)?;
            self.run(&format!("{} || true", self.reclaim()))?;
            let counted = ddctl::counters(self.guest)? - before;
            held = counted.put_stored.min(SPARSE);
            if held > SPARSE * 9 / 10 {
                break;
            }
        }
        Ok(held)
    }

    fn run(&self, line: &str) -> Result<String> {
        self.guest.run_ok(&Command::shell(line).cgroup(READER))
    }

    /// Runs a command. Returns how many milliseconds an urgent task waited at the worst, and what
    /// was counted.
    fn late(&self, line: &str) -> Result<(f64, GuestCounters)> {
        let counted = || -> Result<GuestCounters> {
            match self.guest.has_module(GUEST)? {
                true => ddctl::counters(self.guest),
                false => Ok(GuestCounters::default()),
            }
        };
        let before = counted()?;
        let worst = self.run(&format!("ddhelper late {line} 2> /dev/null"))?;
        let worst: f64 = worst.trim().parse().context("it is no number")?;
        Ok((worst / 1e6, counted()? - before))
    }
}
