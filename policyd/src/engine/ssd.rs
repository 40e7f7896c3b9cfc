// SPDX-License-Identifier: GPL-2.0-only

//! Decides weights in the SSD tier, beside a container's memory and its weight in the memory tier
//! (section 5.3.1 of the thesis).
//!
//! The memory tier is divided first. The SSD tier can serve the hits that a container's hit-ratio
//! curve promises beyond its share of memory, and each of them saves the difference between the
//! times of the guest's disk and of the SSD tier. The tier is divided by these savings ([`fill`]),
//! and weights move towards the result by one bounded step at a time, like those of the memory
//! tier. A container whose disk is about as fast as the SSD tier has no weight there.

mod fill;
mod finding;

pub(super) use finding::Finding;

use super::{
    bases::{max_step, weights_in_force},
    damper::{Damper, Shares, WEIGHT_SUM, Wanted, in_proportion},
    fair::Fair,
    matches::Matches,
    member::Member,
    quantity::{Benefit, Nanoseconds, Pages, Share},
    read_time::Times,
};
use crate::config::Container;
use ddabi::pool::Store;
use ddnl::Pool;
use fill::{Gain, SsdClaimant};
use std::collections::{BTreeMap, BTreeSet};

/// A disk counts as equally fast if its time is below this multiple of the SSD tier's.
const FASTER: f64 = 1.2;
/// A disk that counted as equally fast counts as slower from this multiple on.
const SLOWER: f64 = 1.3;

/// Decides the weights in the SSD tier of containers that are in both tiers and have targets or
/// classes.
#[derive(Debug, Default)]
pub(super) struct SsdShares {
    damper: Damper,
    /// Weights in the SSD tier that differ from the file.
    weights: BTreeMap<String, u32>,
    findings: BTreeMap<String, Finding>,
    /// Containers without a weight, because their disk is as fast as the SSD tier.
    without: BTreeSet<String>,
    /// The VM's share of the SSD tier; absent if it is 0.
    pages: Option<Pages>,
}

/// The containers in the SSD tier, grouped by the origin of their weights.
#[derive(Default)]
struct Table {
    /// Weights of the file for containers whose weights are decided here.
    chosen: BTreeMap<String, Fair>,
    /// Weights of the file for the others.
    fixed: BTreeMap<String, f64>,
    /// Containers without a weight.
    none: Vec<String>,
}

