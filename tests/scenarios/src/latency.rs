// SPDX-License-Identifier: GPL-2.0

//! What the cache does inside a guest keeps nobody else waiting for long, however large folios and
//! files are.

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
/// The cgroup whose pages leave.
const READER: &str = "reader";
/// How long an urgent task may wait: one call with 128 pages, and what the emulated machine takes
/// for an interrupt.
const MOST_MS: f64 = 1.0;

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
    let disk = stage.blank_disk("data", 8192)?;
    let config = GuestConfig::new("one").disk(&disk, Throttle::NONE);
    let guest = stage.lab.start_guest(&config)?;
    guest.exec_ok(["mkfs.xfs", "-q", &disk.path_in_guest()])?;
    guest.mount(&disk.path_in_guest(), "/mnt", "xfs", "noatime")?;
    guest.cgroup(READER, &[])?;
    guest.shell(format!("yes double | head -c {LARGE} > /mnt/large; sync"))?;
    let site = Site { guest: &guest };

    site.grow()?;
    let usual = site.late("kernel alone", &site.reclaim())?.0;

    guest.load_module(GUEST, &[MAP])?;
    stage::attached(&guest)?;
    ddctl::run(&guest, &format!("container add {READER} --policy fifo"))?;
    site.grow()?;
    let (put_ms, put) = site.late("large folios leave", &site.reclaim())?;
    let (get_ms, got) = site.late("they come back", "ddhelper huge /mnt/large")?;
    let held = site.scatter()?;
    let (cut_ms, cut) = site.late("a sparse file is cut", "truncate -s 0 /mnt/sparse")?;
    ensure!(
        cut.invalidated >= held * 9 / 10 && held > SPARSE / 2,
        "{held} pages of the sparse file were at the host: {cut:?}"
    );
    books::balance(stage.host())?;
    Ok(vec![
        Target::at_least(
            "latency: pages of large folios that went to the host",
            90.0,
            percent(put.put_stored, pages(LARGE)),
            "%",
        ),
        Target::at_least(
            "latency: pages of large folios that came back",
            90.0,
            percent(got.get_hits, pages(LARGE)),
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
        waited("large folios leave", usual, put_ms),
        waited("they come back", usual, get_ms),
        waited("a file with pages in many chunks is cut", usual, cut_ms),
    ])
}

/// How much longer than with the kernel alone an urgent task waited.
fn waited(what: &str, usual: f64, ms: f64) -> Target {
    Target::at_most(
        format!("latency: million instructions an urgent task waits while {what}"),
        MOST_MS,
        (ms - usual).max(0.0),
        "",
    )
}

struct Site<'a> {
    guest: &'a Guest,
}

impl Site<'_> {
    /// Has the reader hold the large file, in large folios.
    fn grow(&self) -> Result<()> {
        self.guest.drop_caches(false)?;
        self.run("ddhelper huge /mnt/large")?;
        let huge = Stat::of(self.guest, READER)?.get("file_thp")?;
        ensure!(huge >= LARGE / 2, "only {huge} bytes are in large folios");
        Ok(())
    }

    fn reclaim(&self) -> String {
        format!("sh -c 'echo 256M > /sys/fs/cgroup/{READER}/memory.reclaim'")
    }

    /// Has the host hold a page of each chunk of a sparse file; how many it took.
    fn scatter(&self) -> Result<u64> {
        let write = format!(
            "perl -e 'open F, \"+>\", \"/mnt/sparse\"; for (0..{}) {{ sysseek F, $_ << {}, 0; \
             syswrite F, \"x\" x 4096 }}'; sync",
            SPARSE - 1,
            DISTANCE_KIB.ilog2() + 10,
        );
        self.run(&write)?;
        let before = ddctl::counters(self.guest)?;
        // The map gets more memory while some are refused: those that are, are read again.
        for _ in 0..4 {
            let read = write
                .replace("+>", "<")
                .replace("syswrite F, \"x\" x 4096", "sysread F, $b, 4096");
            self.run(&read)?;
            self.run(&format!("{} || true", self.reclaim()))?;
        }
        let counted = ddctl::counters(self.guest)? - before;
        Ok((counted.put_stored - counted.get_hits).min(SPARSE))
    }

    fn run(&self, line: &str) -> Result<String> {
        self.guest.run_ok(&Command::shell(line).cgroup(READER))
    }

    /// Runs a command. Returns how many milliseconds an urgent task waited at the worst, and what
    /// was counted.
    fn late(&self, what: &str, line: &str) -> Result<(f64, GuestCounters)> {
        let counted = || -> Result<GuestCounters> {
            match self.guest.has_module(GUEST)? {
                true => ddctl::counters(self.guest),
                false => Ok(GuestCounters::default()),
            }
        };
        let before = counted()?;
        let worst = self.run(&format!("ddhelper late {line} 2> /dev/null"))?;
        let worst: f64 = worst.trim().parse().context("it is no number")?;
        let ms = worst / 1e6;
        eprintln!("    {what}: an urgent task waited {ms:.3} ms");
        Ok((ms, counted()? - before))
    }
}
