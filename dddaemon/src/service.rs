// SPDX-License-Identifier: GPL-2.0-only

//! Messages to the service manager.

use sd_notify::NotifyState;
use std::{future::pending, time::Duration};
use tokio::time::{Interval, MissedTickBehavior, interval};
use tracing::warn;

/// Messages to the service manager. Tests replace it by a fake.
pub trait Service {
    /// Reports that the daemon is ready.
    fn ready(&mut self);
    /// Reports that the configuration is being read again.
    fn reloading(&mut self);
    /// Reports that the daemon is ending.
    fn stopping(&mut self);
    /// Reports the state of the daemon in one line.
    fn status(&mut self, text: &str);
    /// Reports that the daemon is alive.
    fn alive(&mut self);
    /// Returns the longest interval between two calls of [`Self::alive`], if they are needed.
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
        warn!("cannot notify the service manager: {error}");
    }
}

/// Timer of the messages by which a daemon tells the service manager that it is alive.
#[derive(Debug)]
pub struct Watchdog(Option<Interval>);

impl Watchdog {
    /// Creates the timer for a service manager, which may not require such messages.
    pub fn new(service: &impl Service) -> Self {
        Self(service.alive_every().map(|every| {
            let mut alive = interval(every);
            alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
            alive
        }))
    }

    /// Waits until the next message is due.
    pub async fn due(&mut self) {
        match &mut self.0 {
            Some(alive) => {
                alive.tick().await;
            }
            None => pending().await,
        }
    }
}
