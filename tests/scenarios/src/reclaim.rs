// SPDX-License-Identifier: GPL-2.0-only

//! Memory shrinks: policyd keeps the ratio of the containers' weights, and spares the higher class
//! until the others are nearly empty; the kernel alone does neither (thesis, figures 4.6 to 4.8).

use anyhow::{Context as _, Result, ensure};
use ddlab::{
    Command, Context, Disk, FileSpec, Guest, GuestConfig, Scenario, Target, Throttle, report, wait,
};

use crate::{
    cgroup::{self, Stat},
    memory::Memory,
    stage::Stage,
};

/// Runs containers of weights 1:2, then of two classes, beside one that takes more and more memory.
///
/// On all machines the kernel takes clean cache before it swaps. Containers that should keep most
/// have file cache here, and the others have memory that must be swapped.
pub(crate) const RECLAIM: Scenario = Scenario {
    name: "reclaim",
    about: "proportional reclaim keeps 1:2 while memory shrinks, and spares gold",
    quick: false,
    run,
};

/// Message of a kernel that swaps its last memory and has none for swap's own tables
/// (`swap_cluster_alloc_table`); it then tries another place. No module of the project is loaded.
const SWAPPING: &str = r"kswapd\d+: page allocation failure: order:0,";

/// A set of containers that lose memory.
struct Site {
    held: &'static [Container],
    /// Total memory in MiB at which the shrinking ends.
    left_mib: u64,
    /// The same without policyd. It is larger, because the system nearly stops as soon as no cache
    /// is left and the kernel reclaims the code of programs.
    left_by_kernel_mib: u64,
}

struct Container {
    name: &'static str,
    kind: Kind,
    /// Initial memory in MiB.
    mib: u64,
    /// policyd's keys for it.
    words: &'static str,
}

#[derive(Clone, Copy)]
enum Kind {
    /// Pages of a file, read once.
    Cache,
    /// Anonymous memory, which must be swapped.
    Memory,
}

impl Container {
    const fn new(name: &'static str, kind: Kind, mib: u64, words: &'static str) -> Self {
        Self {
            name,
            kind,
            mib,
            words,
        }
    }
}

/// Weights of 1:2; half of the memory is taken.
const RATIO: Site = Site {
    held: &[
        Container::new("one", Kind::Memory, 80, "memory_weight = 1"),
        Container::new("two", Kind::Cache, 160, "memory_weight = 2"),
    ],
    left_mib: 120,
    left_by_kernel_mib: 160,
};
/// A container of a higher class: nearly all memory of the others is reclaimed, then some of its
/// own.
const CLASSES: Site = Site {
    held: &[
        Container::new("gold", Kind::Cache, 60, "class = \"gold\""),
        Container::new("one", Kind::Memory, 60, ""),
        Container::new("two", Kind::Memory, 60, ""),
    ],
    left_mib: 76,
    left_by_kernel_mib: 140,
};
/// Memory in MiB of two containers that are nearly empty: policyd leaves the last 16 MiB to each.
const NEAR_EMPTY_MIB: f64 = 40.0;
/// Memory in MiB that is taken in a step. Steps are small for policyd, and larger for the kernel
/// alone, which also reclaims the code of programs, so that each step takes long.
const STEP_MIB: u64 = 8;
const STEP_BY_KERNEL_MIB: u64 = 32;
/// Percentage of memory that is available at the beginning, more than policyd keeps.
const FREE: u64 = 24;
/// policyd keeps a fifth of memory available, so that the kernel need not reclaim.
const FILE: &str = "\
interval_s = 1

[reclaim]
free_percent = 20
chunk = \"2M\"
";
const FILE_PATH: &str = "/run/policyd.toml";
/// Percentage of memory that must be available before more is taken, less than policyd keeps.
const THERE: u64 = 19;
const SIGTERM: i32 = 15;

/// Memory in MiB of each container after each step.
type History = Vec<Vec<f64>>;

