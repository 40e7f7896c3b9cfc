// SPDX-License-Identifier: GPL-2.0-only

//! Finds demands of a file that cannot be met: floors that exceed the VM's share, and targets that
//! are out of reach.

use super::{
    report::{Explanation, Report, size},
    ruling::Verdict,
};
use ddnl::{Kind, ProgramError, printable};

/// The share is known up to this part of it, because entitlements are rounded to pages.
const ROUNDING: u64 = 1000;

impl Report {
    /// Returns an error if floors exceed the VM's share together, or if targets cannot be met until
    /// the VM gets more, or the file asks for less. It has a line for each of them.
    pub fn fulfilled(&self) -> Result<(), ProgramError> {
        let mut unmet: Vec<String> = self.excess_of_floors().into_iter().collect();
        let hopeless = self.containers.iter().filter(|one| one.is_hopeless());
        unmet.extend(hopeless.map(|one| {
            let (name, cgroup) = (printable(&one.name), printable(&one.cgroup));
            format!("container `{name}` ({cgroup}): {}", one.reason)
        }));
        match unmet.is_empty() {
            true => Ok(()),
            false => Err(ProgramError::new(Kind::Unmet, unmet.join("\n"))),
        }
    }

    /// Describes floors that exceed the VM's share together.
    pub(super) fn excess_of_floors(&self) -> Option<String> {
        let (floors, share) = self.floors_bytes.zip(self.store_bytes)?;
        (floors > share.saturating_add(share / ROUNDING)).then(|| {
            format!(
                "`cache_floor` of all containers is {} together, and this VM has {}",
                size(floors),
                size(share)
            )
        })
    }
}

impl Explanation {
    /// Returns whether the target is missed, and neither time nor the daemon can help it.
    const fn is_hopeless(&self) -> bool {
        match self.verdict {
            Verdict::Infeasible | Verdict::Ceiling | Verdict::NoStore => true,
            Verdict::NeedsMemory => !self.manage_memory,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns the report on a container with this verdict, whose memory is managed or not.
    fn report(verdict: &str, manage_memory: bool) -> Report {
        let memory = json!({ "total_bytes": 1, "available_bytes": 1, "pressure_percent": null,
            "reclaimed_bytes": 0, "offloaded_bytes": 0 });
        let container = json!({ "cgroup": "/web\u{1b}", "name": "web", "class": "gold",
            "enrolled": true, "verdict": verdict, "reason": "why", "weight": 1,
            "character": "file", "goals": [], "memory_bytes": 1, "anon_bytes": 1, "limits": {},
            "manage_memory": manage_memory });
        let report = json!({ "module": true, "memory": memory, "containers": [container] });
        serde_json::from_value(report).unwrap()
    }

    #[test]
    fn verdicts_that_need_an_administrator_are_errors() {
        let hopeless = [
            ("infeasible", true),
            ("ceiling", true),
            ("no_store", true),
            ("needs_memory", false),
        ];
        for (verdict, managed) in hopeless {
            let unmet = report(verdict, managed).fulfilled().unwrap_err();
            assert_eq!(unmet.kind(), Some(Kind::Unmet));
            let expected = "container `web` (/web\\u{1b}): why";
            assert_eq!(unmet.message(), expected, "{verdict}");
        }
        for verdict in [
            "best_effort",
            "by_hand",
            "met",
            "growing",
            "not_filled",
            "not_helped",
            "trying",
            "not_asked",
            "needs_memory",
            "unmeasured",
        ] {
            assert!(report(verdict, true).fulfilled().is_ok(), "{verdict}");
        }
    }

    #[test]
    fn floors_above_the_share_are_errors() {
        let fulfilled = |floors, share| {
            let report = Report {
                floors_bytes: floors,
                store_bytes: share,
                ..Report::default()
            };
            report.fulfilled().map_err(|unmet| unmet.to_string())
        };
        let error = "`cache_floor` of all containers is 3.0 GiB together, and this VM has 2.0 GiB";
        assert_eq!(fulfilled(Some(3 << 30), Some(2 << 30)), Err(error.into()));
        assert_eq!(fulfilled(Some(2 << 30), Some(2 << 30)), Ok(()));
        assert_eq!(fulfilled(Some(2 << 30), Some((2 << 30) - 4096)), Ok(()));
        assert_eq!(fulfilled(None, Some(0)), Ok(()));
        assert_eq!(fulfilled(Some(1), None), Ok(()));
    }
}
