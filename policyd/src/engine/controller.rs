// SPDX-License-Identifier: GPL-2.0

//! From targets to weights: looks in, weights out.
//!
//! One round an interval: [`Controller::observe`] takes in what was measured,
//! [`Controller::decide`] finds out what each container needs ([`super::response`]), divides the VM's share of the store
//! ([`super::split`]), gives away what is left over ([`super::spare`]), and moves the weights one
//! bounded step ([`super::damper`]). Where something is not known (no host, no figure) what is in
//! force stays in force.

use super::{
    Time,
    character::Character,
    curve::Curve,
    damper::{Damper, WEIGHT_SUM, Wanted},
    fair::{self, Fair},
    help::Belief,
    member::Member,
    sample::Sample,
    spare::{self, Taker},
    split::{self, Claim, Split},
    targets::Target,
};
use crate::config::{Config, Container, Priority, Store};
use ddabi::pool::{DEFAULT_WEIGHT, PoolStats};
use ddnl::Pool;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tracing::info;

/// The default pool among the containers.
const DEFAULT: &str = "";

/// Decides the weights of containers that have targets or classes.
#[derive(Debug, Default)]
pub(super) struct Controller {
    members: BTreeMap<String, Member>,
    damper: Damper,
    /// Weights of the containers that are decided here, and of the default pool.
    weights: BTreeMap<String, u32>,
    /// The VM's share of the store, in pages; absent without a host.
    pages: Option<f64>,
    /// What was decided last.
    rulings: BTreeMap<String, Ruling>,
    feasible: Option<bool>,
}

/// What was decided for a container, and why.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ruling {
    pub(super) verdict: Verdict,
    /// Pages it would need for its target, if that is known.
    pub(super) need: Option<f64>,
    /// Pages its share is.
    pub(super) has: f64,
}

/// How a container stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It has a class and no target: it gets what helps it.
    BestEffort,
    /// Its weight is what the file says.
    ByHand,
    /// Its target is met.
    Met,
    /// Its target is missed; its share grows.
    Growing,
    /// Its target is missed: there is not enough for all, and others come first or share alike.
    Infeasible,
    /// Its target is missed, and its share is at its ceiling.
    Ceiling,
    /// Its target is missed, and it does not fill the share it has.
    NotFilled,
    /// Its target is missed, and the store makes no difference.
    NotHelped,
    /// Its target is missed, and other shares are tried to see whether they make a difference.
    Trying,
    /// Less is asked of it than its target, and it waits for nothing: that counts as met.
    NotAsked,
    /// Its target is missed, and only guest memory can help it.
    NeedsMemory,
    /// Its target is missed, and there is no store to give.
    NoStore,
    /// Its figures are missing: its share stays.
    Unmeasured,
}

impl Controller {
    /// Takes in a look at everything.
    pub(super) fn observe(
        &mut self,
        now: Time,
        config: &Config,
        targets: &BTreeMap<String, Target>,
        pools: &BTreeMap<&str, &Pool>,
        default_pool: Option<&Pool>,
        sample: &Sample,
    ) {
        self.members
            .retain(|cgroup, _| targets.contains_key(cgroup));
        for (cgroup, target) in targets {
            let Some(reading) = sample.containers.get(cgroup) else {
                continue;
            };
            let pool = pools.get(cgroup.as_str());
            let member = self.members.entry(cgroup.clone()).or_default();
            if let Some(pool) = pool {
                // One that became too uncertain counts no more.
                member.curve = Curve::of_pool(pool);
            }
            let stats = pool.and_then(|pool| pool.stats);
            member.observe(now, &config.containers[target.container], reading, stats);
        }
        // A pool that the host refused, or that was added since the last list, has no statistics
        // and no share.
        let stats = pools.values().copied().chain(default_pool);
        let stats = stats.filter_map(|pool| pool.stats.as_ref());
        let shares: u64 = stats.map(|stats: &PoolStats| stats.entitlement).sum();
        self.pages = (shares > 0).then_some(shares as f64);
    }