fn run(context: &mut Context) -> Result<Vec<Target>> {
    context.allow_console(SWAPPING);
    let output = context.output_dir()?;
    let stage = Stage {
        lab: context.lab()?,
    };
    let swap = stage.blank_disk("swap", 512)?;
    let cached = |site: &Site| {
        let one = site.held.iter().find(|one| matches!(one.kind, Kind::Cache));
        one.map(|one| FileSpec::new(one.name, one.mib << 20, 1))
    };
    let files = [&RATIO, &CLASSES].into_iter().filter_map(cached);
    let data = stage.disk("data", files.collect())?;
    let config = GuestConfig::new("one")
        .disk(&swap, Throttle::NONE)
        .disk(&data, Throttle::NONE);
    let guest = stage.lab.start_guest(&config)?;
    guest.exec_ok(["mkswap", &swap.path_in_guest()])?;
    guest.exec_ok(["swapon", &swap.path_in_guest()])?;

    let kernel = RATIO.shrink_by_kernel(&guest, &data)?;
    let kept = RATIO.shrink_with_policyd(&guest, &data)?;
    let kernel_gold = CLASSES.shrink_by_kernel(&guest, &data)?;
    let kept_gold = CLASSES.shrink_with_policyd(&guest, &data)?;
    let result = serde_json::json!({
        "unit": "MiB",
        "ratio": { "kernel": kernel, "policyd": kept },
        "classes": { "kernel": kernel_gold, "policyd": kept_gold },
    });
    report::write_json(&output.join("result.json"), &result)?;
    for (what, course) in [
        ("one and two, kernel alone", &kernel),
        ("one and two, policyd", &kept),
        ("gold, one, two, kernel alone", &kernel_gold),
        ("gold, one, two, policyd", &kept_gold),
    ] {
        context.say(format!("{what}: {course:.0?}"));
    }
    Ok(vec![
        Target::at_least(
            "reclaim: largest deviation from the ratio 1:2, kernel alone",
            20.0,
            off(&kernel),
            "%",
        ),
        Target::at_most(
            "reclaim: largest deviation from the ratio 1:2, with policyd",
            // policyd takes 2 MiB at a time, which is 5 % of the smaller one's memory at the end.
            5.0,
            off(&kept),
            "%",
        ),
        Target::at_most(
            "reclaim: memory left to gold while others have some, kernel alone",
            80.0,
            spared(&kernel_gold),
            "%",
        ),
        Target::at_least(
            "reclaim: memory left to gold until the others are nearly empty, with policyd",
            // A single chunk of 2 MiB is 3.3 % of its memory.
            97.0,
            spared(&kept_gold),
            "%",
        ),
    ])
}

/// Returns the largest deviation from 2 of the ratio of the second to the first, in percent.
fn off(course: &History) -> f64 {
    let off = |held: &Vec<f64>| (held[1] / held[0] / 2.0 - 1.0).abs() * 100.0;
    course.iter().map(off).fold(0.0, f64::max)
}

/// Returns the least part of the first one's memory that was left while the others had some, in
/// percent; `None` if they never had any.
fn spared(course: &History) -> f64 {
    let others = |held: &&Vec<f64>| held[1..].iter().sum::<f64>() > NEAR_EMPTY_MIB;
    let left = |held: &Vec<f64>| held[0] * 100.0 / course[0][0];
    course
        .iter()
        .filter(others)
        .map(left)
        .min_by(f64::total_cmp)
        .unwrap_or(0.0)
}

impl Site {
    fn file(&self) -> String {
        let mut file = FILE.to_owned();
        for Container { name, words, .. } in self.held {
            file += &format!("[[container]]\nname = \"{name}\"\ncgroup = \"/{name}\"\n{words}\n");
        }
        file
    }

    /// Does [`Site::shrink`] without policyd.
    fn shrink_by_kernel(&self, guest: &Guest, data: &Disk) -> Result<History> {
        let steps = (STEP_BY_KERNEL_MIB, self.left_by_kernel_mib);
        self.shrink(guest, data, steps, || Ok(()))
    }

