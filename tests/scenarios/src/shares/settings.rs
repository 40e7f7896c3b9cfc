// SPDX-License-Identifier: GPL-2.0-only

//! Other settings that an administrator changes at run time: capacity, batch and mode.

use anyhow::{Result, ensure};
use ddlab::{Machine, Target, wait};

use super::{CAPACITY_MIB, OFF, curve::Peers, curve::deviation, entitled};
use crate::{ddctl, stage::ratio};

/// Pages of the batch that `shares` sets.
pub(super) const BATCH_PAGES: u64 = 32;
/// Deviation from the entitlement, in percent, if weights have no effect: two peers that put
/// equally have half each, which is two thirds more than 30 of 100.
const FAR: f64 = 20.0;

/// Changes each setting under load and back. The peers have weights of 30:70 and use all room that
/// they can get.
pub(super) fn change(host: &Machine, peers: Peers) -> Result<Vec<Target>> {
    let targets = vec![batches(host)?];
    let all = ddctl::host(host)?.capacity_pages;
    ddctl::run(host, &format!("set-capacity {}M", CAPACITY_MIB / 2))?;
    let left = ddctl::host(host)?.used_pages;
    ensure!(
        left <= all / 2,
        "{left} pages are left of a capacity of {}",
        all / 2
    );
    settle(host, peers, "of half the capacity")?;
    let shares = peers(&ddctl::vms(host)?)?;
    entitled("VMs", &shares, [30, 70])?;
    let entitled: u64 = shares.iter().map(|share| share.entitlement).sum();
    // Each entitlement is rounded down to whole pages.
    ensure!(
        entitled <= all / 2 && entitled + shares.len() as u64 > all / 2,
        "{entitled} pages of a capacity of {} are divided",
        all / 2
    );
    ddctl::run(host, &format!("set-capacity {CAPACITY_MIB}M"))?;
    settle(host, peers, "of the whole capacity")?;

    ddctl::run(host, "mode fifo")?;
    wait::until("one FIFO for all forgets the weights", || {
        Ok((off(host, peers)? > FAR).then_some(()))
    })?;
    ddctl::run(host, "mode weighted")?;
    settle(host, peers, "by weight again")?;
    Ok(targets)
}

/// Returns the target for the number of pages evicted at a time.
fn batches(host: &Machine) -> Result<Target> {
    let before = ddctl::host(host)?;
    let counted = || -> Result<(u64, u64)> {
        let now = ddctl::host(host)?.counters;
        let batches = now.eviction_batches - before.counters.eviction_batches;
        Ok((now.evicted - before.counters.evicted, batches))
    };
    let (evicted, batches) = wait::until("a quarter of the tier is replaced", || {
        let counted = counted()?;
        Ok((counted.0 >= before.capacity_pages / 4).then_some(counted))
    })?;
    Ok(Target::at_most(
        "shares: pages evicted at a time",
        (2 * BATCH_PAGES) as f64,
        ratio(evicted, batches),
        "",
    ))
}

/// Waits until all peers have their shares.
fn settle(host: &Machine, peers: Peers, of: &str) -> Result<()> {
    wait::until(&format!("the VMs have their shares {of}"), || {
        Ok((off(host, peers)? <= OFF).then_some(()))
    })
}

/// Returns the deviation of the peers from their entitlements.
fn off(host: &Machine, peers: Peers) -> Result<f64> {
    Ok(deviation(&peers(&ddctl::vms(host)?)?))
}
