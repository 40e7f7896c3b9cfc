// SPDX-License-Identifier: GPL-2.0

//! Dividing the store: all targets if that is possible, else by class, then fairly.
//!
//! Every claim says how many pages it needs for a cost. The split looks for one cost level that
//! all can reach: the wanted margin, at most the target itself. If there is none, classes are
//! served one after the other, and within the class that cannot be served whole every container
//! misses its target by the same factor.

use crate::config::Priority;

/// What a container asks for.
pub(super) struct Claim<'a> {
    pub(super) rank: Priority,
    /// Pages it gets in any case.
    pub(super) floor: f64,
    /// Pages it never exceeds.
    pub(super) ceiling: f64,
    /// Pages for a cost, if it has a target; falls with the cost.
    pub(super) need: Option<Box<dyn Fn(f64) -> f64 + 'a>>,
}

/// How the store is divided, before what is left over is given away.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Split {
    /// Pages of each claim, in order.
    pub(super) sizes: Vec<f64>,
    /// The cost each claim can be served at; `None` without a target.
    pub(super) levels: Vec<Option<f64>>,
    /// Whether all targets can be met.
    pub(super) feasible: bool,
    /// Pages that no container needs.
    pub(super) spare: f64,
}

/// The worst level that is looked at: a thousand times worse than the target.
const WORST: f64 = 7.0;
/// Halvings until a level is known well enough.
const HALVINGS: u32 = 40;

/// Divides `pages` between claims; `margin` is how much better than its target each shall be.
pub(super) fn split(pages: f64, claims: &[Claim<'_>], margin: f64) -> Split {
    let floors = floors(pages, claims);
    let mut sizes = floors.clone();
    let mut levels = vec![None; claims.len()];
    let mut left = pages - floors.iter().sum::<f64>();
    let need = |at: usize, level: f64| {
        let claim = &claims[at];
        let wanted = claim.need.as_ref().map_or(0.0, |need| need(level));
        wanted.min(claim.ceiling).max(floors[at])
    };
    let more = |members: &[usize], level: f64| -> f64 {
        let extra = |at: &usize| need(*at, level) - floors[*at];
        members.iter().map(extra).sum()
    };
    let asking: Vec<usize> = (0..claims.len())
        .filter(|at| claims[*at].need.is_some())
        .collect();
    let mut give = |members: &[usize], level: f64, left: &mut f64| {
        for at in members {
            sizes[*at] = need(*at, level);
            levels[*at] = Some(level);
            *left -= sizes[*at] - floors[*at];
        }
        *left = left.max(0.0);
    };
    let feasible = more(&asking, 0.0) <= left;
    if feasible {
        let level = level(-margin, 0.0, |level| more(&asking, level) <= left);
        give(&asking, level, &mut left);
    } else {
        let mut ranks: Vec<Priority> = asking.iter().map(|at| claims[*at].rank).collect();
        ranks.sort_unstable_by(|a, b| b.cmp(a));
        ranks.dedup();
        for rank in ranks {
            let members: Vec<usize> = asking
                .iter()
                .copied()
                .filter(|at| claims[*at].rank == rank)
                .collect();
            let level = level(-margin, WORST, |level| more(&members, level) <= left);
            give(&members, level, &mut left);
        }
        // What the worst level still asks for is more than there is: all get a part of it.
        let given: f64 = sizes.iter().sum();
        if given > pages && given > 0.0 {
            for size in &mut sizes {
                *size *= pages / given;
            }
        }
    }
    let spare = (pages - sizes.iter().sum::<f64>()).max(0.0);
    Split {
        sizes,
        levels,
        feasible,
        spare,
    }
}

/// The floors, made smaller if there is less than all of them.
fn floors(pages: f64, claims: &[Claim<'_>]) -> Vec<f64> {
    let floors: Vec<f64> = claims
        .iter()
        .map(|claim| claim.floor.min(claim.ceiling))
        .collect();
    let sum: f64 = floors.iter().sum();
    let fits = if sum > pages { pages / sum } else { 1.0 };
    floors.into_iter().map(|floor| floor * fits).collect()
}

/// The lowest level between two that fits; the worst one if none does.
fn level(best: f64, worst: f64, fits: impl Fn(f64) -> bool) -> f64 {
    if fits(best) {
        return best;
    }
    let (mut low, mut high) = (best, worst);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if fits(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A container whose cost falls with the logarithm of its size.
    fn claim<'a>(rank: Priority, enough: f64) -> Claim<'a> {
        Claim {
            rank,
            floor: 1.0,
            ceiling: 1e9,
            need: Some(Box::new(move |cost: f64| enough * (-cost).exp())),
        }
    }

    #[test]
    fn all_targets_are_met_if_they_can_be() {
        let claims = [claim(Priority::BRONZE, 300.0), claim(Priority::GOLD, 500.0)];
        let split = split(1000.0, &claims, 0.1);
        assert!(split.feasible);
        assert!(split.sizes[0] > 330.0 && split.sizes[1] > 550.0);
        assert!((split.sizes.iter().sum::<f64>() + split.spare - 1000.0).abs() < 1e-6);
    }

    #[test]
    fn margins_shrink_before_targets_are_missed() {
        let claims = [claim(Priority::BRONZE, 480.0), claim(Priority::GOLD, 500.0)];
        let split = split(1000.0, &claims, 0.1);
        assert!(split.feasible && split.spare < 1.0);
        assert!(split.sizes[0] >= 480.0 && split.sizes[1] >= 500.0);
    }

    #[test]
    fn classes_come_first_and_then_fairness() {
        let claims = [
            claim(Priority::BRONZE, 400.0),
            claim(Priority::GOLD, 600.0),
            claim(Priority::BRONZE, 800.0),
        ];
        let split = split(1000.0, &claims, 0.0);
        assert!(!split.feasible);
        assert!((split.sizes[1] - 600.0).abs() < 1.0);
        assert!((split.sizes[2] / split.sizes[0] - 2.0).abs() < 0.05);
    }

    fn claims_of(seen: &[(u32, f64, f64, f64)]) -> Vec<Claim<'_>> {
        let of = |one: &(u32, f64, f64, f64)| {
            let (rank, enough, floor, ceiling) = *one;
            Claim {
                floor,
                ceiling: floor + ceiling,
                ..claim(Priority(rank), enough)
            }
        };
        seen.iter().map(of).collect()
    }

    proptest! {
        #[test]
        fn sums_and_bounds_hold_and_rank_helps(
            seen in prop::collection::vec(
                (0..5u32, 1.0..2000.0f64, 0.0..200.0f64, 0.0..2000.0f64), 1..12),
            pages in 10.0..5000.0f64,
            lifted in 0..12usize,
        ) {
            let before = split(pages, &claims_of(&seen), 0.05);
            let sum: f64 = before.sizes.iter().sum();
            prop_assert!(sum <= pages * (1.0 + 1e-9));
            for (size, (_, _, floor, ceiling)) in before.sizes.iter().zip(&seen) {
                prop_assert!(*size >= -1e-9 && *size <= floor + ceiling + 1e-9);
            }
            let lifted = lifted % seen.len();
            let mut other = seen.clone();
            other[lifted].0 += 2;
            let after = split(pages, &claims_of(&other), 0.05);
            prop_assert!(after.sizes[lifted] >= before.sizes[lifted] * (1.0 - 1e-6));
        }
    }
}
