// SPDX-License-Identifier: GPL-2.0-only

//! Talking to the service manager.

use crate::engine::Summary;
use sd_notify::NotifyState;
use std::time::Duration;
use tracing::warn;

/// What a service manager wants to know; tests put a fake in its place.
pub trait Service {
    /// Everything runs.
    fn ready(&mut self);
    /// The configuration is being read again.
    fn reloading(&mut self);
    /// The daemon ends.
    fn stopping(&mut self);
    /// A line for people.
    fn status(&mut self, text: &str);
    /// A sign of life.
    fn alive(&mut self);
    /// How often [`Self::alive`] must be called, if at all.
    fn alive_every(&self) -> Option<Duration>;
}

/// systemd, if it started us.
#[derive(Debug, Default)]
pub struct Systemd {
    status: String,
}

impl Service for Systemd {
    fn ready(&mut self) {
        tell(&[NotifyState::Ready]);
    }

    fn reloading(&mut self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => tell(&[NotifyState::Reloading, now]),
            Err(error) => warn!("cannot read the clock: {error}"),
        }
    }

    fn stopping(&mut self) {
        tell(&[NotifyState::Stopping]);
    }

    fn status(&mut self, text: &str) {
        if self.status != text {
            self.status = text.into();
            tell(&[NotifyState::Status(text)]);
        }
    }

    fn alive(&mut self) {
        tell(&[NotifyState::Watchdog]);
    }

    fn alive_every(&self) -> Option<Duration> {
        // Half the limit, as the manager's documentation advises.
        sd_notify::watchdog_enabled().map(|limit| limit / 2)
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!("cannot tell the service manager: {error}");
    }
}

/// A summary as a line for people.
pub fn line(summary: &Summary) -> String {
    if summary.module {
        let Summary {
            wanted, enrolled, ..
        } = summary;
        let short = match summary.feasible {
            Some(false) => "; not all targets can be met",
            Some(true) | None => "",
        };
        format!("{enrolled} of {wanted} containers enrolled{short}")
    } else {
        "waiting for the kernel module doubledecker_guest".into()
    }
}
