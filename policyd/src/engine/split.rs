// SPDX-License-Identifier: GPL-2.0-only

//! Dividing the store: all targets if that is possible, else by class, then fairly.
//!
//! Every claim says how many pages it needs for a cost. The split looks for one cost level that
//! all can reach: the wanted margin, at most the target itself. If there is none, classes are
//! served one after the other, and within the class that cannot be served whole every container
//! misses its target by the same factor.

use super::quantity::{Cost, Pages};
use crate::config::Priority;

/// What a container asks for.
pub(super) struct Demand<'a> {
    pub(super) rank: Priority,
    /// What it gets in any case.
    pub(super) floor: Pages,
    /// What it never exceeds.
    pub(super) ceiling: Pages,
    /// What it needs for a cost, if it has a target; falls with the cost.
    pub(super) need: Option<Need<'a>>,
}

/// Returns the size that keeps a container's cost within a given one.
pub(super) type Need<'a> = Box<dyn Fn(Cost) -> Pages + 'a>;

/// How the store is divided, before what is left over is given away.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Split {
    /// What each demand gets, in order.
    pub(super) sizes: Vec<Pages>,
    /// The cost each demand can be served at; `None` without a target.
    pub(super) levels: Vec<Option<Cost>>,
    /// Whether all targets can be met.
    pub(super) feasible: bool,
}

/// The worst level that is looked at: a thousand times worse than the target.
const WORST: Cost = Cost(7.0);
/// Halvings until a level is known well enough.
const HALVINGS: u32 = 40;

/// Divides `pages` between demands; `margin` is how much better than its target each shall be.
pub(super) fn split(pages: Pages, demands: &[Demand<'_>], margin: f64) -> Split {
    let best = Cost(-margin);
    let mut draft = Draft::of_floors(pages, demands);
    let asking = draft.asking();
    let feasible = draft.extra(&asking, Cost::TARGET) <= draft.left;
    if feasible {
        draft.serve(&asking, best, Cost::TARGET);
    } else {
        for peers in draft.by_rank(&asking) {
            draft.serve(&peers, best, WORST);
        }
        draft.shrink_to(pages);
    }
    Split {
        sizes: draft.sizes,
        levels: draft.levels,
        feasible,
    }
}

/// A division that is being made. Demands are known by their places.
struct Draft<'a> {
    demands: &'a [Demand<'a>],
    floors: Vec<Pages>,
    sizes: Vec<Pages>,
    levels: Vec<Option<Cost>>,
    /// Pages that no demand has got yet.
    left: Pages,
}

impl<'a> Draft<'a> {
    /// Each demand gets its floor, and nothing more yet.
    fn of_floors(pages: Pages, demands: &'a [Demand<'a>]) -> Self {
        let floors = floors(pages, demands);
        Self {
            demands,
            sizes: floors.clone(),
            levels: vec![None; demands.len()],
            left: pages - floors.iter().copied().sum(),
            floors,
        }
    }

    /// The demands that have a target.
    fn asking(&self) -> Vec<usize> {
        (0..self.demands.len())
            .filter(|at| self.demands[*at].need.is_some())
            .collect()
    }

    /// Some demands by rank, the highest first.
    fn by_rank(&self, some: &[usize]) -> Vec<Vec<usize>> {
        let rank = |at: &usize| self.demands[*at].rank;
        let mut ranks: Vec<Priority> = some.iter().map(rank).collect();
        ranks.sort_unstable_by(|a, b| b.cmp(a));
        ranks.dedup();
        let peers = |of: Priority| some.iter().copied().filter(move |at| rank(at) == of);
        ranks.into_iter().map(|of| peers(of).collect()).collect()
    }

    /// What a demand needs for a cost, within its bounds.
    fn need(&self, at: usize, cost: Cost) -> Pages {
        let demand = &self.demands[at];
        let need = demand.need.as_ref();
        need.map_or(Pages::ZERO, |need| need(cost))
            .min(demand.ceiling)
            .max(self.floors[at])
    }

    /// What some demands need beyond their floors for a cost.
    fn extra(&self, some: &[usize], cost: Cost) -> Pages {
        let extra = |at: &usize| self.need(*at, cost) - self.floors[*at];
        some.iter().map(extra).sum()
    }

    /// Serves some demands alike, at the lowest cost between two that what is left allows.
    fn serve(&mut self, some: &[usize], best: Cost, worst: Cost) {
        let level = lowest(best, worst, |cost| self.extra(some, cost) <= self.left);
        for at in some {
            self.sizes[*at] = self.need(*at, level);
            self.levels[*at] = Some(level);
            self.left -= self.sizes[*at] - self.floors[*at];
        }
        self.left = self.left.max(Pages::ZERO);
    }

    /// What the worst level still asks for may be more than there is: all get a part of it.
    fn shrink_to(&mut self, pages: Pages) {
        let given: Pages = self.sizes.iter().copied().sum();
        if given > pages && given > Pages::ZERO {
            for size in &mut self.sizes {
                *size = *size * (pages / given);
            }
        }
    }
}