    /// Takes over the weights that a daemon before us left in force, so that a start changes
    /// nothing at first.
    pub(super) fn adopt(
        &mut self,
        config: &Config,
        targets: &BTreeMap<String, Target>,
        pools: &BTreeMap<&str, &Pool>,
        default_pool: Option<&Pool>,
    ) {
        let Some(default) = default_pool.filter(|_| self.damper.shares().is_empty()) else {
            return;
        };
        let present: Option<Vec<(&String, u32)>> = targets
            .keys()
            .map(|cgroup| Some((cgroup, pools.get(cgroup.as_str())?.weight)))
            .collect();
        let Some(present) = present else { return };
        let sum = present.iter().map(|(_, weight)| weight).sum::<u32>() + default.weight;
        if sum != WEIGHT_SUM {
            // Not ours.
            return;
        }
        let mut shares: BTreeMap<String, f64> = present
            .into_iter()
            .filter(|(cgroup, _)| takes_part(&config.containers[targets[*cgroup].container]))
            .map(|(cgroup, weight)| (cgroup.clone(), f64::from(weight)))
            .collect();
        shares.insert(DEFAULT.into(), f64::from(default.weight));
        self.damper.adopt(shares);
    }

    /// Containers came or went: all get weights, new ones what is fair for them.
    pub(super) fn fit(&mut self, config: &Config, targets: &BTreeMap<String, Target>) {
        let bases = bases(config, targets, self.pages);
        self.fit_to(config.max_step, &bases);
        self.weigh(&bases);
    }

    /// The file leaves nothing to decide: what was found out about targets is not true any more.
    pub(super) fn retire(&mut self) {
        self.rulings.clear();
        self.feasible = None;
    }

    /// Moves the weights one step, if there is reason to.
    pub(super) fn decide(&mut self, config: &Config, targets: &BTreeMap<String, Target>) {
        let bases = bases(config, targets, self.pages);
        self.damper.begin_interval();
        self.fit_to(config.max_step, &bases);
        if let Some(pages) = self.pages {
            self.doubt(config, targets, pages);
            let budget = budget(&bases);
            let default = bases.get(DEFAULT).map_or(0.0, |base| base.weight) / sum(&bases);
            self.move_shares(config, targets, pages, budget, default);
        } else {
            self.retire();
        }
        self.weigh(&bases);
    }

    /// Finds out which containers the store does not help, and says so.
    fn doubt(&mut self, config: &Config, targets: &BTreeMap<String, Target>, pages: f64) {
        let missing = |cgroup: &str, target: &Target| {
            let container = &config.containers[target.container];
            let member = self.members.get(cgroup)?;
            (takes_part(container) && member.is_too_small()).then(|| member.entitled())
        };
        let missing: BTreeMap<&String, f64> = targets
            .iter()
            .filter_map(|(cgroup, target)| Some((cgroup, missing(cgroup, target)?)))
            .collect();
        let largest = missing.iter().max_by(|a, b| a.1.total_cmp(b.1));
        let largest = largest.map(|(cgroup, _)| *cgroup);
        let tries_less = |member: &Member| matches!(member.belief(), Belief::TriesLess { .. });
        let turn = !self.members.values().any(tries_less);
        let fair = pages / targets.len().max(1) as f64;
        for (cgroup, member) in &mut self.members {
            let contended = missing.len() > 1 && member.entitled() > fair * TAKES;
            let turn = turn && largest == Some(cgroup);
            if member.doubt(pages, config.max_step * pages, contended, turn) {
                tell(cgroup, member.belief());
            }
        }
    }

    fn fit_to(&mut self, max_step: f64, bases: &BTreeMap<String, Base>) {
        let budget = budget(bases).max(0.01);
        let controlled = bases.iter().filter(|(_, base)| base.controlled);
        let asked: Vec<(f64, f64)> = controlled
            .clone()
            .map(|(_, base)| (base.weight, base.floor / budget))
            .collect();
        let fair = controlled.zip(fair::parts(&asked));
        let fair = fair.map(|((key, base), part)| {
            let class = base.class;
            (key.clone(), Fair { part, class })
        });
        let fair: BTreeMap<String, Fair> = fair.collect();
        if !self.damper.has(&fair) {
            self.damper.fit(&fair, max_step / budget);
        }
    }

    fn weigh(&mut self, bases: &BTreeMap<String, Base>) {
        let sum = sum(bases);
        let fixed = bases.iter().filter(|(_, base)| !base.controlled);
        let fixed = fixed.map(|(key, base)| (key.clone(), base.weight / sum));
        self.weights = self.damper.weights(budget(bases), fixed.collect());
    }

