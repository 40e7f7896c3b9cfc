// SPDX-License-Identifier: GPL-2.0-only

//! Times at which to try failed operations again.

use super::Time;
use std::collections::BTreeMap;

const FIRST_PAUSE: Time = Time::from_secs(1);
const MAX_PAUSE: Time = Time::from_secs(60);

/// Operations that failed, and the times from which on they may be tried again.
#[derive(Debug, Default)]
pub(super) struct Retries(BTreeMap<String, Retry>);

#[derive(Debug)]
struct Retry {
    pause: Time,
    at: Time,
    message: String,
}

impl Retries {
    /// Notes a failure. Each pause is twice as long as the previous one. Returns whether the
    /// message is new.
    pub(super) fn failed(&mut self, now: Time, key: &str, message: &str) -> bool {
        let before = self.0.get(key);
        let pause = before.map_or(FIRST_PAUSE, |retry| (retry.pause * 2).min(MAX_PAUSE));
        let news = before.is_none_or(|retry| retry.message != message);
        let retry = Retry {
            pause,
            at: now.saturating_add(pause),
            message: message.into(),
        };
        self.0.insert(key.into(), retry);
        news
    }

    /// Returns whether an operation may be tried now.
    pub(super) fn may(&self, now: Time, key: &str) -> bool {
        self.0.get(key).is_none_or(|retry| retry.at <= now)
    }

    /// Returns the time from which on the next operation may be tried.
    pub(super) fn next(&self) -> Option<Time> {
        self.0.values().map(|retry| retry.at).min()
    }

    /// Forgets the failures of an operation.
    pub(super) fn forget(&mut self, key: &str) {
        self.0.remove(key);
    }

    /// Forgets the failures of all other operations.
    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.0.retain(|key, _| keep(key));
    }

    /// Forgets operations that may be tried again.
    pub(super) fn forget_due(&mut self, now: Time) {
        self.0.retain(|_, retry| retry.at > now);
    }

    /// Forgets all failures, because their causes may be gone.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