impl SsdShares {
    /// Sets the VM's share of the SSD tier.
    pub(super) fn observe<'a>(&mut self, pools: impl Iterator<Item = &'a Pool>) {
        let stats = pools.filter_map(|pool| pool.stats.as_ref());
        let pages: u64 = stats.map(|stats| stats.ssd_entitlement).sum();
        self.pages = (pages > 0).then_some(Pages(pages as f64));
    }

    /// Adopts the weights that a previous daemon left in force.
    pub(super) fn adopt(&mut self, matches: Matches<'_>, pools: &BTreeMap<&str, &Pool>) {
        if !self.damper.shares().is_empty() || !self.without.is_empty() {
            return;
        }
        let (in_tier, weight) = (Store::has_ssd, |pool: &Pool| pool.ssd_weight);
        let Some(present) = weights_in_force(matches, pools, (in_tier, weight), 0) else {
            return;
        };
        let chosen = present.into_iter().filter(|(_, it, _)| is_chosen(it));
        let (with, without): (Vec<_>, Vec<_>) = chosen.partition(|(.., weight)| *weight > 0);
        let with = with.into_iter();
        self.damper.adopt(
            with.map(|(cgroup, _, weight)| (cgroup.clone(), f64::from(weight)))
                .collect(),
        );
        let without = without.into_iter().filter(|(_, it, _)| it.ssd_weight > 0);
        self.without
            .extend(without.map(|(cgroup, ..)| cgroup.clone()));
    }

    /// Decides weights after containers came or went.
    pub(super) fn fit(&mut self, matches: Matches<'_>) {
        self.forget(matches);
        let table = self.table(matches);
        self.admit(matches, &table);
        self.weigh(&table);
    }

    /// Moves the weights by one step, if there is a reason to. `memory` returns the pages that a
    /// container has in the memory tier.
    pub(super) fn decide(
        &mut self,
        matches: Matches<'_>,
        members: &BTreeMap<String, Member>,
        memory: impl Fn(&str) -> Pages,
    ) {
        let times = times(matches, members);
        self.forget(matches);
        self.compare(&times);
        self.damper.begin_interval();
        let table = self.table(matches);
        self.admit(matches, &table);
        if let Some(pages) = self.pages {
            let whole = (pages, table.budget());
            self.divide(matches, members, &times, whole, &memory);
        }
        self.weigh(&table);
        self.find(members, &times, memory);
    }

    /// Forgets findings on containers that are gone. A container whose figures are missing stays.
    fn forget(&mut self, matches: Matches<'_>) {
        let is_there = |cgroup: &str| matches.container(cgroup).is_some_and(is_chosen);
        self.without.retain(|cgroup| is_there(cgroup));
        self.findings.retain(|cgroup, _| is_there(cgroup));
    }

    /// Finds the containers whose disk is as fast as the SSD tier.
    fn compare(&mut self, times: &BTreeMap<String, Times>) {
        for (cgroup, times) in times {
            if times.ratio() < FASTER {
                self.without.insert(cgroup.clone());
            } else if times.ratio() >= SLOWER {
                self.without.remove(cgroup);
            }
        }
    }

    fn table(&self, matches: Matches<'_>) -> Table {
        let mut table = Table::default();
        for (cgroup, container) in matches.iter().filter(|(_, it)| it.store.has_ssd()) {
            let weight = f64::from(container.ssd_weight);
            if weight <= 0.0 || self.without.contains(cgroup) {
                table.none.push(cgroup.clone());
            } else if is_chosen(container) {
                let fair = Fair {
                    part: Share(weight),
                    class: container.rank(),
                };
                table.chosen.insert(cgroup.clone(), fair);
            } else {
                table.fixed.insert(cgroup.clone(), weight);
            }
        }
        table
    }

    fn admit(&mut self, matches: Matches<'_>, table: &Table) {
        if !self.damper.has(&table.chosen) {
            let step = max_step(matches, table.budget());
            self.damper.fit(&table.chosen, step);
        }
    }

    /// Divides the part of the pages that is decided here, and moves the shares towards the result.
    fn divide(
        &mut self,
        matches: Matches<'_>,
        members: &BTreeMap<String, Member>,
        times: &BTreeMap<String, Times>,
        (pages, budget): (Pages, Share),
        memory: impl Fn(&str) -> Pages,
    ) {
        let cgroups: Vec<String> = self.damper.shares().keys().cloned().collect();
        let party = |cgroup: &String| {
            let container = matches.container(cgroup);
            let gains = || {
                let member = members.get(cgroup)?;
                let slopes = member.curve.as_ref()?.slopes_beyond(memory(cgroup));
                let saved = times.get(cgroup)?.saved();
                let worth = container?.rank().worth();
                Some(Gain::of(
                    &slopes,
                    Benefit::of(saved, member.wanted()) * worth,
                ))
            };
            SsdClaimant {
                weight: container.map_or(0.0, |it| f64::from(it.ssd_weight)),
                gains: gains(),
            }
        };
        let parties: Vec<SsdClaimant> = cgroups.iter().map(party).collect();
        if parties.is_empty() {
            return;
        }
        let sizes = fill::fill(budget * pages, &parties);
        let sizes = cgroups.into_iter().zip(sizes.iter().map(|size| size.0));
        let best = in_proportion(sizes.collect());
        let wanted = Wanted {
            least: best.clone(),
            best,
        };
        let misses = |cgroup: &str| members.get(cgroup).is_some_and(Member::misses_target);
        let step = max_step(matches, budget);
        self.damper.step(wanted, misses, step);
    }

    /// Converts the shares to integer weights whose sum is [`WEIGHT_SUM`]. If none is decided here,
    /// all weights are those of the file.
    fn weigh(&mut self, table: &Table) {
        let sum = table.sum();
        let fixed = table.fixed.iter();
        let fixed: Shares = fixed
            .map(|(cgroup, weight)| (cgroup.clone(), Share(weight / sum)))
            .collect();
        self.weights = match table.chosen.is_empty() {
            true => BTreeMap::new(),
            false => self.damper.weights(table.budget(), fixed),
        };
        let none = table.none.iter().map(|cgroup| (cgroup.clone(), 0));
        self.weights.extend(none);
    }

    /// Updates the reasons for the weights.
    fn find(
        &mut self,
        members: &BTreeMap<String, Member>,
        times: &BTreeMap<String, Times>,
        memory: impl Fn(&str) -> Pages,
    ) {
        let finding = |(cgroup, times): (&String, &Times)| {
            let curve = members.get(cgroup).and_then(|member| member.curve.as_ref());
            let finding = match (self.pages, curve) {
                _ if self.without.contains(cgroup) => Finding::FastDisk(*times),
                (None, _) => Finding::NoTier,
                (_, None) => Finding::NoCurve,
                (Some(pages), Some(curve)) => {
                    let memory = memory(cgroup);
                    let weight = self.weight(cgroup).unwrap_or(0);
                    let ssd = pages * (f64::from(weight) / f64::from(WEIGHT_SUM));
                    Finding::Chosen {
                        times: *times,
                        memory: curve.hit_ratio(memory),
                        ssd: curve.gain(memory, memory + ssd),
                    }
                }
            };
            (cgroup.clone(), finding)
        };
        self.findings = times.iter().map(finding).collect();
    }

    /// Returns the weight of a container in the SSD tier, once it is decided.
    pub(super) fn weight(&self, cgroup: &str) -> Option<u32> {
        self.weights.get(cgroup).copied()
    }

    /// Returns the weights in the SSD tier that differ from the file.
    pub(super) const fn weights(&self) -> &BTreeMap<String, u32> {
        &self.weights
    }

    /// Returns the reason for a container's weight.
    pub(super) fn finding(&self, cgroup: &str) -> Option<&Finding> {
        self.findings.get(cgroup)
    }
}

