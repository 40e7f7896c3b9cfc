// SPDX-License-Identifier: GPL-2.0-only

//! Machines that are suspended to memory until their clock wakes them.

use anyhow::{Result, ensure};
use ddhelper::FREEZING;
use ddlab::{Command, Machine, wait};

use crate::ddctl;

/// The event count is read before the alarm is set. An alarm before the machine sleeps then ends
/// the attempt; otherwise the machine would never wake up.
const SUSPEND: &str = "
    alarm=/sys/class/rtc/rtc0/wakealarm
    echo 0 > $alarm
    events=$(cat /sys/power/wakeup_count)
    echo +10 > $alarm &&
    echo $events > /sys/power/wakeup_count &&
    echo mem > /sys/power/state";

/// Suspends a machine, the guest or its host, until the alarm. The guest must keep its session.
pub(super) fn to_memory(machine: &Machine, guest: &Machine) -> Result<()> {
    let sleeps = || -> Result<u32> {
        let times = machine.read_text("/sys/power/suspend_stats/success")?;
        Ok(times.parse()?)
    };
    let (sessions, before) = (ddctl::counters(guest)?.sessions, sleeps()?);
    wait::until("it slept", || {
        // An alarm may come before the machine sleeps.
        let done = machine.run(&Command::new(["flock", FREEZING, "sh", "-c", SUSPEND]))?;
        Ok(done.exit.success().then_some(()))
    })?;
    ensure!(sleeps()? > before, "the machine was not suspended");
    let after = ddctl::counters(guest)?.sessions;
    ensure!(after == sessions, "the guest began another session");
    Ok(())
}
