// SPDX-License-Identifier: GPL-2.0

//! Memory that shrinks: policyd keeps the ratio of the containers' weights, and
//! spares the higher class until the others are near empty; the kernel alone does
//! neither (thesis, figures 4.6 to 4.8).

use anyhow::{Context as _, Result, ensure};
use ddlab::{Command, Context, Guest, GuestConfig, Running, Scenario, Target, Throttle, wait};

use crate::{memory::Memory, stage::Stage};

/// Containers of weights 1:2, then of two classes, beside one that takes ever more
/// memory.
pub(crate) const RECLAIM: Scenario = Scenario {
    name: "reclaim",
    about: "proportional reclaim keeps 1:2 while memory shrinks, and spares gold",
    quick: false,
    run,
};

/// Containers that lose memory.
struct Site {
    /// What they hold at first, in MiB.
    held: &'static [(&'static str, u64)],
    /// Which one reads its first [`BUSY_MIB`] again and again: those the kernel spares.
    busy: Option<&'static str>,
    /// The shrinking ends when this is left of it all, in MiB.
    left_mib: u64,
    /// policyd's words on each container.
    words: &'static [&'static str],
}

/// Weights of 1:2; half of the memory goes.
const RATIO: Site = Site {
    held: &[("one", 80), ("two", 160)],
    busy: Some("one"),
    left_mib: 120,
    words: &["memory_weight = 1", "memory_weight = 2"],
};
/// One of a higher class; nearly all of the others' memory goes, then some of its.
const CLASSES: Site = Site {
    held: &[("gold", 60), ("one", 60), ("two", 60)],
    busy: None,
    left_mib: 76,
    words: &["class = \"gold\"", "", ""],
};
/// What two containers hold that have nearly nothing left, in MiB: policyd takes
/// the last 16 MiB from nobody.
const NEAR_EMPTY_MIB: f64 = 40.0;
const BUSY_MIB: u64 = 32;
/// How much memory is taken at once, in MiB.
const STEP_MIB: u64 = 8;
/// policyd keeps a tenth of memory available, so that the kernel need not act.
const FILE: &str = "\
interval_s = 1

[reclaim]
free_percent = 10
chunk = \"2M\"
";
const FILE_PATH: &str = "/run/policyd.toml";
/// Percent of memory that is there before more is taken: less than policyd keeps.
const THERE: u64 = 9;
const SIGTERM: i32 = 15;

/// What each container held after each step, in MiB.
type Course = Vec<Vec<f64>>;

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let lab = context.lab()?;
    let stage = Stage { lab };
    let swap = stage.blank_disk("swap", 512)?;
    let guest = lab.start_guest(&GuestConfig::new("one").disk(&swap, Throttle::NONE))?;
    guest.exec_ok(["mkswap", &swap.path_in_guest()])?;
    guest.exec_ok(["swapon", &swap.path_in_guest()])?;

    let ratio = |course: &Course| course.last().map_or(0.0, |held| held[1] / held[0]);
    let kernel = RATIO.shrink(&guest, || Ok(()))?;
    let kept = RATIO.shrink_with_policyd(&guest)?;
    let (kernel, kept) = (ratio(&kernel), ratio(&kept));
    let kernel_gold = CLASSES.shrink(&guest, || Ok(()))?;
    let kept_gold = CLASSES.shrink_with_policyd(&guest)?;
    context.say(format!("1:2 became 1:{kernel:.2} without policyd"));
    context.say(format!(
        "gold, one, two in MiB with policyd: {kept_gold:.0?}"
    ));
    let off = |ratio: f64| (ratio / 2.0 - 1.0).abs() * 100.0;
    Ok(vec![
        Target::at_least(
            "reclaim: how far the kernel alone is off the ratio 1:2",
            20.0,
            off(kernel),
            "%",
        ),
        Target::at_most(
            "reclaim: how far policyd is off the ratio 1:2",
            10.0,
            off(kept),
            "%",
        ),
        Target::at_most(
            "reclaim: what the kernel alone leaves gold while others have memory",
            80.0,
            spared(&kernel_gold),
            "%",
        ),
        Target::at_least(
            "reclaim: what policyd leaves gold until the others are near empty",
            90.0,
            spared(&kept_gold),
            "%",
        ),
    ])
}