/// The floors, made smaller if there is less than all of them.
fn floors(pages: Pages, demands: &[Demand<'_>]) -> Vec<Pages> {
    let floors: Vec<Pages> = demands
        .iter()
        .map(|demand| demand.floor.min(demand.ceiling))
        .collect();
    let sum: Pages = floors.iter().copied().sum();
    let fits = if sum > pages { pages / sum } else { 1.0 };
    floors.into_iter().map(|floor| floor * fits).collect()
}

/// The lowest cost between two that fits; the worst one if none does.
fn lowest(best: Cost, worst: Cost, fits: impl Fn(Cost) -> bool) -> Cost {
    if fits(best) {
        return best;
    }
    let (mut low, mut high) = (best, worst);
    for _ in 0..HALVINGS {
        let middle = Cost(f64::midpoint(low.0, high.0));
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
    fn demand<'a>(rank: Priority, enough: f64) -> Demand<'a> {
        Demand {
            rank,
            floor: Pages(1.0),
            ceiling: Pages(1e9),
            need: Some(Box::new(move |cost: Cost| Pages(enough / cost.times()))),
        }
    }

    fn sum(split: &Split) -> f64 {
        split.sizes.iter().map(|size| size.0).sum()
    }

    #[test]
    fn all_targets_are_met_if_they_can_be() {
        let demands = [
            demand(Priority::BRONZE, 300.0),
            demand(Priority::GOLD, 500.0),
        ];
        let split = split(Pages(1000.0), &demands, 0.1);
        assert!(split.feasible);
        assert!(split.sizes[0].0 > 330.0 && split.sizes[1].0 > 550.0);
        assert!(sum(&split) < 1000.0);
    }

    #[test]
    fn margins_shrink_before_targets_are_missed() {
        let demands = [
            demand(Priority::BRONZE, 480.0),
            demand(Priority::GOLD, 500.0),
        ];
        let split = split(Pages(1000.0), &demands, 0.1);
        assert!(split.feasible && sum(&split) > 999.0);
        assert!(split.sizes[0].0 >= 480.0 && split.sizes[1].0 >= 500.0);
    }

    #[test]
    fn classes_come_first_and_then_fairness() {
        let demands = [
            demand(Priority::BRONZE, 400.0),
            demand(Priority::GOLD, 600.0),
            demand(Priority::BRONZE, 800.0),
        ];
        let split = split(Pages(1000.0), &demands, 0.0);
        assert!(!split.feasible);
        assert!((split.sizes[1].0 - 600.0).abs() < 1.0);
        assert!((split.sizes[2].0 / split.sizes[0].0 - 2.0).abs() < 0.05);
    }

    fn demands_of(seen: &[(u32, f64, f64, f64)]) -> Vec<Demand<'_>> {
        let of = |one: &(u32, f64, f64, f64)| {
            let (rank, enough, floor, ceiling) = *one;
            Demand {
                floor: Pages(floor),
                ceiling: Pages(floor + ceiling),
                ..demand(Priority(rank), enough)
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
            let before = split(Pages(pages), &demands_of(&seen), 0.05);
            prop_assert!(sum(&before) <= pages * (1.0 + 1e-9));
            for (Pages(size), (_, _, floor, ceiling)) in before.sizes.iter().zip(&seen) {
                prop_assert!(*size >= -1e-9 && *size <= floor + ceiling + 1e-9);
            }
            let lifted = lifted % seen.len();
            let mut other = seen.clone();
            other[lifted].0 += 2;
            let after = split(Pages(pages), &demands_of(&other), 0.05);
            prop_assert!(after.sizes[lifted].0 >= before.sizes[lifted].0 * (1.0 - 1e-6));
        }
    }
}
