// SPDX-License-Identifier: GPL-2.0-only

//! The processes of a torture.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use ddhelper::kind::Kind;
use ddlab::{Command, Guest, Machine, Running, Target, wait};
use serde::Deserialize;

use super::{Site, disturbance};
use crate::{ddctl, stage::percent};

/// The containers. Each filesystem is used from both.
pub(crate) const CONTAINERS: [&str; 2] = ["left", "right"];
const LIMIT: &str = "14M";
/// Number of pages that must come from the host for a meaningful result.
const SOME: u64 = 300;

/// The report of a process of the torture.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Tally {
    pub(crate) checks: u64,
    pub(crate) bytes: u64,
    pub(crate) changes: u64,
    /// Reads by way: compared, and refused by the filesystem.
    #[serde(default)]
    pub(crate) ways: BTreeMap<String, Count>,
    /// Number of successes of each operation that only some filesystems offer.
    pub(crate) done: BTreeMap<Kind, u64>,
    pub(crate) wrong: Vec<String>,
}

/// Results of one way to read.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct Count {
    pub(crate) compared: u64,
    pub(crate) refused: u64,
}

/// Ways to read that must all have been compared. Reads that leave the cache immediately are not
/// offered everywhere.
const WAYS: [&str; 5] = ["call", "vector", "mapping", "direct", "splice"];
/// Minimum fraction, one in this number, of the rarest way; one read in 20 is tried, many in a row.
const RAREST: u64 = 200;

