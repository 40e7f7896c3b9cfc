// SPDX-License-Identifier: GPL-2.0-only

//! All processes of a torture.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use ddhelper::kind::Kind;
use ddlab::{Command, Guest, Machine, Running, Target, wait};
use serde::Deserialize;

use super::{Site, disturbance};
use crate::{ddctl, stage::percent};

/// Each filesystem is worked on from both.
pub(super) const CONTAINERS: [&str; 2] = ["left", "right"];
const LIMIT: &str = "14M";
/// Pages that must come from the host for something to have been shown.
const SOME: u64 = 300;

/// What a process of the torture says in the end.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Tally {
    pub(crate) checks: u64,
    pub(crate) bytes: u64,
    pub(crate) changes: u64,
    /// Reads by way: compared, and refused by the filesystem.
    #[serde(default)]
    pub(crate) ways: BTreeMap<String, Count>,
    /// How often each operation succeeded that only some filesystems offer.
    pub(crate) done: BTreeMap<Kind, u64>,
    pub(crate) wrong: Vec<String>,
}

/// What came of one way to read.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct Count {
    pub(crate) compared: u64,
    pub(crate) refused: u64,
}

/// Ways to read of which each must have been compared now and then; reads that leave the cache at
/// once are not offered everywhere.
const WAYS: [&str; 5] = ["call", "vector", "mapping", "direct", "splice"];
/// One read in so many is of the rarest way, at least; one in 20 is tried, many in a row.
const RAREST: u64 = 200;

impl Tally {
    /// Ways to read that were hardly compared.
    pub(crate) fn rare(&self) -> Vec<&'static str> {
        let compared = |way: &str| self.ways.get(way).map_or(0, |count| count.compared);
        let is_rare = |way: &&str| compared(way) * RAREST < self.checks;
        WAYS.into_iter().filter(is_rare).collect()
    }

    /// Reads that were refused although every filesystem offers them, in percent of all.
    pub(crate) fn refused(&self) -> f64 {
        let refused = WAYS.iter().filter_map(|way| self.ways.get(*way));
        percent(refused.map(|count| count.refused).sum(), self.checks)
    }

    /// What must have succeeded on a filesystem and did not.
    pub(crate) fn missing(&self, site: &Site) -> Vec<Kind> {
        let offered = site.offers();
        offered
            .filter(|kind| !self.done.contains_key(kind))
            .collect()
    }
}

/// The processes that read and change files, and those that disturb them.
#[derive(Debug)]
pub(crate) struct Storm {
    sites: Vec<&'static Site>,
    workers: Vec<(usize, Running)>,
    disturbers: Vec<Running>,
}

