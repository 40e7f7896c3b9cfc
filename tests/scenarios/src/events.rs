// SPDX-License-Identifier: GPL-2.0-only

//! When something happened at the host, by the host's own clock: what a test sees late, because its
//! machine is busy, did not happen late.

use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use ddlab::{Command, Machine, Running, wait};
use serde::Deserialize;

use crate::ddctl;

/// The host's events from some time on.
pub(crate) struct Events<'a> {
    host: &'a Machine,
    follower: Running,
}

/// What `ddctl events` says of one.
#[derive(Deserialize)]
struct Event {
    event: String,
    vm: Option<u32>,
    time: String,
}

impl<'a> Events<'a> {
    /// Follows them, while the host module is loaded. Guests that start afterwards take much longer
    /// than this to have something told of them.
    pub(crate) fn follow(host: &'a Machine) -> Result<Self> {
        let argv = ["ddctl", "--json", "--host", "events"];
        let follower = host.spawn(&Command::new(argv))?;
        Ok(Self { host, follower })
    }

    /// Waits until the pages of a VM are freed, which the host tells. Returns how long that was
    /// after `since`, a time of [`clock`].
    pub(crate) fn went(&self, vm: u32, since: Duration) -> Result<Duration> {
        let what = format!("{} says that VM {vm} went", self.host.name());
        wait::until(&what, || {
            let told = self.follower.output()?;
            // The last line may be half of one.
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

/// What the host's clock shows, as its events have it.
pub(crate) fn clock(host: &Machine) -> Result<Duration> {
    let text = ddctl::run(host, "--json --host stats --watch=0.1 --count=1")?;
    let picture: ddctl::Vms = serde_json::from_str(&text).with_context(|| text.clone())?;
    parse(&picture.time.context("a picture without time")?)
}

/// A time as `ddctl` writes it.
pub(crate) fn parse(time: &str) -> Result<Duration> {
    let time = humantime::parse_rfc3339(time)?;
    Ok(time.duration_since(SystemTime::UNIX_EPOCH)?)
}
