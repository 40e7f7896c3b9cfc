// SPDX-License-Identifier: GPL-2.0-only

//! Times of events at the host, by the host's own clock. A test on a busy machine that sees an
//! event late does not conclude that it happened late.

use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use ddlab::{Command, Machine, Running, wait};
use serde::Deserialize;

use crate::ddctl;

/// The host's events from a given time on.
pub(crate) struct Events<'a> {
    host: &'a Machine,
    follower: Running,
}

/// An event, as printed by `ddctl events`.
#[derive(Deserialize)]
struct Event {
    event: String,
    vm: Option<u32>,
    time: String,
}

impl<'a> Events<'a> {
    /// Follows the events while the host module is loaded. The first event of a guest that is
    /// started afterwards comes much later than the start of this.
    pub(crate) fn follow(host: &'a Machine) -> Result<Self> {
        let argv = ["ddctl", "--json", "--host", "events"];
        let follower = host.spawn(&Command::new(argv))?;
        Ok(Self { host, follower })
    }

    /// Waits until the host reports that the pages of a VM are freed. Returns the time since
    /// `since`, which is a time of [`clock`].
    pub(crate) fn went(&self, vm: u32, since: Duration) -> Result<Duration> {
        let what = format!("{} reports that VM {vm} went away", self.host.name());
        wait::until(&what, || {
            let told = self.follower.output()?;
            // The last line may be incomplete.
            for line in told.lines().filter(|line| line.ends_with('}')) {
                let event: Event = serde_json::from_str(line).with_context(|| line.to_owned())?;
                let at = parse(&event.time)?;
                if event.event == "vm-went" && event.vm == Some(vm) && at >= since {
                    return Ok(Some(at - since));
                }
            }
            Ok(None)
        })
    }
}

/// Returns the time of the host's clock, as used in its events.
pub(crate) fn clock(host: &Machine) -> Result<Duration> {
    let text = ddctl::run(host, "--json --host stats --watch=0.1 --count=1")?;
    let picture: ddctl::Vms = serde_json::from_str(&text).with_context(|| text.clone())?;
    parse(&picture.time.context("the output has no time")?)
}

/// Parses a time as `ddctl` prints it.
pub(crate) fn parse(time: &str) -> Result<Duration> {
    let time = humantime::parse_rfc3339(time)?;
    Ok(time.duration_since(SystemTime::UNIX_EPOCH)?)
}