    /// The weight of a container, or of the default pool (an empty path), once decided.
    pub(super) fn weight(&self, cgroup: &str) -> Option<u32> {
        self.weights.get(cgroup).copied()
    }

    /// The weights of all containers that are decided here, and of the default pool (an empty path).
    pub(super) const fn weights(&self) -> &BTreeMap<String, u32> {
        &self.weights
    }

    pub(super) fn member(&self, cgroup: &str) -> Option<&Member> {
        self.members.get(cgroup)
    }

    pub(super) fn ruling(&self, cgroup: &str) -> Option<&Ruling> {
        self.rulings.get(cgroup)
    }

    /// How a container stands.
    pub(super) fn verdict(&self, cgroup: &str, container: &Container) -> Verdict {
        let decided = self.rulings.get(cgroup).map(|ruling| ruling.verdict);
        let member = self.members.get(cgroup);
        match (decided, member) {
            _ if !container.is_controlled() => Verdict::ByHand,
            (Some(verdict), _) => verdict,
            _ if container.target.is_none() => Verdict::BestEffort,
            (None, Some(member)) if member.cost.is_some() => {
                if !member.misses_target() {
                    Verdict::Met
                } else if member.store_helps() {
                    Verdict::NoStore
                } else {
                    Verdict::NeedsMemory
                }
            }
            _ => Verdict::Unmeasured,
        }
    }

    /// The VM's share of the store in pages; absent without a host.
    pub(super) const fn pages(&self) -> Option<f64> {
        self.pages
    }

    /// Whether all targets can be met, as far as is known.
    pub(super) const fn feasible(&self) -> Option<bool> {
        self.feasible
    }

    /// `pages`: the VM's; `budget`: the part of them that is divided here; `default`: the default
    /// pool's part.
    fn move_shares(
        &mut self,
        config: &Config,
        targets: &BTreeMap<String, Target>,
        pages: f64,
        budget: f64,
        default: f64,
    ) {
        let nobody = Member::default();
        let ours: Vec<(&String, &Container, &Member)> = targets
            .iter()
            .map(|(cgroup, target)| {
                let member = self.members.get(cgroup).unwrap_or(&nobody);
                (cgroup, &config.containers[target.container], member)
            })
            .filter(|(_, container, _)| takes_part(container))
            .collect();
        let has = |cgroup: &str| {
            let share = self.damper.shares().get(cgroup).copied().unwrap_or(0.0);
            share * budget * pages
        };
        let smallest = SMALLEST.min(config.floors / ours.len().max(1) as f64);
        let claims: Vec<Claim<'_>> = ours
            .iter()
            .map(|(cgroup, container, member)| {
                claim(container, member, has(cgroup), pages, smallest)
            })
            .collect();
        let free = (budget - default).max(0.0) * pages;
        let split = split::split(free, &claims, config.margin);
        let now: Vec<f64> = ours.iter().map(|(cgroup, ..)| has(cgroup)).collect();
        // Needs are estimates, so that no container is cut to its need in one step.
        let kept = |(at, (has, size)): (usize, (&f64, &f64))| match claims[at].need {
            Some(_) => size.max(has * KEPT).max(ours[at].2.keeps().min(*has)),
            None => *size,
        };
        let kept: Vec<f64> = now.iter().zip(&split.sizes).enumerate().map(kept).collect();
        let spare = (free - kept.iter().sum::<f64>()).max(0.0);
        let takers: Vec<Taker<'_>> = ours
            .iter()
            .zip(&claims)
            .zip(&kept)
            .map(|(((_, container, member), claim), size)| Taker {
                size: *size,
                ceiling: claim.ceiling,
                worth: container.rank().worth(),
                weight: f64::from(container.weight),
                misses: Box::new(|size| member.misses_at(size)),
                helps: member.store_helps() && !member.is_saturated(),
            })
            .collect();
        let (sizes, left) = spare::give(pages, spare, &takers);
        let with_default = self.damper.shares().contains_key(DEFAULT);
        let named = |sizes: &[f64], rest: f64| {
            let names = ours.iter().map(|(cgroup, ..)| (*cgroup).clone());
            let mut shares: BTreeMap<String, f64> = names.zip(sizes.iter().copied()).collect();
            if with_default {
                shares.insert(DEFAULT.into(), rest);
            }
            shares
        };
        let default = default * pages;
        let (least, rest) = least_change(&now, &split.sizes, has(DEFAULT), default);
        let wanted = Wanted {
            least: named(&least, rest),
            best: named(&sizes, default + left),
        };
        let rulings = ours.iter().zip(&claims).enumerate();
        let rulings = rulings.map(|(at, ((cgroup, container, member), claim))| {
            let ruling = rule(container, member, claim, has(cgroup), &split, at);
            ((*cgroup).clone(), ruling)
        });
        self.rulings = rulings.collect();
        let has_target = |(_, container, _): &(_, &Container, _)| container.target.is_some();
        let is_open =
            |ruling: &Ruling| !matches!(ruling.verdict, Verdict::NotHelped | Verdict::Trying);
        let feasible = split.feasible && self.rulings.values().all(is_open);
        self.feasible = ours.iter().any(has_target).then_some(feasible);
        let urgent = |cgroup: &str| {
            let member = self.members.get(cgroup);
            member.is_some_and(Member::misses_target)
        };
        self.damper
            .step(wanted, urgent, config.max_step / budget.max(0.01));
    }
}

