// SPDX-License-Identifier: GPL-2.0

//! Memory that shrinks: policyd keeps the ratio of the containers' weights, the
//! kernel alone does not.

use anyhow::{Context as _, Result, ensure};
use ddlab::{Command, Context, Guest, GuestConfig, Scenario, Target, Throttle, wait};

use crate::{memory::Memory, stage::Stage};

/// Two containers of weights 1:2 beside one that takes ever more memory.
pub(crate) const RECLAIM: Scenario = Scenario {
    name: "reclaim",
    about: "proportional reclaim keeps 1:2 while memory shrinks",
    quick: false,
    run,
};

/// What the containers hold at first, in MiB: twice as much as at the end.
const HELD: [(&str, u64); 2] = [("one", 80), ("two", 160)];
const LEFT_MIB: u64 = 120;
/// What the first one reads again and again, in MiB: the kernel spares it.
const BUSY_MIB: u64 = 32;
/// How much memory is taken at once, in MiB.
const STEP_MIB: u64 = 8;
/// policyd keeps a tenth of memory available, so that the kernel need not act.
const FILE: &str = "\
interval_s = 1

[reclaim]
free_percent = 10
chunk = \"2M\"

[[container]]
name = \"one\"
cgroup = \"/one\"
memory_weight = 1

[[container]]
name = \"two\"
cgroup = \"/two\"
memory_weight = 2
";
const FILE_PATH: &str = "/run/policyd.toml";
/// Percent of memory that is there before more is taken: less than policyd keeps.
const THERE: u64 = 9;

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let lab = context.lab()?;
    let stage = Stage { lab };
    let swap = stage.blank_disk("swap", 512)?;
    let guest = lab.start_guest(&GuestConfig::new("one").disk(&swap, Throttle::NONE))?;
    guest.exec_ok(["mkswap", &swap.path_in_guest()])?;
    guest.exec_ok(["swapon", &swap.path_in_guest()])?;

    let kernel = shrink(&guest, || Ok(()))?;
    guest.write_file(FILE_PATH, FILE)?;
    let daemon = Command::new(["policyd", "run", "--config", FILE_PATH]);
    let mut policyd = guest.spawn(&daemon)?;
    let enough = || {
        wait::until("policyd keeps memory available", || {
            let memory = Memory::now(&guest)?;
            let there = memory.kib("MemAvailable")? * 100 / memory.kib("MemTotal")?;
            Ok((there >= THERE).then_some(()))
        })
    };
    let kept = shrink(&guest, enough)?;
    let alive = policyd.poll()?.is_none();
    ensure!(alive, "policyd ended: {}", policyd.output()?);
    context.say(format!("1:2 became 1:{kernel:.2} without policyd"));
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
    ])
}

/// Fills both containers and takes memory away, a step at a time and each after
/// `enough`, until they have half of it left; how many times as much as the
/// first one the second has then.
fn shrink(guest: &Guest, mut enough: impl FnMut() -> Result<()>) -> Result<f64> {
    guest.mount("tmpfs", "/mnt", "tmpfs", "size=1G")?;
    for (name, mib) in HELD {
        guest.cgroup(name, &[])?;
        fill(guest, name, mib)?;
    }
    // What takes memory gives none back.
    guest.cgroup("hog", &[("memory.swap.max", "0")])?;
    let read = format!("while :; do head -c {BUSY_MIB}M /mnt/one > /dev/null; sleep 0.2; done");
    let mut reader = guest.spawn(&Command::shell(read).cgroup("one"))?;
    let mut held = held_mib(guest)?;
    while held.iter().sum::<f64>() > LEFT_MIB as f64 {
        fill(guest, "hog", STEP_MIB)?;
        enough()?;
        held = held_mib(guest)?;
    }
    reader.kill(9)?;
    reader.wait()?;
    guest.exec_ok(["umount", "/mnt"])?;
    Ok(held[1] / held[0])
}

/// Adds to what a container holds in memory.
fn fill(guest: &Guest, name: &str, mib: u64) -> Result<()> {
    let fill = format!("head -c {mib}M /dev/zero >> /mnt/{name}");
    guest.run_ok(&Command::shell(fill).cgroup(name)).map(drop)
}

/// MiB that each container holds.
fn held_mib(guest: &Guest) -> Result<Vec<f64>> {
    let of = |(name, _)| {
        let text = guest.read_text(&format!("/sys/fs/cgroup/{name}/memory.current"))?;
        let bytes: f64 = text.parse().context("memory.current is no number")?;
        Ok(bytes / f64::from(1 << 20))
    };
    HELD.into_iter().map(of).collect()
}
