// SPDX-License-Identifier: GPL-2.0-only

//! The books of the host: what came, what left, what is there. They must
//! balance to the page whenever nothing moves.

use anyhow::{Result, ensure};
use ddlab::{Machine, wait};

use crate::{
    counters::PoolStats,
    ddctl::{self, Vm},
};

/// Waits until nothing moves at the host, and checks that every pool holds what
/// its counters say, every VM what its pools hold, and the tier what the VMs
/// hold. Returns the VMs.
pub(crate) fn balance(host: &Machine) -> Result<Vec<Vm>> {
    let (vms, used) = wait::until_still("the host's books", || {
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

/// Sums over the containers of a VM.
pub(crate) fn total(vm: &Vm, counter: fn(&PoolStats) -> u64) -> u64 {
    let stats = vm.containers.iter().filter_map(|one| one.stats.as_ref());
    stats.map(counter).sum()
}
