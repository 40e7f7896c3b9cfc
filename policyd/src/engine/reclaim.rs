// SPDX-License-Identifier: GPL-2.0-only

//! Proportional reclaim under memory pressure (thesis, chapter 4).
//!
//! The kernel reclaims wherever it finds pages first. Here each chunk is taken from the container
//! that exceeds its proportional share most (equations 4.1 to 4.4), so that the ratios of the
//! weights hold while memory shrinks. Classes come before proportions: a higher class gives only
//! when the lower ones have nothing left.

use crate::config::Priority;

/// A container that takes part.
#[derive(Clone, Debug)]
pub(super) struct ReclaimCandidate {
    pub(super) cgroup: String,
    pub(super) rank: Priority,
    pub(super) weight: u32,
    /// Bytes it uses.
    pub(super) usage: u64,
    /// Bytes that it keeps, because they cannot or must not be reclaimed.
    pub(super) least: u64,
}

/// Returns the containers to reclaim `amount` bytes from in chunks, and the bytes. Chunks of one
/// container are merged, in the order in which the containers were first chosen.
pub(super) fn victims(
    mut candidates: Vec<ReclaimCandidate>,
    amount: u64,
    chunk: u64,
) -> Vec<(String, u64)> {
    let mut taken: Vec<(String, u64)> = Vec::new();
    let mut left = amount;
    while left > 0 {
        let Some(victim) = victim(&mut candidates) else {
            break;
        };
        let bytes = chunk.min(left).min(victim.usage - victim.least);
        victim.usage -= bytes;
        left -= bytes;
        match taken
            .iter_mut()
            .find(|(cgroup, _)| *cgroup == victim.cgroup)
        {
            Some((_, sum)) => *sum += bytes,
            None => taken.push((victim.cgroup.clone(), bytes)),
        }
    }
    taken
}

/// Returns the container that exceeds its share most, among those of the lowest class that has
/// anything left.
fn victim(candidates: &mut [ReclaimCandidate]) -> Option<&mut ReclaimCandidate> {
    let rank = candidates
        .iter()
        .filter(|one| one.usage > one.least)
        .map(|one| one.rank)
        .min()?;
    let peers = || candidates.iter().filter(|one| one.rank == rank);
    let usage: u128 = peers().map(|one| u128::from(one.usage)).sum();
    let weights: u128 = peers().map(|one| u128::from(one.weight)).sum();
    // EX = U − T_U · W / T_W, in integers.
    let excess = |one: &ReclaimCandidate| {
        let share = usage * u128::from(one.weight) / weights.max(1);
        i128::from(one.usage) - i128::try_from(share).unwrap_or(i128::MAX)
    };
    let at = (0..candidates.len())
        .filter(|at| candidates[*at].rank == rank && candidates[*at].usage > candidates[*at].least)
        .max_by_key(|at| (excess(&candidates[*at]), std::cmp::Reverse(*at)))?;
    candidates.get_mut(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;
    const CHUNK: u64 = 50 * MIB;

    fn one(cgroup: &str, rank: Priority, weight: u32, mib: u64) -> ReclaimCandidate {
        ReclaimCandidate {
            cgroup: cgroup.into(),
            rank,
            weight,
            usage: mib * MIB,
            least: 16 * MIB,
        }
    }

    #[test]
    fn the_thesis_example() {
        // With weights 1:2 and a usage of 2 GB and 4 GB, 1 GB is reclaimed. The ratio 1:2 must hold
        // afterwards.
        let both = [("low", 1, 2000), ("high", 2, 4000)];
        let both = both.map(|(name, weight, mib)| one(name, Priority::SILVER, weight, mib));
        let taken = victims(both.to_vec(), 1000 * MIB, CHUNK);
        let of = |name: &str| {
            taken
                .iter()
                .find(|one| one.0 == name)
                .map_or(0, |one| one.1)
        };
        let ratio = (4000 * MIB - of("high")) as f64 / (2000 * MIB - of("low")) as f64;
        assert!((ratio - 2.0).abs() < 0.06, "{ratio}");
        assert_eq!(of("high") + of("low"), 1000 * MIB);
    }

    #[test]
    fn gold_is_spared_until_the_others_are_empty() {
        let both = vec![
            one("gold", Priority::GOLD, 1, 4000),
            one("silver", Priority::SILVER, 1000, 1000),
        ];
        let taken = victims(both.clone(), 900 * MIB, CHUNK);
        assert_eq!(taken, [("silver".into(), 900 * MIB)]);
        let taken = victims(both, 1084 * MIB, CHUNK);
        assert_eq!(
            taken,
            [("silver".into(), 984 * MIB), ("gold".into(), 100 * MIB)]
        );
    }

    #[test]
    fn nothing_is_reclaimed_from_empty_containers() {
        assert!(victims(Vec::new(), MIB, CHUNK).is_empty());
        let empty = vec![one("a", Priority::GOLD, 0, 16)];
        assert!(victims(empty, MIB, CHUNK).is_empty());
    }

    proptest! {
        #[test]
        fn proportions_hold_while_memory_shrinks(
            weights in prop::collection::vec(1..10u32, 2..8),
            unit in 400..800u64,
            part in 0.1..0.8f64,
        ) {
            let all: Vec<ReclaimCandidate> = weights
                .iter()
                .enumerate()
                .map(|(at, weight)| {
                    let mib = u64::from(*weight) * unit;
                    one(&at.to_string(), Priority::SILVER, *weight, mib)
                })
                .collect();
            let sum: u64 = all.iter().map(|one| one.usage).sum();
            let amount = (sum as f64 * part) as u64;
            let taken = victims(all.clone(), amount, CHUNK);
            let left = (sum - amount) as f64;
            let total: u32 = weights.iter().sum();
            for one in &all {
                let took = taken.iter().find(|t| t.0 == one.cgroup).map_or(0, |t| t.1);
                let fair = left * f64::from(one.weight) / f64::from(total);
                let off = ((one.usage - took) as f64 - fair).abs();
                prop_assert!(off <= 2.0 * CHUNK as f64, "{off}");
            }
        }
    }
}
