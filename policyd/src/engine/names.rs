// SPDX-License-Identifier: GPL-2.0

//! Who the cgroups are, as far as their runtimes said.

use super::{Cgroups, Time};
use crate::discovery::{Identity, Reference};
use std::collections::BTreeMap;

/// Identities of cgroups, and when to ask for those that are not known.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: BTreeMap<String, Identity>,
    open: BTreeMap<String, Open>,
}

#[derive(Debug)]
struct Open {
    at: Time,
    pause: Time,
}

/// A runtime writes its files about when it makes the cgroup.
const FIRST_PAUSE: Time = Time::from_millis(500);
const LONGEST_PAUSE: Time = Time::from_secs(60);

impl Names {
    /// Who a cgroup is.
    pub(super) fn of(&self, cgroup: &str) -> Option<&Identity> {
        self.known.get(cgroup)
    }

    /// A cgroup was made, maybe in the place of another.
    pub(super) fn appeared(&mut self, now: Time, cgroup: &str) {
        self.known.remove(cgroup);
        if Reference::of(cgroup).is_some() {
            let open = Open {
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

    /// The cgroups to ask about now.
    pub(super) fn due(&self, now: Time) -> Vec<String> {
        let due = self.open.iter().filter(|(_, open)| open.at <= now);
        due.map(|(cgroup, _)| cgroup.clone()).collect()
    }

    /// When to ask next.
    pub(super) fn next(&self) -> Option<Time> {
        self.open.values().map(|open| open.at).min()
    }

    /// Takes in answers. Answers whether any is news.
    pub(super) fn identified(
        &mut self,
        now: Time,
        answers: BTreeMap<String, Option<Identity>>,
    ) -> bool {
        let mut news = false;
        for (cgroup, identity) in answers {
            let Some(open) = self.open.get_mut(&cgroup) else {
                continue;
            };
            match identity {
                Some(identity) => {
                    self.open.remove(&cgroup);
                    self.known.insert(cgroup, identity);
                    news = true;
                }
                None => {
                    open.at = now.saturating_add(open.pause);
                    open.pause = (open.pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
        news
    }
}