impl Storm {
    /// Makes the filesystems on their disks, and lets it loose on them from two
    /// containers, until a filesystem saw `checks` reads.
    pub(crate) fn start(guest: &Guest, sites: &[&'static Site], checks: u64) -> Result<Self> {
        for name in CONTAINERS {
            guest.cgroup(name, &[("memory.max", LIMIT)])?;
        }
        add_containers(guest)?;
        let mut storm = Self {
            sites: sites.to_vec(),
            workers: Vec::new(),
            disturbers: Vec::new(),
        };
        let share = checks.div_ceil(CONTAINERS.len() as u64);
        let made = sites.iter().map(|site| site.make(guest));
        let devices: Vec<String> = made.collect::<Result<_>>()?;
        for (number, (site, device)) in sites.iter().zip(devices).enumerate() {
            storm.disturbers.push(site.disturb(guest, &device)?);
            for container in CONTAINERS {
                let worker = site.work(guest, container, share)?;
                storm.workers.push((number, worker));
            }
        }
        Ok(storm)
    }

    /// The same after its machine went on as another one.
    pub(crate) fn moved(self, to: &Machine) -> Self {
        let workers = self.workers.into_iter();
        let disturbers = self.disturbers.into_iter();
        Self {
            sites: self.sites,
            workers: workers.map(|(site, one)| (site, one.moved(to))).collect(),
            disturbers: disturbers.map(|one| one.moved(to)).collect(),
        }
    }

    /// Waits until pages came from the host.
    pub(crate) fn some_hits(guest: &Machine) -> Result<()> {
        Self::hits(guest, SOME)
    }

    /// Waits until so many pages came from the host.
    pub(crate) fn hits(guest: &Machine, pages: u64) -> Result<()> {
        let wanted = ddctl::counters(guest)?.get_hits + pages;
        wait::until("pages come from the host", || {
            Ok((ddctl::counters(guest)?.get_hits >= wanted).then_some(()))
        })
    }

    /// Ends it; how many reads were wrong, of at least so many, without which nothing was shown.
    pub(crate) fn verdict(self, scenario: &str, least: u64) -> Result<[Target; 2]> {
        let sums = self.end()?;
        let sum = |of: fn(&Tally) -> u64| sums.iter().map(|(_, tally)| of(tally)).sum::<u64>();
        let (checks, changes) = (sum(|tally| tally.checks), sum(|tally| tally.changes));
        Ok([
            Target::at_most(
                format!("{scenario}: wrong reads of {checks} between {changes} changes"),
                0.0,
                sum(|tally| tally.wrong.len() as u64) as f64,
                "",
            ),
            Target::at_least(
                format!("{scenario}: reads compared"),
                least as f64,
                checks as f64,
                "",
            ),
        ])
    }

    /// Has all processes end soon, however much they saw.
    pub(crate) fn stop(&self, guest: &Machine) -> Result<()> {
        self.sites.iter().try_for_each(|site| site.stop(guest))
    }

    /// Waits for the end; what was seen, by filesystem. Says what was wrong.
    pub(crate) fn end(self) -> Result<Vec<(&'static Site, Tally)>> {
        let sites = self.sites.into_iter();
        let mut sums: Vec<_> = sites.map(|site| (site, Tally::default())).collect();
        for (site, mut worker) in self.workers {
            let (site, sum) = sums.get_mut(site).context("it is one of them")?;
            let tally = finish(site.name(), &mut worker)?;
            for line in tally.wrong.iter().take(10) {
                eprintln!("    {line}");
            }
            sum.checks += tally.checks;
            sum.bytes += tally.bytes;
            sum.changes += tally.changes;
            for (way, count) in tally.ways {
                let sum = sum.ways.entry(way).or_default();
                sum.compared += count.compared;
                sum.refused += count.refused;
            }
            for (kind, times) in tally.done {
                *sum.done.entry(kind).or_default() += times;
            }
            sum.wrong.extend(tally.wrong);
        }
        self.disturbers.into_iter().try_for_each(disturbance::end)?;
        Ok(sums)
    }
}

/// Enrols the containers; one takes all it can get, for what is kept of the other is
/// for the default policy to judge.
pub(crate) fn add_containers(guest: &Machine) -> Result<()> {
    for (name, policy) in CONTAINERS.into_iter().zip(["fifo", "adaptive"]) {
        let add = format!("container add {name} --weight 100 --policy {policy}");
        ddctl::run(guest, &add)?;
    }
    Ok(())
}

/// Keeps the pages of one container on a device, and moves the other one between the tiers until the
/// disturbance ends.
pub(super) fn move_between_tiers(guest: &Machine) -> Result<Running> {
    let [moving, on_device] = CONTAINERS;
    ddctl::run(guest, &format!("container set-store {on_device} ssd"))?;
    let step = |store: &str| format!("ddctl container set-store {moving} {store} && sleep 0.5");
    let line = format!("while {} && {}; do :; done", step("ssd"), step("mem"));
    guest.spawn(&Command::new(["sh".into(), "-c".into(), line]))
}

/// Waits for a process of the torture; what it says.
fn finish(name: &str, worker: &mut Running) -> Result<Tally> {
    let exit = worker.wait()?;
    let output = worker.output()?;
    ensure!(exit.success(), "the torture of {name} failed: {output}");
    serde_json::from_str(output.trim()).with_context(|| format!("{name} said {output}"))
}
