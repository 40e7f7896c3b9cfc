// SPDX-License-Identifier: GPL-2.0-only

//! The accounting of the host: pages put, pages removed, and pages held. They must agree exactly
//! whenever no page moves.

use anyhow::{Result, ensure};
use ddlab::{Machine, wait};

use crate::ddctl::{self, PoolStats, Vm};

/// Does [`check`] after a guest has sent the flushes of its last reads, which it sends later.
pub(crate) fn settle(host: &Machine, guest: &Machine) -> Result<Vec<Vm>> {
    wait::until("the guest has no flushes to send", || {
        let counted = ddctl::counters(guest)?;
        Ok((counted.flushes_waiting == 0).then_some(()))
    })?;
    check(host)
}

/// Waits until no page moves at the host. Checks that the pages of every pool agree with its
/// counters, those of every VM with its pools, and those of the tier with the VMs. Returns the VMs.
pub(crate) fn check(host: &Machine) -> Result<Vec<Vm>> {
    let (vms, used) = wait::until_still("the host's counters", || {
        let vms = ddctl::vms(host)?;
        Ok((vms, ddctl::host(host)?.used_pages))
    })?;
    let mut tier = 0;
    for vm in &vms {
        let mut pools = 0;
        for container in &vm.containers {
            let stats = container.stats.unwrap_or_default();
            ensure!(
                stats.used == stats.expected_used(),
                "container {} of VM {} holds {} pages, but its counters say {}: {stats:?}",
                container.name,
                vm.id,
                stats.used,
                stats.expected_used() as i64,
            );
            ensure!(
                stats.ssd_used == stats.expected_ssd_used(),
                "container {} of VM {} holds {} pages in the SSD tier, but its counters say {}: {stats:?}",
                container.name,
                vm.id,
                stats.ssd_used,
                stats.expected_ssd_used() as i64,
            );
            pools += stats.used - stats.ssd_used;
        }
        ensure!(
            vm.used_pages == pools,
            "VM {} holds {} pages, but its containers hold {pools}",
            vm.id,
            vm.used_pages
        );
        tier += vm.used_pages;
    }
    ensure!(
        used == tier,
        "the tier holds {used} pages, but the VMs hold {tier}"
    );
    Ok(vms)
}

/// Returns the sum of a counter over the containers of a VM.
pub(crate) fn total(vm: &Vm, counter: fn(&PoolStats) -> u64) -> u64 {
    let stats = vm.containers.iter().filter_map(|one| one.stats.as_ref());
    stats.map(counter).sum()
}