    /// Does [`Site::shrink`] no faster than policyd reclaims.
    fn shrink_with_policyd(&self, guest: &Guest, data: &Disk) -> Result<History> {
        guest.write_file(FILE_PATH, self.file())?;
        let daemon = Command::new(["policyd", "run", "--config", FILE_PATH]);
        let mut policyd = guest.spawn(&daemon)?;
        let enough = || {
            let mut seen = 0;
            let waited = wait::until("policyd keeps memory free", || {
                seen = self.there_kib(guest)?;
                let part = seen * 100 / Memory::now(guest)?.kib("MemTotal")?;
                Ok((part >= THERE).then_some(()))
            });
            waited.with_context(|| {
                let (held, said) = (self.held_mib(guest), policyd.output());
                format!("there are {seen} KiB; held in MiB: {held:.0?}; {said:?}")
            })
        };
        let course = self.shrink(guest, data, (STEP_MIB, self.left_mib), enough)?;
        let alive = policyd.poll()?.is_none();
        ensure!(alive, "policyd ended: {}", policyd.output()?);
        policyd.kill(SIGTERM)?;
        policyd.wait()?;
        Ok(course)
    }

    /// Fills the containers and takes memory away, `step_mib` at a time and each time after
    /// `enough` returned, until they have at most `left_mib`.
    fn shrink(
        &self,
        guest: &Guest,
        data: &Disk,
        (step_mib, left_mib): (u64, u64),
        mut enough: impl FnMut() -> Result<()>,
    ) -> Result<History> {
        guest.mount("tmpfs", "/mnt", "tmpfs", "size=1G")?;
        guest.mount(&data.path_in_guest(), "/data", "ext4", "noatime")?;
        for &Container {
            name, kind, mib, ..
        } in self.held
        {
            guest.cgroup(name, &[])?;
            match kind {
                Kind::Cache => cache(guest, name)?,
                Kind::Memory => fill(guest, name, mib)?,
            }
        }
        // The consumer of memory must not be swapped.
        guest.cgroup("hog", &[("memory.swap.max", "0")])?;
        let left = Memory::now(guest)?.kib("MemTotal")? * FREE / 100;
        let taken = self.there_kib(guest)?.saturating_sub(left);
        fill(guest, "hog", taken >> 10)?;
        enough()?;
        let mut course = vec![self.held_mib(guest)?];
        while course[course.len() - 1].iter().sum::<f64>() > left_mib as f64 {
            fill(guest, "hog", step_mib)?;
            enough()?;
            course.push(self.held_mib(guest)?);
        }
        guest.exec_ok(["umount", "/mnt", "/data"])?;
        Ok(course)
    }

    /// Returns the memory in MiB of each container.
    fn held_mib(&self, guest: &Guest) -> Result<Vec<f64>> {
        let of = |one: &Container| cgroup::held_mib(guest, one.name);
        self.held.iter().map(of).collect()
    }

    /// Returns the available memory in KiB, without the containers' page cache.
    fn there_kib(&self, guest: &Guest) -> Result<u64> {
        let cached = |one: &Container| -> Result<u64> {
            let stat = Stat::of(guest, one.name)?;
            Ok(stat.get("file")?.saturating_sub(stat.get("shmem")?))
        };
        let cached: u64 = self.held.iter().map(cached).sum::<Result<_>>()?;
        let available = Memory::now(guest)?.kib("MemAvailable")?;
        Ok(available.saturating_sub(cached >> 10))
    }
}

/// Makes a container read its file, so that the file's pages are its page cache.
fn cache(guest: &Guest, name: &str) -> Result<()> {
    let read = Command::shell(format!("cat /data/{name} > /dev/null"));
    guest.run_ok(&read.cgroup(name)).map(drop)
}

/// Adds to a container's anonymous memory.
fn fill(guest: &Guest, name: &str, mib: u64) -> Result<()> {
    let fill = format!("head -c {mib}M /dev/zero >> /mnt/{name}");
    guest.run_ok(&Command::shell(fill).cgroup(name)).map(drop)
}
