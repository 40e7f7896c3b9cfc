// SPDX-License-Identifier: GPL-2.0-only

//! The work of the cache inside a guest delays other tasks only briefly, even for large folios and
//! large files.

mod endings;
mod sections;
mod swap;

pub(crate) use self::sections::SECTIONS;

use anyhow::{Context as _, Result, ensure};
use ddlab::{Command, Context, Guest, GuestConfig, Scenario, Target, Throttle};

use crate::{
    accounting,
    cgroup::Stat,
    ddctl::{self, GuestCounters},
    stage::{self, GUEST, Stage, pages, percent},
};

/// Large folios are reclaimed and read back, and a file with scattered pages is truncated, on one
/// processor that another task needs all the time. The machines' clocks count instructions.
pub(crate) const LATENCY: Scenario = Scenario {
    name: "latency",
    about: "an urgent task is not delayed for longer than the work on a part of a large folio",
    quick: false,
    run,
};

const CAPACITY_MIB: u64 = 256;
/// The file in large folios.
const LARGE: u64 = 32 << 20;
/// Number of pages of the other file, and the distance between them: each is in a separate chunk of
/// the map.
const SPARSE: u64 = 8192;
const DISTANCE_KIB: u64 = 512;
/// Bound of the guest's map. All these chunks are in one shard, that of the file.
const MAP: &str = "map_mib=256";
/// Number of repetitions of the work.
const ROUNDS: u32 = 4;
/// The cgroup whose pages are reclaimed.
const READER: &str = "reader";
/// Maximum wait of an urgent task: one call with 128 pages, which is the longest in the same run
/// and took 1.7 million instructions, plus the time of an emulated interrupt.
const MAX_MS: f64 = 2.0;

fn run(context: &mut Context) -> Result<Vec<Target>> {
    stage::counting_instructions(context, measure)
}

/// Starts a guest with a file of large folios, and loads the host's module.
fn prepare<'a>(stage: &Stage<'a>) -> Result<Guest> {
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
    Ok(guest)
}

/// Loads the guest's module, with a container for the reader.
fn enroll(guest: &Guest) -> Result<()> {
    guest.load_module(GUEST, &[MAP])?;
    stage::attached(guest)?;
    ddctl::run(guest, &format!("container add {READER} --policy fifo")).map(drop)
}

fn measure(stage: &Stage<'_>) -> Result<Vec<Target>> {
    let guest = prepare(stage)?;
    let site = Site { guest: &guest };

    let [alone, module] = [false, true].map(|with| -> Result<_> {
        if with {
            enroll(&guest)?;
        }
        site.grow()?;
        let (mut leave, mut back, mut cut) =
            (Repetitions::new(), Repetitions::new(), Repetitions::new());
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
    accounting::check(stage.host())?;
    let endings = endings::exits(stage, &site)?;
    let mut targets = vec![
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
        waited("large folios are put", &leave_alone, &leave),
        waited("large folios are read back", &back_alone, &back),
        waited(
            "a file with pages in many chunks is truncated",
            &cut_alone,
            &cut,
        ),
    ];
    targets.extend(endings);
    Ok(targets)
}

/// Returns the target for the additional wait of an urgent task, compared with the kernel alone.
fn waited(what: &str, alone: &Repetitions, with: &Repetitions) -> Target {
    Target::at_most(
        format!("latency: additional wait of an urgent task in million instructions while {what}"),
        MAX_MS,
        (with.ms - alone.ms).max(0.0),
        "",
    )
}

/// Results of the same work, repeated several times.
#[derive(Debug)]
struct Repetitions {
    /// Worst wait of an urgent task in milliseconds, and of all repetitions the smallest: the host
    /// is occasionally busy with other work, and the wait under test occurs each time.
    ms: f64,
    /// Counters of all repetitions together.
    counted: GuestCounters,
}

impl Repetitions {
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
    /// Makes the reader hold the large file in large folios.
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

    /// Makes a sparse file with a page in each chunk and, if the module is loaded, puts these
    /// pages. Returns the number of pages.
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
        // The map allocates memory while some puts are refused; refused pages are read again.
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

    /// Runs a command. Returns the worst wait of an urgent task in milliseconds, and the counters.
    fn late(&self, line: &str) -> Result<(f64, GuestCounters)> {
        let counted = || -> Result<GuestCounters> {
            match self.guest.has_module(GUEST)? {
                true => ddctl::counters(self.guest),
                false => Ok(GuestCounters::default()),
            }
        };
        let before = counted()?;
        let worst = self.run(&format!("ddhelper late {line} 2> /dev/null"))?;
        let worst: f64 = worst.trim().parse().context("the output is not a number")?;
        Ok((worst / 1e6, counted()? - before))
    }
}
