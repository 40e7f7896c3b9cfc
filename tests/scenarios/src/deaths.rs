// SPDX-License-Identifier: GPL-2.0-only

//! VMs die at any moment, and all their memory is freed.

use std::{thread, time::Duration};

use anyhow::{Context as _, Result, anyhow, ensure};
use ddhelper::churn::Random;
use ddlab::{Command, Context, Disk, GuestConfig, Scenario, Target, Throttle, wait};

use crate::{
    ddctl,
    events::{self, Events},
    memory::Baseline,
    stage::{GUEST, Stage, attached},
    work::{self, Load, some_calls},
};

/// VMMs are killed at random moments and by several signals.
pub(crate) const DEATHS: Scenario = Scenario {
    name: "deaths",
    about: "VMMs are killed 20 times, and all pages are freed within a second each time",
    quick: false,
    run,
};

/// Deaths of each of two VMs that run side by side.
const DEATHS_EACH: u32 = 10;
/// Number of deaths of each in the short form: one while it loads the module, one afterwards.
const DEATHS_EACH_QUICK: u32 = 2;
/// Capacity of the tier, which is less than the work needs.
const CAPACITY_MIB: u64 = 24;
/// Signals that end a VMM: KILL, TERM, SEGV, ABRT.
const SIGNALS: [i32; 4] = [9, 15, 11, 6];

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let deaths = match context.quick() {
        true => DEATHS_EACH_QUICK,
        false => DEATHS_EACH,
    };
    let lab = context.lab()?;
    let stage = Stage { lab };
    let lanes = [
        (stage.disk("left", work::files())?, 1),
        (stage.disk("right", work::files())?, 2),
    ];
    stage.load_host(CAPACITY_MIB)?;
    let before = Baseline::take(stage.host())?;
    let events = Events::follow(stage.host())?;
    let times = thread::scope(|scope| -> Result<Vec<Duration>> {
        let (stage, events) = (&stage, &events);
        let lanes: Vec<_> = lanes
            .iter()
            .map(|(disk, seed)| scope.spawn(move || die_often(stage, events, disk, *seed, deaths)))
            .collect();
        let mut times = Vec::new();
        for lane in lanes {
            times.extend(lane.join().map_err(|_| anyhow!("a lane panicked"))??);
        }
        Ok(times)
    })?;
    drop(events);
    let left = ddctl::host(stage.host())?;
    ensure!(left.vms == 0 && left.used_pages == 0, "left: {left:?}");
    ensure!(left.counters.vms_came == left.counters.vms_went, "{left:?}");
    before.check("VMs were killed")?;
    let slowest = times
        .iter()
        .max()
        .context("the host knew no VM that was killed")?;
    let target = Target::at_most(
        "deaths: longest time from the signal until all pages were freed",
        stage.host().at_its_pace(1.0),
        slowest.as_secs_f64(),
        "s",
    );
    Ok(vec![target.detail(format!("of {}", times.len()))])
}

/// Starts a VM, lets it work, and kills it, `deaths` times. Returns how long it took from the
/// signal, by the host's clock, until the host had freed all pages of those VMs that it knew.
fn die_often(
    stage: &Stage<'_>,
    events: &Events<'_>,
    disk: &Disk,
    seed: u64,
    deaths: u32,
) -> Result<Vec<Duration>> {
    let mut rng = Random::new(seed);
    let mut times = Vec::new();
    for death in 0..deaths {
        let name = format!("vm{seed}");
        let config = GuestConfig::new(&name).memory_mib(256);
        let guest = stage.lab.start_guest(&config.disk(disk, Throttle::NONE))?;
        guest.mount(&disk.path_in_guest(), "/mnt", "ext4", "noatime")?;
        let load = Load::start(&guest)?;
        // Some VMs die while they load the module, so that the host may not know them.
        let insmod = ["insmod", &format!("/opt/dd/modules/{GUEST}.ko")];
        let insmod = guest.spawn(&Command::new(insmod.map(str::to_owned)))?;
        let mut known = None;
        if death % 3 > 0 {
            wait::until("the module is loaded", || {
                Ok(guest.has_module(GUEST)?.then_some(()))
            })?;
            known = Some(attached(&guest)?);
            some_calls(&guest, &mut rng)?;
        }
        let signal = SIGNALS[rng.below(SIGNALS.len() as u64) as usize];
        let signalled = events::clock(stage.host())?;
        guest.kill(signal)?;
        if let Some(vm) = known {
            times.push(events.went(vm, signalled)?);
        }
        wait::until("the dead VM is forgotten", || {
            let vms = ddctl::vms(stage.host())?;
            Ok(ddctl::vm(&vms, &name).is_err().then_some(()))
        })?;
        drop((load, insmod));
    }
    Ok(times)
}
