// SPDX-License-Identifier: GPL-2.0-only

//! Tells which limits of a cgroup policyd may set.
//!
//! Others write to the same files: systemd, container runtimes, administrators. Each measurement
//! compares the files with the values that policyd set. A file that was changed since is left alone
//! until it has policyd's value again, or until the configuration is read again. A limit that
//! existed before is never loosened: the stricter one stays.

use super::memory::Limits;
use tracing::{info, warn};

/// The limits of a cgroup that policyd has set, or may have set.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// The cgroup's id.
    pub(super) id: u64,
    /// The limits that were set last.
    pub(super) set: Limits,
    /// Whether these are in force for certain. A job that failed may have set some of its limits.
    pub(super) is_known: bool,
    /// The values of the files before policyd set them.
    before: Limits,
    /// The values of files that others have changed since.
    pub(super) foreign: Limits,
    /// Set after the configuration was read again: files that others changed are taken over.
    pub(super) take_over: bool,
}

impl Claim {
    /// Creates the claim on a cgroup in which nothing is set yet. `found` are the values of its
    /// files.
    pub(super) fn new(id: u64, found: Limits) -> Self {
        Self {
            id,
            set: Limits::default(),
            is_known: true,
            before: found,
            foreign: Limits::default(),
            take_over: false,
        }
    }

    /// Compares with the values of those files that were read.
    pub(super) fn observe(&mut self, cgroup: &str, found: &Limits) {
        if !self.is_known {
            return;
        }
        for (file, of) in FILES {
            let mut said = *found;
            let (set, found) = (*of(&mut self.set), *of(&mut said));
            let Some(found) = found else { continue };
            let is_ours = set.is_some_and(|set| set == found || is_rounded(set, found));
            if set.is_none() || (!is_ours && self.take_over) {
                *of(&mut self.before) = Some(found);
            }
            let foreign = of(&mut self.foreign);
            let was = foreign.is_some();
            *foreign = Some(found).filter(|_| set.is_some() && !is_ours && !self.take_over);
            match (was, foreign.is_some()) {
                (false, true) => warn!(
                    cgroup,
                    file, found, "changed by others: not written until changed back, or a reload"
                ),
                (true, false) => info!(cgroup, file, "changed back"),
                _ => {}
            }
        }
    }

    /// Returns those of the wanted limits that policyd may set.
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

    /// Returns whether a job is needed for limits of [`Self::wish`].
    pub(super) fn needs(&self, wish: &Limits) -> bool {
        self.take_over || !self.is_known || self.set != *wish
    }

    /// Returns those limits of policyd that are in force.
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

    /// Returns the current value of `memory.low`.
    pub(super) fn low(&self) -> Option<u64> {
        let found = self.before.low.filter(|low| *low > 0);
        self.foreign.low.or(self.set.low).or(found)
    }

    /// Notes that the configuration was read again.
    pub(super) fn reload(&mut self) {
        (self.take_over, self.foreign) = (true, Limits::default());
    }
}

type Getter = fn(&mut Limits) -> &mut Option<u64>;

/// The files of limits.
const FILES: [(&str, Getter); 3] = [
    ("memory.low", |limits| &mut limits.low),
    ("memory.high", |limits| &mut limits.high),
    ("memory.max", |limits| &mut limits.max),
];

/// Returns whether a file can have the value `now` after `value` was written to it. The kernel
/// rounds to whole pages, and takes more than it can count as no limit (`u64::MAX`).
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
    fn files_that_others_changed_are_left_alone_until_changed_back() {
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
        // The files were not read this time, so that nothing is known.
        claim.observe("/web", &Limits::default());
        assert_eq!(claim.foreign, high(9000));
        claim.observe("/web", &high(8192));
        assert!(claim.needs(&claim.wish(&high(4096))));
        assert_eq!(claim.in_force(), high(8192));
    }

    #[test]
    fn a_reload_takes_over_only_looser_limits() {
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
