// SPDX-License-Identifier: GPL-2.0-only

//! Which limits of a cgroup are policyd's.
//!
//! Others write to the same files: systemd, container runtimes, administrators. What was set is
//! compared with what the files say at each look. A file that was changed since is left to those
//! who changed it, until it says again what policyd set, or until the configuration is read again.
//! Nor is a limit loosened that was there before: a stricter one stays.

use super::memory::Limits;
use tracing::{info, warn};

/// The limits of a cgroup that policyd set, or may have set.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// The cgroup's number.
    pub(super) id: u64,
    /// What was set last.
    pub(super) set: Limits,
    /// Whether that is known: a job that failed may have set a part of what it was to set.
    pub(super) is_known: bool,
    /// What the files said before that policyd set.
    before: Limits,
    /// What the files say that others changed since.
    pub(super) foreign: Limits,
    /// The configuration was read again: files that others changed are taken over.
    pub(super) anew: bool,
}

impl Claim {
    /// Nothing is set yet; the files say this.
    pub(super) fn new(id: u64, found: Limits) -> Self {
        Self {
            id,
            set: Limits::default(),
            is_known: true,
            before: found,
            foreign: Limits::default(),
            anew: false,
        }
    }

    /// Takes in what the files say, where they were read.
    pub(super) fn observe(&mut self, cgroup: &str, found: &Limits) {
        if !self.is_known {
            return;
        }
        for (file, of) in FILES {
            let mut said = *found;
            let (set, found) = (*of(&mut self.set), *of(&mut said));
            let Some(found) = found else { continue };
            let is_ours = set.is_some_and(|set| set == found || is_rounded(set, found));
            if set.is_none() || (!is_ours && self.anew) {
                *of(&mut self.before) = Some(found);
            }
            let foreign = of(&mut self.foreign);
            let was = foreign.is_some();
            *foreign = Some(found).filter(|_| set.is_some() && !is_ours && !self.anew);
            match (was, foreign.is_some()) {
                (false, true) => warn!(
                    cgroup,
                    file, found, "changed by others: left to them until changed back, or a reload"
                ),
                (true, false) => info!(cgroup, file, "changed back"),
                _ => {}
            }
        }
    }

    /// What to set of what is wanted.
    pub(super) fn wish(&self, wanted: &Limits) -> Limits {
        let (set, foreign, before) = (&self.set, &self.foreign, &self.before);
        let stricter = |wanted: Option<u64>, before: Option<u64>| {
            wanted.filter(|wanted| before.is_none_or(|before| *wanted < before))
        };
        let more = |wanted: Option<u64>, before: Option<u64>| {
            wanted.filter(|wanted| before.is_none_or(|before| *wanted > before))
        };
        let or_set = |foreign: Option<u64>, set: Option<u64>, wanted: Option<u64>| {
            if foreign.is_some() { set } else { wanted }
        };
        Limits {
            low: or_set(foreign.low, set.low, more(wanted.low, before.low)),
            high: or_set(foreign.high, set.high, stricter(wanted.high, before.high)),
            max: or_set(foreign.max, set.max, stricter(wanted.max, before.max)),
        }
    }

    /// Whether a job is needed for a wish.
    pub(super) fn needs(&self, wish: &Limits) -> bool {
        self.anew || !self.is_known || self.set != *wish
    }

    /// What is in force of what was set.
    pub(super) fn in_force(&self) -> Limits {
        let ours = |foreign: Option<u64>, set: Option<u64>| {
            set.filter(|_| self.is_known && foreign.is_none())
        };
        Limits {
            low: ours(self.foreign.low, self.set.low),
            high: ours(self.foreign.high, self.set.high),
            max: ours(self.foreign.max, self.set.max),
        }
    }

    /// What `memory.low` says now.
    pub(super) fn low(&self) -> Option<u64> {
        let found = self.before.low.filter(|low| *low > 0);
        self.foreign.low.or(self.set.low).or(found)
    }

    /// The configuration was read again.
    pub(super) fn reload(&mut self) {
        (self.anew, self.foreign) = (true, Limits::default());
    }
}

type Of = fn(&mut Limits) -> &mut Option<u64>;

/// The files of limits.
const FILES: [(&str, Of); 3] = [
    ("memory.low", |limits| &mut limits.low),
    ("memory.high", |limits| &mut limits.high),
    ("memory.max", |limits| &mut limits.max),
];

/// Whether a file says this after a value was written to it: the kernel counts in whole pages, and
/// more than it can count is no limit (`u64::MAX`).
pub(crate) fn is_rounded(value: u64, now: u64) -> bool {
    const PAGES: [u64; 3] = [4 << 10, 16 << 10, 64 << 10];
    if now == u64::MAX {
        return i64::try_from(value).is_err();
    }
    PAGES.iter().any(|page| now == value / page * page)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: u64 = u64::MAX;

    fn high(bytes: u64) -> Limits {
        Limits {
            high: Some(bytes),
            ..Limits::default()
        }
    }

    #[test]
    fn what_others_change_is_theirs_until_it_is_changed_back() {
        let mut claim = Claim::new(1, high(NONE));
        claim.set = high(8192);
        claim.observe("/web", &high(8192));
        assert_eq!(claim.wish(&high(4096)), high(4096));
        claim.observe("/web", &high(9000));
        assert_eq!(
            (claim.in_force(), claim.foreign),
            (Limits::default(), high(9000))
        );
        assert!(!claim.needs(&claim.wish(&high(4096))));
        // Not read this time: nothing is known.
        claim.observe("/web", &Limits::default());
        assert_eq!(claim.foreign, high(9000));
        claim.observe("/web", &high(8192));
        assert!(claim.needs(&claim.wish(&high(4096))));
        assert_eq!(claim.in_force(), high(8192));
    }

    #[test]
    fn a_reload_takes_over_what_is_looser_only() {
        for (theirs, wish) in [(9000, high(4096)), (2048, Limits::default())] {
            let mut claim = Claim::new(1, high(NONE));
            claim.set = high(8192);
            claim.observe("/web", &high(theirs));
            claim.reload();
            claim.observe("/web", &high(theirs));
            assert_eq!(claim.wish(&high(4096)), wish);
            assert!(claim.needs(&wish));
        }
    }

    #[test]
    fn a_stricter_limit_stays() {
        let found = Limits {
            low: Some(100),
            high: Some(4096),
            max: Some(NONE),
        };
        let claim = Claim::new(1, found);
        let wanted = Limits {
            low: Some(50),
            high: Some(5000),
            max: Some(9000),
        };
        let wish = claim.wish(&wanted);
        assert_eq!((wish.low, wish.high, wish.max), (None, None, Some(9000)));
    }

    #[test]
    fn the_kernel_counts_in_pages() {
        assert!(is_rounded(5000, 4096) && is_rounded(70_000, 65_536) && is_rounded(NONE, NONE));
        for (value, now) in [(5000, 8192), (99_999_999, 4096), (5000, NONE), (8192, 6000)] {
            assert!(!is_rounded(value, now), "{value} {now}");
        }
    }
}