/// Says what is believed now of how the store helps a container.
fn tell(cgroup: &str, belief: Belief) {
    match belief {
        Belief::Helps => info!(cgroup, "the store helps, as far as is known"),
        Belief::TriesLess { .. } => {
            info!(
                cgroup,
                "target missed: trying whether half the share makes a difference"
            );
        }
        Belief::NoHelp { .. } => {
            info!(
                cgroup,
                "target missed: a larger share of the store makes no difference"
            );
        }
        Belief::TriesMore { .. } => {
            info!(
                cgroup,
                "target missed: trying whether a larger share makes a difference"
            );
        }
    }
}

/// Sizes that give each container what it needs and else stay as they are: what is lacking is
/// taken from those that have more than they need, in proportion to how much more. Returns the
/// default pool's size too, which `rest` is now and `default` shall be at least.
fn least_change(now: &[f64], needed: &[f64], rest: f64, default: f64) -> (Vec<f64>, f64) {
    let over = |(now, needed): (&f64, &f64)| (now - needed).max(0.0);
    let lacking = |(now, needed): (&f64, &f64)| (needed - now).max(0.0);
    let pairs = || now.iter().zip(needed);
    let lack: f64 = pairs().map(lacking).sum::<f64>() + (default - rest).max(0.0);
    let surplus: f64 = pairs().map(over).sum::<f64>() + (rest - default).max(0.0);
    let part = if surplus > 0.0 {
        (lack / surplus).min(1.0)
    } else {
        0.0
    };
    let size = |(now, needed): (&f64, &f64)| match now > needed {
        true => now - (now - needed) * part,
        false => *needed,
    };
    (pairs().map(size).collect(), size((&rest, &default)))
}

/// A container's part before anything is measured.
struct Base {
    weight: f64,
    /// The least of everything that the file promises it.
    floor: f64,
    class: Priority,
    controlled: bool,
}

/// The parts of all containers and of the default pool, of a store of `pages` if that is known.
fn bases(
    config: &Config,
    targets: &BTreeMap<String, Target>,
    pages: Option<f64>,
) -> BTreeMap<String, Base> {
    let bytes = pages.map_or(0, |pages| (pages * ddabi::PAGE_SIZE as f64) as u64);
    let mut bases: BTreeMap<String, Base> = targets
        .iter()
        .map(|(cgroup, target)| {
            let container = &config.containers[target.container];
            let controlled = takes_part(container);
            let floor = container.cache_floor.filter(|_| controlled);
            let base = Base {
                weight: match container.store {
                    Store::None => 0.0,
                    _ => f64::from(container.weight),
                },
                floor: floor.map_or(0.0, |floor| floor.part_of(bytes).min(1.0)),
                class: container.rank(),
                controlled,
            };
            (cgroup.clone(), base)
        })
        .collect();
    let default = config.default_pool_weight.unwrap_or(DEFAULT_WEIGHT);
    bases.insert(
        DEFAULT.into(),
        Base {
            weight: f64::from(default),
            floor: 0.0,
            class: Priority::BRONZE,
            // What the file excludes from the store gets nothing of what is left over, either.
            controlled: default > 0,
        },
    );
    bases
}

/// The weights of all containers; never an empty list.
fn sum(bases: &BTreeMap<String, Base>) -> f64 {
    bases.values().map(|base| base.weight).sum::<f64>().max(1.0)
}

