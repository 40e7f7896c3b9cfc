// SPDX-License-Identifier: GPL-2.0-only

//! Divides the store once per interval. Returns the shares that serve the targets, the best shares,
//! and the verdicts on the containers.

use super::{
    bases::{DEFAULT, takes_part},
    damper::{Damper, Shares, Wanted, in_proportion},
    matches::Matches,
    member::Member,
    quantity::{Pages, Share},
    ruling::Ruling,
    spare::{self, Candidate},
    split::{self, Demand, Need, Split},
};
use crate::config::{Amount, Container};
use std::collections::BTreeMap;

/// The store, and the parts of it that are divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole {
    /// The VM's share of the store.
    pub(super) pages: Pages,
    /// The part of it that is divided.
    pub(super) budget: Share,
    /// The least part of it that the default pool gets.
    pub(super) default: Share,
}

/// A container that gets a part.
struct Claimant<'a> {
    cgroup: &'a String,
    container: &'a Container,
    member: &'a Member,
    has: Pages,
}

/// A division between the parties. Vectors of sizes have their order.
pub(super) struct Division<'a> {
    whole: Whole,
    parties: Vec<Claimant<'a>>,
    demands: Vec<Demand<'a>>,
    /// The sizes that serve the targets.
    split: Split,
    /// The size of the default pool, if it is a party.
    rest: Option<Pages>,
}

/// The part of its share that a container with a target keeps when others could use it better.
const KEPT: f64 = 0.9;

/// The smallest part of a container, which is enough to see whether more would help.
const SMALLEST: Share = Share(0.002);

impl<'a> Division<'a> {
    /// Divides between the containers of the file that take part. `shares` are the ones in force.
    pub(super) fn new(
        matches: Matches<'a>,
        member: impl Fn(&str) -> &'a Member,
        shares: &Damper,
        whole: Whole,
    ) -> Self {
        let config = matches.config;
        let has = |cgroup: &str| shares.share(cgroup) * whole.budget * whole.pages;
        let controlled = matches
            .iter()
            .filter(|(_, container)| takes_part(container));
        let party = |(cgroup, container): (&'a String, &'a Container)| Claimant {
            cgroup,
            container,
            member: member(cgroup),
            has: has(cgroup),
        };
        let parties: Vec<Claimant<'a>> = controlled.map(party).collect();
        let smallest = SMALLEST.min(Share(config.floors / parties.len().max(1) as f64));
        let demand = |party: &Claimant<'a>| party.demand(whole.pages, smallest);
        let demands: Vec<Demand<'a>> = parties.iter().map(demand).collect();
        Self {
            split: split::split(whole.free(), &demands, config.margin),
            rest: shares.shares().contains_key(DEFAULT).then(|| has(DEFAULT)),
            whole,
            parties,
            demands,
        }
    }

    /// Returns the shares to move to.
    pub(super) fn wanted(&self) -> Wanted {
        let (least, rest) = self.least_change();
        let (best, left) = self.best();
        Wanted {
            least: self.shares(&least, rest),
            best: self.shares(&best, self.whole.default_pool() + left),
        }
    }

    /// Returns the verdict on each container.
    pub(super) fn rulings(&self) -> BTreeMap<String, Ruling> {
        let ruling = |(at, party): (usize, &Claimant<'_>)| {
            let is_late = self.split.levels[at].is_some_and(|level| level.0 > 0.0);
            let ruling = Ruling::of(
                party.container,
                party.member,
                &self.demands[at],
                party.has,
                !self.split.feasible && is_late,
            );
            (party.cgroup.clone(), ruling)
        };
        self.parties.iter().enumerate().map(ruling).collect()
    }

    /// Returns whether there is enough for all targets, if there are any.
    pub(super) fn is_enough(&self) -> Option<bool> {
        let has_target = |party: &Claimant<'_>| party.container.target.is_some();
        let has_targets = self.parties.iter().any(has_target);
        has_targets.then_some(self.split.feasible)
    }