impl Tally {
    /// Returns the ways to read that were hardly compared.
    pub(crate) fn rare(&self) -> Vec<&'static str> {
        let compared = |way: &str| self.ways.get(way).map_or(0, |count| count.compared);
        let is_rare = |way: &&str| compared(way) * RAREST < self.checks;
        WAYS.into_iter().filter(is_rare).collect()
    }

    /// Returns the reads that were refused although every filesystem offers them, in percent of
    /// all.
    pub(crate) fn refused(&self) -> f64 {
        let refused = WAYS.iter().filter_map(|way| self.ways.get(*way));
        percent(refused.map(|count| count.refused).sum(), self.checks)
    }

    /// Returns the operations that must have succeeded on a filesystem and did not.
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
    /// Makes the filesystems on their disks, and starts the processes on them from two containers.
    /// They run until a filesystem has seen `checks` reads.
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

    /// Returns the same after its machine was migrated to another one.
    pub(crate) fn moved(self, to: &Machine) -> Self {
        let workers = self.workers.into_iter();
        let disturbers = self.disturbers.into_iter();
        Self {
            sites: self.sites,
            workers: workers.map(|(site, one)| (site, one.moved(to))).collect(),
            disturbers: disturbers.map(|one| one.moved(to)).collect(),
        }
    }

    /// Waits until pages have come from the host.
    pub(crate) fn some_hits(guest: &Machine) -> Result<()> {
        Self::hits(guest, SOME)
    }

    /// Waits until this number of pages have come from the host, as long as some of them come from
    /// time to time.
    pub(crate) fn hits(guest: &Machine, pages: u64) -> Result<()> {
        let mut seen = ddctl::counters(guest)?.get_hits;
        let wanted = seen + pages;
        while seen < wanted {
            let next = wanted.min(seen + SOME);
            seen = wait::until("pages come from the host", || {
                let now = ddctl::counters(guest)?.get_hits;
                Ok((now >= next).then_some(now))
            })?;
        }
        Ok(())
    }

    /// Ends it. Returns the targets for wrong reads, and for the minimum number of reads.
    pub(crate) fn verdict(self, scenario: &str, least: u64) -> Result<[Target; 2]> {
        let sums = self.end()?;
        let sum = |of: fn(&Tally) -> u64| sums.iter().map(|(_, tally)| of(tally)).sum::<u64>();
        let (checks, changes) = (sum(|tally| tally.checks), sum(|tally| tally.changes));
        Ok([
            Target::none(
                format!("{scenario}: wrong reads"),
                sum(|tally| tally.wrong.len() as u64),
            )
            .detail(format!("of {checks}, between {changes} changes")),
            Target::at_least(
                format!("{scenario}: reads compared"),
                least as f64,
                checks as f64,
                "",
            ),
        ])
    }

    /// Makes all processes end soon, however many reads there were.
    pub(crate) fn stop(&self, guest: &Machine) -> Result<()> {
        self.sites.iter().try_for_each(|site| site.stop(guest))
    }

    /// Waits for the end. Returns the results by filesystem, and prints errors.
    pub(crate) fn end(self) -> Result<Vec<(&'static Site, Tally)>> {
        let sites = self.sites.into_iter();
        let mut sums: Vec<_> = sites.map(|site| (site, Tally::default())).collect();
        for (site, mut worker) in self.workers {
            let (site, sum) = sums
                .get_mut(site)
                .context("the filesystem is not one of the sites")?;
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

/// Enrols the containers. One uses all room that it can get; the default policy decides for the
/// other.
pub(crate) fn add_containers(guest: &Machine) -> Result<()> {
    for (name, policy) in CONTAINERS.into_iter().zip(["fifo", "adaptive"]) {
        let add = format!("container add {name} --weight 100 --policy {policy}");
        ddctl::run(guest, &add)?;
    }
    Ok(())
}

/// Keeps the pages of one container on a device, and moves the other one between the tiers until
/// the disturbance ends.
pub(super) fn move_between_tiers(guest: &Machine) -> Result<Running> {
    let [moving, on_device] = CONTAINERS;
    ddctl::run(guest, &format!("container set-store {on_device} ssd"))?;
    let step = |store: &str| format!("ddctl container set-store {moving} {store} && sleep 0.5");
    let line = format!("while {} && {}; do :; done", step("ssd"), step("mem"));
    guest.spawn(&Command::new(["sh".into(), "-c".into(), line]))
}

/// Puts both containers into both tiers, and moves their pages back and forth until the disturbance
/// ends: a larger memory tier promotes, a smaller one demotes. Half of the time pages stay on the
/// device when they are read.
pub(super) fn move_thresholds(host: &Machine, guest: &Machine) -> Result<Running> {
    for name in CONTAINERS {
        ddctl::run(guest, &format!("container set-store {name} hybrid"))?;
    }
    let [large, small] = [
        "ddctl set-capacity 16M --keep-free 64K --promote-free 256K",
        "ddctl set-capacity 1M --keep-free 64K --promote-free 256K",
    ];
    let retain = |way: &str| format!("ddctl ssd set --retain {way}");
    let (on, off) = (retain("on"), retain("off"));
    let line = format!("while {large} && {on} && {small} && {off}; do :; done");
    host.spawn(&Command::new(["sh", "-c", &line]))
}

/// Waits for a process of the torture. Returns its report.
fn finish(name: &str, worker: &mut Running) -> Result<Tally> {
    let exit = worker.wait()?;
    let output = worker.output()?;
    ensure!(exit.success(), "the torture of {name} failed: {output}");
    serde_json::from_str(output.trim()).with_context(|| format!("{name} said {output}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::site::EXT4_ALONE;

    /// Reads in these tests, of which each way must have at least five.
    const CHECKS: u64 = 1000;

    /// A tally in which the ways share the reads, except for those given here.
    fn tally(compared: &[(&str, u64)], refused: &[(&str, u64)]) -> Tally {
        let find = |list: &[(&str, u64)], way: &str| {
            let found = list.iter().find(|(name, _)| *name == way);
            found.map(|(_, count)| *count)
        };
        let ways = WAYS.into_iter().chain(["uncached"]).map(|way| {
            let count = Count {
                compared: find(compared, way).unwrap_or(CHECKS / 5),
                refused: find(refused, way).unwrap_or(0),
            };
            (way.to_owned(), count)
        });
        Tally {
            checks: CHECKS,
            ways: ways.collect(),
            ..Tally::default()
        }
    }

    #[test]
    fn ways_that_are_hardly_compared_are_named() {
        assert_eq!(tally(&[], &[]).rare(), [""; 0]);
        assert_eq!(tally(&[("splice", 5)], &[]).rare(), [""; 0]);
        assert_eq!(tally(&[("splice", 4)], &[]).rare(), ["splice"]);
        for way in WAYS {
            assert_eq!(tally(&[(way, 0)], &[]).rare(), [way]);
            let mut absent = tally(&[], &[]);
            absent.ways.remove(way);
            assert_eq!(absent.rare(), [way]);
        }
        // Not every filesystem offers reads that leave the cache immediately.
        assert_eq!(tally(&[("uncached", 0)], &[]).rare(), [""; 0]);
    }

    #[test]
    fn refused_reads_of_all_ways_count() {
        assert_eq!(tally(&[], &[]).refused(), 0.0);
        assert_eq!(tally(&[], &[("direct", 10)]).refused(), 1.0);
        let both = [("direct", 10), ("mapping", 5)];
        assert_eq!(tally(&[], &both).refused(), 1.5);
        assert_eq!(tally(&[], &[("uncached", 10)]).refused(), 0.0);
    }

    #[test]
    fn every_offered_operation_must_succeed() {
        let site = &EXT4_ALONE[0];
        let mut tally = Tally::default();
        let offered: Vec<Kind> = site.offers().collect();
        assert!(offered.contains(&Kind::Ring) && offered.contains(&Kind::Verity));
        assert_eq!(tally.missing(site), offered);
        tally.done = offered.iter().map(|kind| (*kind, 1)).collect();
        assert_eq!(tally.missing(site), []);
        for kind in offered {
            let times = tally.done.remove(&kind).unwrap();
            assert_eq!(tally.missing(site), [kind]);
            tally.done.insert(kind, times);
        }
        // What other filesystems offer is not missing here.
        assert!(!site.offers().any(|kind| kind == Kind::Exchange));
    }
}
