// SPDX-License-Identifier: GPL-2.0-only

//! Computes weights from measurements and targets.
//!
//! There is one round per interval. [`Controller::observe`] takes the measurement, and
//! [`Controller::decide`] finds out what each container needs ([`super::response`]), divides the
//! VM's share of the store ([`super::division`]: [`super::split`] serves the targets,
//! [`super::spare`] gives away what is left over), and moves the weights by one bounded step
//! ([`super::damper`]). Where something is not known (no host, no figure), the weights in force
//! stay.

use super::{
    Time,
    bases::{Bases, DEFAULT, max_step, takes_part, weights_in_force},
    curve::Curve,
    damper::Damper,
    division::{Division, Whole},
    help::Belief,
    matches::Matches,
    member::Member,
    quantity::Pages,
    ruling::{Ruling, Verdict},
    sample::Sample,
    ssd::SsdShares,
};
use crate::config::Container;
use ddabi::pool::{PoolStats, Store};
use ddnl::Pool;
use std::collections::BTreeMap;
use tracing::info;

/// Decides the weights of containers that have targets or classes.
#[derive(Debug, Default)]
pub(super) struct Controller {
    members: BTreeMap<String, Member>,
    damper: Damper,
    /// The decided weights, including that of the default pool.
    weights: BTreeMap<String, u32>,
    /// The VM's share of the store; absent without a host.
    pages: Option<Pages>,
    /// The last decisions.
    rulings: BTreeMap<String, Ruling>,
    feasible: Option<bool>,
    /// Weights in the SSD tier.
    pub(super) ssd: SsdShares,
}

/// A container with at least this part of its fair share is held to take pages from others.
const TAKES: f64 = 0.25;

impl Controller {
    /// Handles a measurement.
    pub(super) fn observe(
        &mut self,
        now: Time,
        matches: Matches<'_>,
        pools: &BTreeMap<&str, &Pool>,
        default_pool: Option<&Pool>,
        sample: &Sample,
    ) {
        self.members
            .retain(|cgroup, _| matches.by_cgroup.contains_key(cgroup));
        for (cgroup, container) in matches.iter() {
            let Some(reading) = sample.containers.get(cgroup) else {
                continue;
            };
            let pool = pools.get(cgroup.as_str());
            let member = self.members.entry(cgroup.clone()).or_default();
            if let Some(pool) = pool {
                // A curve that has become too uncertain is dropped.
                member.curve = Curve::of_pool(pool);
            }
            let stats = pool.and_then(|pool| pool.stats);
            member.observe(now, container, reading, stats);
        }
        // A pool that the host refused, or that was added since the last list, has neither
        // statistics nor a share.
        let stats = pools.values().copied().chain(default_pool);
        let stats = stats.filter_map(|pool| pool.stats.as_ref());
        let shares: u64 = stats.map(|stats: &PoolStats| stats.entitlement).sum();
        self.pages = (shares > 0).then_some(Pages(shares as f64));
        self.ssd.observe(pools.values().copied());
    }

    /// Adopts the weights that a previous daemon left in force, so that a restart changes nothing
    /// at first.
    pub(super) fn adopt(
        &mut self,
        matches: Matches<'_>,
        pools: &BTreeMap<&str, &Pool>,
        default_pool: Option<&Pool>,
    ) {
        self.ssd.adopt(matches, pools);
        let Some(default) = default_pool.filter(|_| self.damper.shares().is_empty()) else {
            return;
        };
        let (in_tier, weight) = (|store| store != Store::Ssd, |pool: &Pool| pool.weight);
        let present = weights_in_force(matches, pools, (in_tier, weight), default.weight);
        let Some(present) = present else { return };
        let mut weights: BTreeMap<String, f64> = present
            .into_iter()
            .filter(|(_, container, _)| takes_part(container))
            .map(|(cgroup, _, weight)| (cgroup.clone(), f64::from(weight)))
            .collect();
        weights.insert(DEFAULT.into(), f64::from(default.weight));
        self.damper.adopt(weights);
    }

    /// Decides weights after containers came or went. New ones get fair shares.
    pub(super) fn fit(&mut self, matches: Matches<'_>) {
        let bases = Bases::of(matches, self.pages);
        self.admit(matches, &bases);
        self.weigh(&bases);
        self.ssd.fit(matches);
    }

    /// Forgets the verdicts on targets, because the file leaves nothing to decide.
    pub(super) fn retire(&mut self) {
        self.rulings.clear();
        self.feasible = None;
    }

    /// Moves the weights by one step, if there is a reason to.
    pub(super) fn decide(&mut self, matches: Matches<'_>) {
        let bases = Bases::of(matches, self.pages);
        self.damper.begin_interval();
        self.admit(matches, &bases);
        if let Some(pages) = self.pages {
            self.doubt(matches, pages);
            let whole = Whole {
                pages,
                budget: bases.budget(),
                default: bases.default(),
            };
            self.move_shares(matches, whole);
        } else {
            self.retire();
        }
        self.weigh(&bases);
        let budget = bases.budget();
        let Self {
            ssd,
            members,
            damper,
            pages,
            ..
        } = self;
        let pages = pages.unwrap_or_default();
        ssd.decide(matches, members, |cgroup| {
            damper.share(cgroup) * budget * pages
        });
    }