    /// Returns sizes that give each container what it needs and leave the others unchanged as far
    /// as possible. The missing pages are taken from containers that have more than they need, in
    /// proportion to their surplus. Also returns the default pool's size.
    fn least_change(&self) -> (Vec<Pages>, Pages) {
        let has = self.parties.iter().map(|party| party.has);
        let needs = self.split.sizes.iter().copied();
        let pairs: Vec<(Pages, Pages)> = has.zip(needs).collect();
        let default = (self.rest.unwrap_or_default(), self.whole.default_pool());
        let over = |(has, needs): (Pages, Pages)| (has - needs).max(Pages::ZERO);
        let lacking = |(has, needs): (Pages, Pages)| (needs - has).max(Pages::ZERO);
        let all = |of: &dyn Fn((Pages, Pages)) -> Pages| {
            pairs.iter().copied().map(of).sum::<Pages>() + of(default)
        };
        let (lack, surplus) = (all(&lacking), all(&over));
        let part = match surplus > Pages::ZERO {
            true => (lack / surplus).min(1.0),
            false => 0.0,
        };
        let size = |(has, needs): (Pages, Pages)| match has > needs {
            true => has - (has - needs) * part,
            false => needs,
        };
        let sizes = pairs.iter().copied().map(size).collect();
        (sizes, size(default))
    }

    /// Returns sizes with which the pages that no target needs go where they help most. Also
    /// returns the pages that could not be given away.
    fn best(&self) -> (Vec<Pages>, Pages) {
        let kept: Vec<Pages> = (0..self.parties.len()).map(|at| self.kept(at)).collect();
        let spare = self.whole.free() - kept.iter().copied().sum();
        let candidates = kept.iter().enumerate();
        let candidates: Vec<Candidate<'_>> = candidates
            .map(|(at, size)| self.candidate(at, *size))
            .collect();
        spare::give(self.whole.pages, spare.max(Pages::ZERO), &candidates)
    }

    /// Returns the least size that a container keeps. Needs are estimates, so that no container is
    /// cut to its need in one step.
    fn kept(&self, at: usize) -> Pages {
        let (party, size) = (&self.parties[at], self.split.sizes[at]);
        match self.demands[at].need {
            Some(_) => size
                .max(party.has * KEPT)
                .max(party.member.keeps().min(party.has)),
            None => size,
        }
    }

    fn candidate(&self, at: usize, size: Pages) -> Candidate<'_> {
        let Claimant {
            container, member, ..
        } = &self.parties[at];
        Candidate {
            size,
            ceiling: self.demands[at].ceiling,
            worth: container.rank().worth(),
            weight: f64::from(container.weight),
            misses: Box::new(|size| member.misses_at(size)),
            helps: member.store_helps() && !member.is_saturated(),
        }
    }

    /// Converts sizes to shares, and gives the default pool the rest.
    fn shares(&self, sizes: &[Pages], default: Pages) -> Shares {
        let cgroups = self.parties.iter().map(|party| party.cgroup.clone());
        let mut parts: BTreeMap<String, f64> = cgroups.zip(sizes.iter().map(|it| it.0)).collect();
        if self.rest.is_some() {
            parts.insert(DEFAULT.into(), default.0);
        }
        in_proportion(parts)
    }
}

impl Whole {
    /// Returns the pages that the containers divide.
    fn free(&self) -> Pages {
        (self.budget - self.default).max(Share::ZERO) * self.pages
    }

    /// Returns the least size of the default pool.
    fn default_pool(&self) -> Pages {
        self.default * self.pages
    }
}

impl<'a> Claimant<'a> {
    /// Returns its demand on the VM's pages. It gets at least the part `smallest`.
    fn demand(&self, pages: Pages, smallest: Share) -> Demand<'a> {
        let (container, member, has) = (self.container, self.member, self.has);
        let part = |amount: Amount| Share(amount.part_of(pages.bytes())).max(smallest);
        let floor = container.cache_floor.map_or(smallest, part);
        let ceiling = container.cache_ceiling.map_or(Share::ALL, part);
        let asks = container.target.is_some() && member.store_helps();
        Demand {
            rank: container.rank(),
            floor: floor.min(ceiling) * pages,
            ceiling: ceiling * pages,
            need: asks.then(|| -> Need<'a> { Box::new(move |cost| member.size_for(cost, has)) }),
        }
    }
}
