// SPDX-License-Identifier: GPL-2.0-only

//! The shares that containers and the default pool have before anything is measured.

use super::{
    damper::{Shares, WEIGHT_SUM},
    fair::{self, Asked, Fair},
    matches::Matches,
    quantity::{Pages, Share},
};
use crate::config::{Container, Priority};
use ddabi::pool::{DEFAULT_WEIGHT, Store};
use ddnl::Pool;
use std::collections::BTreeMap;

/// Key of the default pool among the containers.
pub(super) const DEFAULT: &str = "";

/// A container's share before anything is measured.
struct Base {
    weight: f64,
    /// The floor of the file, as a part of the VM's share.
    floor: Share,
    class: Priority,
    is_controlled: bool,
}

/// The shares of all containers and of the default pool.
pub(super) struct Bases(BTreeMap<String, Base>);

impl Bases {
    /// Returns the shares by the file, of a store of `pages` if its size is known.
    pub(super) fn of(matches: Matches<'_>, pages: Option<Pages>) -> Self {
        let bytes = pages.map_or(0, Pages::bytes);
        let base = |(cgroup, container): (&String, &Container)| {
            (cgroup.clone(), Base::of(container, bytes))
        };
        // Only containers with pages in the memory tier get a share of it.
        let in_tier = matches.iter().filter(|(_, it)| it.store != Store::Ssd);
        let mut bases: BTreeMap<String, Base> = in_tier.map(base).collect();
        let weight = matches.config.default_pool_weight;
        bases.insert(
            DEFAULT.into(),
            Base::of_default(weight.unwrap_or(DEFAULT_WEIGHT)),
        );
        Self(bases)
    }

    /// Returns the part of the VM's share that the controller divides.
    pub(super) fn budget(&self) -> Share {
        let controlled = self.0.values().filter(|base| base.is_controlled);
        Share(controlled.map(|base| base.weight).sum::<f64>() / self.sum())
    }

    /// Returns the default pool's part of the VM's share.
    pub(super) fn default(&self) -> Share {
        let weight = self.0.get(DEFAULT).map_or(0.0, |base| base.weight);
        Share(weight / self.sum())
    }

    /// Returns the fair parts of the budget for the containers whose shares the controller decides.
    pub(super) fn fair(&self) -> BTreeMap<String, Fair> {
        let budget = self.budget().max(MIN_BUDGET);
        let controlled = || self.0.iter().filter(|(_, base)| base.is_controlled);
        let asked = |(_, base): (&String, &Base)| Asked {
            weight: base.weight,
            floor: base.floor.within(budget),
        };
        let asked: Vec<Asked> = controlled().map(asked).collect();
        let fair = controlled().zip(fair::parts(&asked));
        fair.map(|((key, base), part)| {
            let class = base.class;
            (key.clone(), Fair { part, class })
        })
        .collect()
    }

    /// Returns the other containers' parts of the VM's share.
    pub(super) fn fixed(&self) -> Shares {
        let sum = self.sum();
        let fixed = self.0.iter().filter(|(_, base)| !base.is_controlled);
        fixed
            .map(|(key, base)| (key.clone(), Share(base.weight / sum)))
            .collect()
    }

    /// Returns the sum of all weights, which is not 0 even if there are none.
    fn sum(&self) -> f64 {
        let weights = self.0.values().map(|base| base.weight);
        weights.sum::<f64>().max(1.0)
    }
}

impl Base {
    fn of(container: &Container, bytes: u64) -> Self {
        let is_controlled = takes_part(container);
        let floor = container.cache_floor.filter(|_| is_controlled);
        Self {
            weight: match container.store {
                Store::None => 0.0,
                _ => f64::from(container.weight),
            },
            floor: floor.map_or(Share::ZERO, |floor| Share(floor.part_of(bytes).min(1.0))),
            class: container.rank(),
            is_controlled,
        }
    }

    fn of_default(weight: u32) -> Self {
        Self {
            weight: f64::from(weight),
            floor: Share::ZERO,
            class: Priority::BRONZE,
            // A default pool of weight 0 gets no spare pages, either.
            is_controlled: weight > 0,
        }
    }
}

/// The smallest budget that steps and floors are computed with.
const MIN_BUDGET: Share = Share(0.01);

/// Returns the largest part of the budget that moves in an interval.
pub(super) fn max_step(matches: Matches<'_>, budget: Share) -> Share {
    Share(matches.config.max_step).within(budget.max(MIN_BUDGET))
}

/// Returns the weights of the containers in a tier, or `None` if no daemon has decided them: those
/// that a daemon decides add up to [`WEIGHT_SUM`], together with the one of the default pool.
pub(super) fn weights_in_force<'a>(
    matches: Matches<'a>,
    pools: &BTreeMap<&str, &Pool>,
    (is_in_tier, weight): (impl Fn(Store) -> bool, impl Fn(&Pool) -> u32),
    default: u32,
) -> Option<Vec<(&'a String, &'a Container, u32)>> {
    let in_tier = matches.iter().filter(|(_, it)| is_in_tier(it.store));
    let weights =
        in_tier.map(|(cgroup, it)| Some((cgroup, it, weight(pools.get(cgroup.as_str())?))));
    let weights: Vec<_> = weights.collect::<Option<_>>()?;
    let sum = weights.iter().map(|(.., weight)| weight).sum::<u32>() + default;
    (sum == WEIGHT_SUM).then_some(weights)
}

/// Returns whether the controller decides a container's share.
pub(super) fn takes_part(container: &Container) -> bool {
    container.is_controlled() && container.store.has_memory()
}