    /// Finds out which containers the store does not help, and logs changes.
    fn doubt(&mut self, matches: Matches<'_>, pages: Pages) {
        let missing: BTreeMap<&String, Pages> = matches
            .iter()
            .filter(|(_, container)| takes_part(container))
            .filter_map(|(cgroup, _)| Some((cgroup, self.members.get(cgroup)?)))
            .filter(|(_, member)| member.is_too_small())
            .map(|(cgroup, member)| (cgroup, member.entitled()))
            .collect();
        let largest = missing.iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0));
        let largest = largest.map(|(cgroup, _)| *cgroup);
        let tries_less = |member: &Member| matches!(member.belief(), Belief::TriesLess { .. });
        let is_free = !self.members.values().any(tries_less);
        let fair = pages / matches.by_cgroup.len().max(1) as f64;
        for (cgroup, member) in &mut self.members {
            let contended = missing.len() > 1 && member.entitled() > fair * TAKES;
            let turn = is_free && largest == Some(cgroup);
            let step = pages * matches.config.max_step;
            if member.doubt(pages, step, contended, turn) {
                log_belief(cgroup, member.belief());
            }
        }
    }

    /// Gives newcomers their fair shares, and divides the shares of containers that left.
    fn admit(&mut self, matches: Matches<'_>, bases: &Bases) {
        let fair = bases.fair();
        if !self.damper.has(&fair) {
            let step = max_step(matches, bases.budget());
            self.damper.fit(&fair, step);
        }
    }

    /// Converts the shares to integer weights.
    fn weigh(&mut self, bases: &Bases) {
        self.weights = self.damper.weights(bases.budget(), bases.fixed());
    }

    /// Divides the store, and moves the shares towards the result.
    fn move_shares(&mut self, matches: Matches<'_>, whole: Whole) {
        let unmeasured = Member::default();
        let member = |cgroup: &str| self.members.get(cgroup).unwrap_or(&unmeasured);
        let division = Division::new(matches, member, &self.damper, whole);
        let wanted = division.wanted();
        self.rulings = division.rulings();
        let is_doubted = self.rulings.values().any(|it| it.verdict.is_doubted());
        self.feasible = division.is_enough().map(|is| is && !is_doubted);
        let is_urgent = |cgroup: &str| {
            let member = self.members.get(cgroup);
            member.is_some_and(Member::misses_target)
        };
        let step = max_step(matches, whole.budget);
        self.damper.step(wanted, is_urgent, step);
    }

    /// Returns the weight of a container, or of the default pool (an empty path), once it is
    /// decided.
    pub(super) fn weight(&self, cgroup: &str) -> Option<u32> {
        self.weights.get(cgroup).copied()
    }

    /// Returns all decided weights, including that of the default pool (an empty path).
    pub(super) const fn weights(&self) -> &BTreeMap<String, u32> {
        &self.weights
    }

    /// Returns the weights in the SSD tier that differ from the file.
    pub(super) const fn ssd_weights(&self) -> &BTreeMap<String, u32> {
        self.ssd.weights()
    }

    pub(super) fn member(&self, cgroup: &str) -> Option<&Member> {
        self.members.get(cgroup)
    }

    pub(super) fn ruling(&self, cgroup: &str) -> Option<&Ruling> {
        self.rulings.get(cgroup)
    }

    /// Returns the verdict on a container.
    pub(super) fn verdict(&self, cgroup: &str, container: &Container) -> Verdict {
        match self.rulings.get(cgroup) {
            Some(ruling) if container.is_controlled() => ruling.verdict,
            _ => Verdict::undivided(container, self.members.get(cgroup)),
        }
    }

    /// Returns the VM's share of the store; `None` without a host.
    pub(super) const fn pages(&self) -> Option<Pages> {
        self.pages
    }

    /// Returns whether all targets can be met, as far as is known.
    pub(super) const fn feasible(&self) -> Option<bool> {
        self.feasible
    }
}

/// Logs whether the store is believed to help a container.
fn log_belief(cgroup: &str, belief: Belief) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::engine::Reading;
    use crate::engine::{Cgroups, matches, names::Names};
    use ddabi::counters::{AdmissionCounters, CurvePoint};
    use ddnl::fake::GuestState;

    /// A curve whose error has grown is dropped.
    #[test]
    fn a_curve_is_withdrawn() {
        let text = "[[container]]\nname = \"a\"\ncgroup = \"/a\"\nclass = \"gold\"\n";
        let config = Config::parse(text).unwrap();
        let cgroups = Cgroups::from([("/a".into(), 1)]);
        let none = BTreeMap::new();
        let (all, _) = matches::find_all(&config, &cgroups, &Names::default(), |_| false, &none);
        let matches = Matches {
            config: &config,
            by_cgroup: &all,
        };
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
            controller.observe(Time::ZERO, matches, &pools, None, &sample);
            controller.members["/a"].curve.is_some()
        };
        assert!(has_curve(20));
        assert!(!has_curve(200));
        assert!(has_curve(20));
    }
}
