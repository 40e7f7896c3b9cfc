// SPDX-License-Identifier: GPL-2.0-only

//! Effective protection by `memory.low`.
//!
//! The protection of a cgroup is limited by that of each ancestor, and the descendants of an
//! ancestor share its protection in proportion to their claims. `system.slice`, `machine.slice` and
//! `kubepods.slice` have none unless an administrator sets it.

use super::nest::ancestors;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The reason why less is protected than the `memory.low` of a container.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Protection {
    /// Bytes that are protected.
    pub bytes: u64,
    /// The ancestor that has too little.
    pub ancestor: String,
    /// The `memory.low` of the ancestor in bytes.
    pub has: u64,
    /// The sum of the claims of the containers below it, in bytes.
    pub needs: u64,
}

/// Returns the containers whose protection is below their claim. `claims` has their `memory.low`,
/// and `lows` that of their ancestors.
pub(super) fn lacking(
    claims: &BTreeMap<&str, u64>,
    lows: &BTreeMap<String, u64>,
) -> BTreeMap<String, Protection> {
    let mut needs: BTreeMap<&str, u64> = BTreeMap::new();
    for (cgroup, low) in claims {
        // Goes from the innermost ancestor outwards, up to the next container with a claim, whose
        // protection its descendants share.
        let outer: Vec<&str> = ancestors(cgroup).collect();
        for ancestor in outer.into_iter().rev() {
            let sum = needs.entry(ancestor).or_default();
            *sum = sum.saturating_add(*low);
            if claims.contains_key(ancestor) {
                break;
            }
        }
    }
    let of = |cgroup: &str, low: u64| {
        let held = |ancestor: &str| {
            let (has, needs) = (*lows.get(ancestor)?, *needs.get(ancestor)?);
            let part = u128::from(low) * u128::from(has) / u128::from(needs.max(1));
            Some(Protection {
                bytes: u64::try_from(part).unwrap_or(u64::MAX).min(low),
                ancestor: ancestor.to_owned(),
                has,
                needs,
            })
        };
        let least = ancestors(cgroup).filter_map(held);
        least
            .min_by_key(|found| found.bytes)
            .filter(|found| found.bytes < low)
    };
    let lacking = |(cgroup, low): (&&str, &u64)| Some(((*cgroup).to_owned(), of(cgroup, *low)?));
    claims.iter().filter_map(lacking).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(claims: &[(&'static str, u64)], lows: &[(&str, u64)]) -> Vec<(String, u64, String)> {
        let lows = lows
            .iter()
            .map(|(cgroup, low)| ((*cgroup).to_owned(), *low));
        lacking(&claims.iter().copied().collect(), &lows.collect())
            .into_iter()
            .map(|(cgroup, found)| (cgroup, found.bytes, found.ancestor))
            .collect()
    }

    #[test]
    fn ancestors_bound_the_protection() {
        assert_eq!(found(&[("/a", 100)], &[]), []);
        let without = found(&[("/a.slice/b", 100)], &[("/a.slice", 0)]);
        assert_eq!(without, [("/a.slice/b".into(), 0, "/a.slice".into())]);
        assert_eq!(found(&[("/a.slice/b", 100)], &[("/a.slice", u64::MAX)]), []);
        let outer = [("/a.slice", 500), ("/a.slice/b.slice", 40)];
        let partly = found(&[("/a.slice/b.slice/c", 100)], &outer);
        assert_eq!(
            partly,
            [("/a.slice/b.slice/c".into(), 40, "/a.slice/b.slice".into())]
        );
    }

    #[test]
    fn descendants_share_the_protection_of_an_ancestor() {
        let claims = [("/a.slice/b", 300), ("/a.slice/c", 100)];
        let shared = found(&claims, &[("/a.slice", 200)]);
        let bytes: Vec<u64> = shared.iter().map(|found| found.1).collect();
        assert_eq!(bytes, [150, 50]);
        assert_eq!(found(&claims, &[("/a.slice", 400)]), []);
        // A nested container has a part of the outer one's claim.
        let nested = [("/a.slice/b", 300), ("/a.slice/b/c", 100)];
        let lows = [("/a.slice", 300), ("/a.slice/b", 300)];
        assert_eq!(found(&nested, &lows), []);
    }
}