/// The least that was left of the first one's memory while the others had some, in percent.
fn spared(course: &Course) -> f64 {
    let others = |held: &&Vec<f64>| held[1..].iter().sum::<f64>() > NEAR_EMPTY_MIB;
    let left = |held: &Vec<f64>| held[0] * 100.0 / course[0][0];
    course
        .iter()
        .filter(others)
        .map(left)
        .fold(f64::INFINITY, f64::min)
}

impl Site {
    fn file(&self) -> String {
        let mut file = FILE.to_owned();
        for ((name, _), words) in self.held.iter().zip(self.words) {
            file += &format!("[[container]]\nname = \"{name}\"\ncgroup = \"/{name}\"\n{words}\n");
        }
        file
    }

    /// [`Site::shrink`], no faster than policyd reclaims.
    fn shrink_with_policyd(&self, guest: &Guest) -> Result<Course> {
        guest.write_file(FILE_PATH, self.file())?;
        let daemon = Command::new(["policyd", "run", "--config", FILE_PATH]);
        let mut policyd = guest.spawn(&daemon)?;
        let enough = || {
            wait::until("policyd keeps memory available", || {
                let memory = Memory::now(guest)?;
                let there = memory.kib("MemAvailable")? * 100 / memory.kib("MemTotal")?;
                Ok((there >= THERE).then_some(()))
            })
        };
        let course = self.shrink(guest, enough)?;
        let alive = policyd.poll()?.is_none();
        ensure!(alive, "policyd ended: {}", policyd.output()?);
        policyd.kill(SIGTERM)?;
        policyd.wait()?;
        Ok(course)
    }

    /// Fills the containers and takes memory away, a step at a time and each after
    /// `enough`, until they have no more than is to be left.
    fn shrink(&self, guest: &Guest, mut enough: impl FnMut() -> Result<()>) -> Result<Course> {
        guest.mount("tmpfs", "/mnt", "tmpfs", "size=1G")?;
        for &(name, mib) in self.held {
            guest.cgroup(name, &[])?;
            fill(guest, name, mib)?;
        }
        // What takes memory gives none back.
        guest.cgroup("hog", &[("memory.swap.max", "0")])?;
        let reader = self.busy.map(|name| read(guest, name)).transpose()?;
        let mut course = vec![self.held_mib(guest)?];
        while course[course.len() - 1].iter().sum::<f64>() > self.left_mib as f64 {
            fill(guest, "hog", STEP_MIB)?;
            enough()?;
            course.push(self.held_mib(guest)?);
        }
        if let Some(mut reader) = reader {
            reader.kill(9)?;
            reader.wait()?;
        }
        guest.exec_ok(["umount", "/mnt"])?;
        Ok(course)
    }

    /// MiB that each container holds.
    fn held_mib(&self, guest: &Guest) -> Result<Vec<f64>> {
        let of = |&(name, _): &(&str, u64)| {
            let text = guest.read_text(&format!("/sys/fs/cgroup/{name}/memory.current"))?;
            let bytes: f64 = text.parse().context("memory.current is no number")?;
            Ok(bytes / f64::from(1 << 20))
        };
        self.held.iter().map(of).collect()
    }
}

/// Reads the beginning of a container's file again and again.
fn read(guest: &Guest, name: &str) -> Result<Running> {
    let read = format!("while :; do head -c {BUSY_MIB}M /mnt/{name} > /dev/null; sleep 0.2; done");
    guest.spawn(&Command::shell(read).cgroup(name))
}

/// Adds to what a container holds in memory.
fn fill(guest: &Guest, name: &str, mib: u64) -> Result<()> {
    let fill = format!("head -c {mib}M /dev/zero >> /mnt/{name}");
    guest.run_ok(&Command::shell(fill).cgroup(name)).map(drop)
}
