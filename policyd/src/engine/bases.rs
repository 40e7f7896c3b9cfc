// SPDX-License-Identifier: GPL-2.0-only

//! The parts that containers and the default pool have before anything is measured.

use super::{
    damper::Shares,
    fair::{self, Asked, Fair},
    matches::Matches,
    quantity::{Pages, Share},
};
use crate::config::{Container, Priority, Store};
use ddabi::pool::DEFAULT_WEIGHT;
use std::collections::BTreeMap;

/// The default pool among the containers.
pub(super) const DEFAULT: &str = "";

/// A container's part before anything is measured.
struct Base {
    weight: f64,
    /// The least that the file promises it, of what the VM may have.
    floor: Share,
    class: Priority,
    is_controlled: bool,
}

/// The parts of all containers and of the default pool.
pub(super) struct Bases(BTreeMap<String, Base>);

impl Bases {
    /// The parts that the file gives, of a store of `pages` if that is known.
    pub(super) fn of(matches: Matches<'_>, pages: Option<Pages>) -> Self {
        let bytes = pages.map_or(0, Pages::bytes);
        let base = |(cgroup, container): (&String, &Container)| {
            (cgroup.clone(), Base::of(container, bytes))
        };
        // The memory tier is divided among its containers only.
        let subjects_of_tier = matches.iter().filter(|(_, it)| it.store != Store::Ssd);
        let mut bases: BTreeMap<String, Base> = subjects_of_tier.map(base).collect();
        let weight = matches.config.default_pool_weight;
        bases.insert(
            DEFAULT.into(),
            Base::of_default(weight.unwrap_or(DEFAULT_WEIGHT)),
        );
        Self(bases)
    }

    /// The part of everything that is decided here.
    pub(super) fn budget(&self) -> Share {
        let controlled = self.0.values().filter(|base| base.is_controlled);
        Share(controlled.map(|base| base.weight).sum::<f64>() / self.sum())
    }

    /// The default pool's part of everything.
    pub(super) fn default(&self) -> Share {
        let weight = self.0.get(DEFAULT).map_or(0.0, |base| base.weight);
        Share(weight / self.sum())
    }

    /// Returns the fair parts of the budget for the containers that are decided here.
    pub(super) fn fair(&self) -> BTreeMap<String, Fair> {
        let budget = self.budget().max(LEAST_BUDGET);
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

    /// What the others have, of everything.
    pub(super) fn fixed(&self) -> Shares {
        let sum = self.sum();
        let fixed = self.0.iter().filter(|(_, base)| !base.is_controlled);
        fixed
            .map(|(key, base)| (key.clone(), Share(base.weight / sum)))
            .collect()
    }

    /// The sum of all weights; that of an empty list is not 0.
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
            // A default pool of weight 0 does not get the pages that are left over, either.
            is_controlled: weight > 0,
        }
    }
}

/// Steps and floors are reckoned as if no budget were smaller.
pub(super) const LEAST_BUDGET: Share = Share(0.01);

/// Whether a container's share is decided here.
pub(super) fn takes_part(container: &Container) -> bool {
    container.is_controlled() && container.store.has_memory()
}
