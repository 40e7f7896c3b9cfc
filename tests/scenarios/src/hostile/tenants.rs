// SPDX-License-Identifier: GPL-2.0-only

//! An attacker with the maximum number of pools, and pages in them.

use std::time::{Duration, Instant};

use anyhow::Result;
use ddlab::{Machine, Target, wait};

use super::{
    Attack, Peak, ROUND, Shares, WITH_POOLS_KIB,
    fuzzer::{Fuzzer, POOLS, STORMS, Tally},
    share::BESIDE_POOLS,
};
use crate::{
    accounting,
    ddctl::{self, Vm},
    stage::percent,
};

/// Number of pools that must exist at the same time. The host allows 1024.
const MANY: usize = 1000;
/// Number of pools of these that must have pages; 193 or more had in five runs.
const HOLDING: f64 = 150.0;
/// Requests for more pools than the host allows, in percent of all requests; at least 1.4 in four
/// runs.
const BEYOND: f64 = 0.7;
/// Number of passes of the victim over its file; there were seven or more.
const MIN_PASSES: f64 = 4.0;
/// Maximum wait for all statistics in seconds. It was 5 to 9 on an emulated host with two
/// processors, which three tasks attack, and 27 in one run with another such host beside it.
const STATISTICS_S: f64 = 30.0;

/// Observations while there were many pools.
#[derive(Default)]
struct Observations {
    pools: usize,
    /// Number of pools that had pages.
    holding: usize,
    /// The parts of its entitlement that the victim held.
    shares: Shares,
    /// Longest wait of the host's administrator for the statistics of all pools.
    slowest: Duration,
}

impl Observations {
    /// Looks at the host. Returns whether there were enough looks.
    fn look(&mut self, attack: &Attack<'_>) -> Result<bool> {
        let host = attack.stage.host();
        let start = Instant::now();
        let vms = ddctl::vms(host)?;
        let took = start.elapsed();
        let Ok(Vm { containers, .. }) = ddctl::vm(&vms, "hostile") else {
            return Ok(false);
        };
        if containers.len() < MANY {
            return Ok(false);
        }
        let holding = containers.iter().filter(|pool| pool.used_pages > 0);
        self.pools = self.pools.max(containers.len());
        self.holding = self.holding.max(holding.count());
        self.slowest = self.slowest.max(took);
        self.shares.look(&vms)?;
        Ok(self.shares.are_enough())
    }
}

/// Makes the attacker create, fill, empty and destroy pools until its session ends.
pub(super) fn attack(attack: &Attack<'_>) -> Result<Vec<Target>> {
    let host = attack.stage.host();
    let (mut peak, mut seen) = (Peak::default(), Observations::default());
    let before = ddctl::host(host)?.counters;
    let ((tally, seconds), passes) = attack.victim.beside(|| {
        let start = Instant::now();
        let look = &mut || seen.look(attack);
        let tally = attack.send(POOLS, 2, ROUND / 2, &mut peak, look)?;
        Ok((tally, start.elapsed().as_secs_f64()))
    })?;
    let counted = ddctl::host(host)?.counters - before;
    eprintln!("    {seconds:.0} s with many pools, {passes} passes: {counted:?}");
    accounting::check(host)?;
    leave(attack)?;
    attack.victim.check()?;
    let mut targets = targets(host, &seen, &tally, passes);
    targets.extend(attack.caps("many pools", &peak, WITH_POOLS_KIB)?);
    Ok(targets)
}

/// The attacker's session ends with all its pools.
fn leave(attack: &Attack<'_>) -> Result<()> {
    let fuzzer = Fuzzer::start(attack.hostile, STORMS, 3)?;
    fuzzer.sends()?;
    fuzzer.stop()?;
    wait::until("the pools are gone", || {
        let vms = ddctl::vms(attack.stage.host())?;
        // Its last request may have been to register again.
        let left = ddctl::vm(&vms, "hostile").ok();
        let gone = left.is_none_or(|vm| vm.containers.len() <= 1 && vm.used_pages == 0);
        Ok(gone.then_some(()))
    })
}

fn targets(host: &Machine, seen: &Observations, tally: &Tally, passes: u64) -> Vec<Target> {
    let shares = seen.shares.targets("hostile: many pools", BESIDE_POOLS);
    let mut targets = Vec::from(shares);
    targets.extend([
        Target::at_least(
            "hostile: pools of one VM at a time",
            MANY as f64,
            seen.pools as f64,
            "",
        ),
        Target::at_least(
            "hostile: of these, with pages",
            HOLDING,
            seen.holding as f64,
            "",
        ),
        Target::at_least(
            "hostile: refused: pools beyond the limit, of all requests",
            BEYOND,
            percent(tally.limit, tally.sent),
            "%",
        ),
        Target::none(
            "hostile: many pools: answers with an undocumented status",
            tally.unknown,
        ),
        Target::none(
            "hostile: many pools: pages returned with other content than was put",
            tally.foreign,
        )
        .detail(format!("of {}", tally.given)),
        Target::at_least(
            "hostile: many pools: passes of the victim over its file, all content right",
            (MIN_PASSES / host.at_its_pace(1.0)).ceil(),
            passes as f64,
            "",
        ),
        Target::at_most(
            "hostile: many pools: longest wait for the statistics of all pools",
            host.at_its_pace(STATISTICS_S),
            seen.slowest.as_secs_f64(),
            "s",
        ),
    ]);
    targets
}
