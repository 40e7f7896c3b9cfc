// SPDX-License-Identifier: GPL-2.0-only

//! Costs of policyd.

use std::time::Duration;

use anyhow::{Context as _, Result};
use ddlab::{Guest, usage, wait};

use crate::service::{journal, main_pid};

/// Resources that policyd used in a window of the guest's time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    /// Processor time in percent of a processor.
    pub(super) processor: f64,
    /// Lines in the journal.
    pub(super) lines: f64,
}

impl Account {
    /// Maximum number of lines in a window: a burst, and two a second.
    pub(super) const LINES: f64 = 700.0;
}

/// Measures a window in which `look` is called again and again.
pub(super) fn over(
    guest: &Guest,
    window: Duration,
    mut look: impl FnMut() -> Result<()>,
) -> Result<Account> {
    let lines = || journal(guest).lines().count();
    let (begin, used, before) = (uptime(guest)?, processor_s(guest)?, lines());
    wait::until("the window is over", || {
        look()?;
        let passed = uptime(guest)? - begin;
        Ok((passed >= window.as_secs_f64()).then_some(()))
    })?;
    let used = processor_s(guest)? - used;
    let passed = uptime(guest)? - begin;
    Ok(Account {
        processor: 100.0 * used / passed,
        lines: (lines() - before) as f64,
    })
}

/// Returns the daemon's maximum memory in MiB.
pub(super) fn peak_mib(guest: &Guest) -> Result<f64> {
    let status = guest.read_text(&format!("/proc/{}/status", main_pid(guest)?))?;
    usage::peak_mib(&status).context("the status of the process has no VmHWM")
}

/// Returns the rounds of the user's storm so far, each of which makes and removes 200 cgroups.
pub(super) fn storms(guest: &Guest) -> Result<u32> {
    let text = guest.shell("cat /run/storm/round 2> /dev/null || echo 0")?;
    // The file is empty while it is written.
    Ok(text.trim().parse().unwrap_or(0))
}

/// Returns the processor time of the daemon so far, in seconds.
fn processor_s(guest: &Guest) -> Result<f64> {
    let stat = guest.read_text(&format!("/proc/{}/stat", main_pid(guest)?))?;
    let time = usage::processor_time(&stat).context("the line of stat is too short")?;
    Ok(time.as_secs_f64())
}

fn uptime(guest: &Guest) -> Result<f64> {
    let text = guest.read_text("/proc/uptime")?;
    let first = text.split_whitespace().next();
    Ok(first.context("there is no uptime")?.parse()?)
}
