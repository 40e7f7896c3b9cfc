// SPDX-License-Identifier: GPL-2.0-only

//! What a file asks for in vain: floors that exceed the VM's share, and targets that cannot be met.

use super::{
    report::{Report, size},
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
        let hopeless = self.containers.iter().filter(|one| one.verdict.is_final());
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

impl Verdict {
    /// Returns whether a target is missed, and neither time nor the daemon can help it.
    const fn is_final(self) -> bool {
        matches!(self, Self::Infeasible | Self::Ceiling | Self::NoStore)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns the report on a container with this verdict.
    fn report(verdict: &str) -> Report {
        let memory = json!({ "total_bytes": 1, "available_bytes": 1, "pressure_percent": null,
            "reclaimed_bytes": 0, "offloaded_bytes": 0 });
        let container = json!({ "cgroup": "/web\u{1b}", "name": "web", "class": "gold",
            "enrolled": true, "verdict": verdict, "reason": "why", "weight": 1,
            "character": "file", "goals": [], "memory_bytes": 1, "anon_bytes": 1, "limits": {} });
        let report = json!({ "module": true, "memory": memory, "containers": [container] });
        serde_json::from_value(report).unwrap()
    }

    #[test]
    fn verdicts_that_need_an_administrator_are_errors() {
        for verdict in ["infeasible", "ceiling", "no_store"] {
            let unmet = report(verdict).fulfilled().unwrap_err().to_string();
            assert_eq!(unmet, "container `web` (/web\\u{1b}): why", "{verdict}");
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