impl Table {
    /// Returns the part of the tier that is decided here.
    fn budget(&self) -> Share {
        let chosen = self.chosen.values().map(|fair| fair.part.0);
        Share(chosen.sum::<f64>() / self.sum())
    }

    /// Returns the sum of all weights, which is not 0 even if there are none.
    fn sum(&self) -> f64 {
        let chosen = self.chosen.values().map(|fair| fair.part.0);
        let sum = chosen.sum::<f64>() + self.fixed.values().sum::<f64>();
        sum.max(1.0)
    }
}

/// Returns whether the weight of a container in the SSD tier is decided here.
pub(super) fn is_chosen(container: &Container) -> bool {
    container.is_controlled() && container.store.has_ssd() && container.store.has_memory()
}

/// Returns the times to read a page for the containers whose weights are decided here.
fn times(matches: Matches<'_>, members: &BTreeMap<String, Member>) -> BTreeMap<String, Times> {
    // The devices are common to all containers of a VM.
    let measured = members.values().filter_map(|member| member.times.ssd());
    let measured: Vec<Nanoseconds> = measured.collect();
    let count = measured.len() as f64;
    let usual = (count > 0.0).then(|| measured.into_iter().sum::<Nanoseconds>() / count);
    let chosen = matches.iter().filter(|(_, it)| is_chosen(it));
    let times = |(cgroup, container): (&String, &Container)| {
        let disk = container.disk_ms.map(|ms| Nanoseconds(ms * 1e6));
        let times = members.get(cgroup)?.times.times(disk, usual);
        Some((cgroup.clone(), times))
    };
    chosen.filter_map(times).collect()
}

#[cfg(test)]
mod tests;