/// The part of everything that is decided here.
fn budget(bases: &BTreeMap<String, Base>) -> f64 {
    let controlled = bases.values().filter(|base| base.controlled);
    controlled.map(|base| base.weight).sum::<f64>() / sum(bases)
}

fn takes_part(container: &Container) -> bool {
    container.is_controlled() && container.store != Store::None
}

/// `has` and `pages` are the container's and the VM's pages; `smallest` is the part it has in any
/// case.
fn claim<'a>(
    container: &Container,
    member: &'a Member,
    has: f64,
    pages: f64,
    smallest: f64,
) -> Claim<'a> {
    let page = ddabi::PAGE_SIZE as f64;
    let bytes = (pages * page) as u64;
    let floor = container
        .cache_floor
        .map_or(smallest, |floor| floor.part_of(bytes).max(smallest));
    let ceiling = container
        .cache_ceiling
        .map_or(1.0, |ceiling| ceiling.part_of(bytes).max(smallest));
    let need = (container.target.is_some() && member.store_helps())
        .then(|| Box::new(move |cost| member.pages_for(cost, has)) as Box<dyn Fn(f64) -> f64 + 'a>);
    Claim {
        rank: container.rank(),
        floor: floor.min(ceiling) * pages,
        ceiling: ceiling * pages,
        need,
    }
}

/// What a container with a target keeps of its share when others could use it better.
const KEPT: f64 = 0.9;

/// A container with so much of a fair part takes something from others.
const TAKES: f64 = 0.25;

/// The smallest part a container gets: enough to see whether more would help.
const SMALLEST: f64 = 0.002;

fn rule(
    container: &Container,
    member: &Member,
    claim: &Claim<'_>,
    has: f64,
    split: &Split,
    at: usize,
) -> Ruling {
    let need = claim.need.as_ref().map(|need| need(0.0));
    let need = need.filter(|_| !member.response.is_empty() || member.curve.is_some());
    let level = split.levels[at].unwrap_or(0.0);
    let verdict = if container.target.is_none() {
        Verdict::BestEffort
    } else if member.cost.is_none() {
        Verdict::Unmeasured
    } else if member.is_unasked {
        Verdict::NotAsked
    } else if !member.misses_target() {
        Verdict::Met
    } else if member.character() == Character::Anonymous {
        Verdict::NeedsMemory
    } else if member.is_saturated() {
        Verdict::NotFilled
    } else if let Belief::NoHelp { .. } = member.belief() {
        Verdict::NotHelped
    } else if member.belief() != Belief::Helps {
        Verdict::Trying
    } else if has >= claim.ceiling * 0.99 {
        Verdict::Ceiling
    } else if !split.feasible && level > 0.0 {
        Verdict::Infeasible
    } else {
        Verdict::Growing
    };
    Ruling { verdict, need, has }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Reading;
    use crate::engine::{Cgroups, names::Names, targets};
    use ddabi::counters::{AdmissionCounters, CurvePoint};
    use ddnl::fake::GuestState;

    /// A curve whose error grew is not believed any longer.
    #[test]
    fn a_curve_is_withdrawn() {
        let text = "[[container]]\nname = \"a\"\ncgroup = \"/a\"\nclass = \"gold\"\n";
        let config = Config::parse(text).unwrap();
        let cgroups = Cgroups::from([("/a".into(), 1)]);
        let none = BTreeMap::new();
        let (targets, _) = targets::of(&config, &cgroups, &Names::default(), |_| false, &none);
        let mut sample = Sample::default();
        sample.containers.insert("/a".into(), Reading::default());
        let mut pool = GuestState::default().pools.remove(0);
        pool.curve = Some(vec![CurvePoint { pages: 9, hits: 5 }]);
        let mut controller = Controller::default();
        let mut has_curve = |error: u32| {
            pool.admission = Some(AdmissionCounters {
                reads: 100_000,
                curve_error_permille: error.into(),
                ..AdmissionCounters::default()
            });
            let pools = BTreeMap::from([("/a", &pool)]);
            controller.observe(Time::ZERO, &config, &targets, &pools, None, &sample);
            controller.members["/a"].curve.is_some()
        };
        assert!(has_curve(20));
        assert!(!has_curve(200));
        assert!(has_curve(20));
    }
}
