// SPDX-License-Identifier: GPL-2.0-only

//! When to try again what failed.

use super::Time;
use std::collections::BTreeMap;

const FIRST_PAUSE: Time = Time::from_secs(1);
const LONGEST_PAUSE: Time = Time::from_secs(60);

/// What failed, and when it may be tried again.
#[derive(Debug, Default)]
pub(super) struct Retries(BTreeMap<String, Retry>);

#[derive(Debug)]
struct Retry {
    pause: Time,
    at: Time,
    message: String,
}

impl Retries {
    /// Notes a failure; each pause is twice the one before. Answers whether it is news.
    pub(super) fn failed(&mut self, now: Time, key: &str, message: &str) -> bool {
        let before = self.0.get(key);
        let pause = before.map_or(FIRST_PAUSE, |retry| (retry.pause * 2).min(LONGEST_PAUSE));
        let news = before.is_none_or(|retry| retry.message != message);
        let retry = Retry {
            pause,
            at: now.saturating_add(pause),
            message: message.into(),
        };
        self.0.insert(key.into(), retry);
        news
    }

    /// Whether something may be tried now.
    pub(super) fn may(&self, now: Time, key: &str) -> bool {
        self.0.get(key).is_none_or(|retry| retry.at <= now)
    }

    /// When the next thing may be tried.
    pub(super) fn next(&self) -> Option<Time> {
        self.0.values().map(|retry| retry.at).min()
    }

    /// Forgets the failures of one thing.
    pub(super) fn forget(&mut self, key: &str) {
        self.0.remove(key);
    }

    /// Forgets the failures of all else.
    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.0.retain(|key, _| keep(key));
    }

    /// Forgets what may be tried again.
    pub(super) fn forget_due(&mut self, now: Time) {
        self.0.retain(|_, retry| retry.at > now);
    }

    /// Forgets all failures: the world changed.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
