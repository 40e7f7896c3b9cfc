// SPDX-License-Identifier: GPL-2.0-only

//! Identities of cgroups, as far as their runtimes have answered.

use super::{Cgroups, Time};
use crate::discovery::{Identity, Reference};
use std::collections::BTreeMap;

/// Identities of cgroups, and times at which to ask for unknown ones.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: BTreeMap<String, Identity>,
    open: BTreeMap<String, Query>,
}

#[derive(Debug)]
struct Query {
    at: Time,
    pause: Time,
}

/// Interval at which a name is read again that its runtime can change.
const RENAMED: Time = Time::from_secs(30);
/// The first pause before a name is read again. A runtime writes its files at about the time at
/// which it creates the cgroup.
const FIRST_PAUSE: Time = Time::from_millis(500);
const MAX_PAUSE: Time = Time::from_secs(60);

impl Names {
    /// Returns the identity of a cgroup.
    pub(super) fn of(&self, cgroup: &str) -> Option<&Identity> {
        self.known.get(cgroup)
    }

    /// Notes a new cgroup, which may have replaced one of the same path.
    pub(super) fn appeared(&mut self, now: Time, cgroup: &str) {
        self.known.remove(cgroup);
        if Reference::of(cgroup).is_some() {
            let open = Query {
                at: now,
                pause: FIRST_PAUSE,
            };
            self.open.insert(cgroup.into(), open);
        }
    }

    /// Forgets a cgroup that is gone.
    pub(super) fn forget(&mut self, cgroup: &str) {
        self.known.remove(cgroup);
        self.open.remove(cgroup);
    }

    /// Forgets cgroups that are gone.
    pub(super) fn retain(&mut self, cgroups: &Cgroups) {
        self.known.retain(|cgroup, _| cgroups.contains_key(cgroup));
        self.open.retain(|cgroup, _| cgroups.contains_key(cgroup));
    }

    /// Asks about all cgroups at once, because a new file may have other places of the runtimes'
    /// files, or ask for other annotations.
    pub(super) fn ask_again(&mut self, now: Time) {
        let cgroups = self.known.keys().chain(self.open.keys());
        let open = |cgroup: &String| {
            let pause = FIRST_PAUSE;
            (cgroup.clone(), Query { at: now, pause })
        };
        self.open = cgroups.map(open).collect();
    }

    /// Returns the cgroups to ask about now.
    pub(super) fn due(&self, now: Time) -> Vec<String> {
        let due = self.open.iter().filter(|(_, open)| open.at <= now);
        due.map(|(cgroup, _)| cgroup.clone()).collect()
    }

    /// Returns the time of the next question.
    pub(super) fn next(&self) -> Option<Time> {
        self.open.values().map(|open| open.at).min()
    }

    /// Handles answers. Without an answer, a known identity stays.
    pub(super) fn identified(
        &mut self,
        now: Time,
        answers: BTreeMap<String, Option<Identity>>,
    ) -> NameChange {
        let mut news = NameChange::None;
        for (cgroup, identity) in answers {
            let Some(open) = self.open.get_mut(&cgroup) else {
                continue;
            };
            let Some(identity) = identity else {
                let pause = match self.known.contains_key(&cgroup) {
                    true => RENAMED,
                    false => open.pause,
                };
                open.at = now.saturating_add(pause);
                open.pause = (open.pause * 2).min(MAX_PAUSE);
                continue;
            };
            match identity.runtime.renames() {
                true => open.at = now.saturating_add(RENAMED),
                false => drop(self.open.remove(&cgroup)),
            }
            if self.known.get(&cgroup) != Some(&identity) {
                let before = self.known.insert(cgroup, identity);
                news = news.max(match before {
                    Some(_) => NameChange::Renamed,
                    None => NameChange::Named,
                });
            }
        }
        news
    }
}

/// Result of asking for names.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum NameChange {
    /// The answers change no name.
    None,
    /// Containers have names that had none.
    Named,
    /// Containers have other names than before.
    Renamed,
}
