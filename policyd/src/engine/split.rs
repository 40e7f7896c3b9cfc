// SPDX-License-Identifier: GPL-2.0-only

//! Divides the store so that all targets are met if that is possible, and otherwise by class.
//!
//! Each demand has a function from a cost to the pages that it needs for it. The split looks for
//! one cost that all can reach, from the wanted margin up to the target itself. If there is none,
//! classes are served one after the other. In the class that cannot be served completely, all
//! containers miss their targets by the same factor.

use super::quantity::{Cost, Pages};
use crate::config::Priority;

/// The demand of a container.
pub(super) struct Demand<'a> {
    pub(super) rank: Priority,
    /// The pages that it gets in any case.
    pub(super) floor: Pages,
    /// The pages that it never exceeds.
    pub(super) ceiling: Pages,
    /// Its need, if it has a target. It falls with the cost.
    pub(super) need: Option<Need<'a>>,
}

/// Returns the size that keeps a container's cost within a given one.
pub(super) type Need<'a> = Box<dyn Fn(Cost) -> Pages + 'a>;

/// The division of the store, before spare pages are given away.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Split {
    /// The pages of each demand, in order.
    pub(super) sizes: Vec<Pages>,
    /// The cost of each demand; `None` without a target.
    pub(super) levels: Vec<Option<Cost>>,
    /// Whether all targets can be met.
    pub(super) feasible: bool,
}

/// The highest cost that is tried: a thousand times worse than the target.
const WORST: Cost = Cost(7.0);
/// Number of bisections until a cost is exact enough.
const HALVINGS: u32 = 40;

/// Divides `pages` between demands. `margin` is the part by which each shall be better than its
/// target.
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

/// A division under construction. Demands are identified by their indexes.
struct Draft<'a> {
    demands: &'a [Demand<'a>],
    floors: Vec<Pages>,
    sizes: Vec<Pages>,
    levels: Vec<Option<Cost>>,
    /// Pages that are not yet given to a demand.
    left: Pages,
}

impl<'a> Draft<'a> {
    /// Creates a division in which each demand has its floor.
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

    /// Returns the demands that have a target.
    fn asking(&self) -> Vec<usize> {
        (0..self.demands.len())
            .filter(|at| self.demands[*at].need.is_some())
            .collect()
    }

    /// Groups some demands by rank, the highest first.
    fn by_rank(&self, some: &[usize]) -> Vec<Vec<usize>> {
        let rank = |at: &usize| self.demands[*at].rank;
        let mut ranks: Vec<Priority> = some.iter().map(rank).collect();
        ranks.sort_unstable_by(|a, b| b.cmp(a));
        ranks.dedup();
        let peers = |of: Priority| some.iter().copied().filter(move |at| rank(at) == of);
        ranks.into_iter().map(|of| peers(of).collect()).collect()
    }

    /// Returns the pages that a demand needs for a cost, within its bounds.
    fn need(&self, at: usize, cost: Cost) -> Pages {
        let demand = &self.demands[at];
        let need = demand.need.as_ref();
        need.map_or(Pages::ZERO, |need| need(cost))
            .min(demand.ceiling)
            .max(self.floors[at])
    }

    /// Returns the pages that some demands need for a cost beyond their floors.
    fn extra(&self, some: &[usize], cost: Cost) -> Pages {
        let extra = |at: &usize| self.need(*at, cost) - self.floors[*at];
        some.iter().map(extra).sum()
    }

    /// Serves some demands equally, at the lowest cost in a range that the pages left allow.
    fn serve(&mut self, some: &[usize], best: Cost, worst: Cost) {
        let level = lowest(best, worst, |cost| self.extra(some, cost) <= self.left);
        for at in some {
            self.sizes[*at] = self.need(*at, level);
            self.levels[*at] = Some(level);
            self.left -= self.sizes[*at] - self.floors[*at];
        }
        self.left = self.left.max(Pages::ZERO);
    }

    /// Shrinks sizes in proportion, because even the highest cost can need more pages than there
    /// are.
    fn shrink_to(&mut self, pages: Pages) {
        let given: Pages = self.sizes.iter().copied().sum();
        if given > pages && given > Pages::ZERO {
            for size in &mut self.sizes {
                *size = *size * (pages / given);
            }
        }
    }
}

/// Returns the floors, shrunk in proportion if there are too few pages for all of them.
fn floors(pages: Pages, demands: &[Demand<'_>]) -> Vec<Pages> {
    let floors: Vec<Pages> = demands
        .iter()
        .map(|demand| demand.floor.min(demand.ceiling))
        .collect();
    let sum: Pages = floors.iter().copied().sum();
    let fits = if sum > pages { pages / sum } else { 1.0 };
    floors.into_iter().map(|floor| floor * fits).collect()
}

/// Returns the lowest cost in a range that fits, or the highest one if none does.
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
