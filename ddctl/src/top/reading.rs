// SPDX-License-Identifier: GPL-2.0-only

//! Numbers that were read of a module at one time.

use crate::target::{NamedVm, pool_label};
use ddabi::pool::{PoolStats, Store};
use ddnl::{Pool, printable};
use std::time::Duration;

/// State of a module at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    /// Time since a fixed moment, which never steps.
    pub(crate) at: Duration,
    /// Time of day.
    pub(crate) time: String,
    /// The side of the module, `host` or `guest`, with its mode or its link.
    pub(crate) title: String,
    /// Tiers of the cache.
    pub(crate) tiers: Vec<Tier>,
    /// Sum over all rows.
    pub(crate) total: Counts,
    /// VMs; empty in a guest.
    pub(crate) vms: Vec<Row>,
    /// Containers of the VM that is shown; `None` while VMs are shown, or if the VM has gone.
    pub(crate) containers: Option<Vec<Row>>,
    /// Number of all containers.
    pub(crate) container_count: u64,
    /// State that an administrator has to know about.
    pub(crate) notice: Option<String>,
}

/// A tier of the cache.
#[derive(Clone, Debug)]
pub(crate) struct Tier {
    /// Name of the tier.
    pub(crate) name: &'static str,
    /// Pages in use.
    pub(crate) used: u64,
    /// Capacity on a host, entitlement in a guest, in pages.
    pub(crate) size: u64,
    /// Further information about the tier.
    pub(crate) note: String,
    /// Whether an administrator has to know about it.
    pub(crate) alarm: bool,
}

/// Counters of a row, in pages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Pages requested.
    pub(crate) gets: u64,
    /// Requested pages that were returned.
    pub(crate) given: u64,
    /// Pages stored.
    pub(crate) puts: u64,
    /// Pages refused.
    pub(crate) refused: u64,
    /// Pages evicted.
    pub(crate) evicted: u64,
}

impl Counts {
    /// Adds the counters of another row.
    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.gets, other.gets),
            (&mut self.given, other.given),
            (&mut self.puts, other.puts),
            (&mut self.refused, other.refused),
            (&mut self.evicted, other.evicted),
        ] {
            *sum = sum.wrapping_add(more);
        }
    }
}

impl From<&PoolStats> for Counts {
    fn from(stats: &PoolStats) -> Self {
        Self {
            gets: stats.gets,
            given: stats.gets.saturating_sub(stats.misses),
            puts: stats.puts,
            refused: stats.put_refused(),
            evicted: stats.evictions,
        }
    }
}

/// A VM or a container.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Its number.
    pub(crate) id: u32,
    /// Its name, made printable.
    pub(crate) name: String,
    /// Its weight.
    pub(crate) weight: u32,
    /// Pages in use, of a VM those in the memory tier.
    pub(crate) used: u64,
    /// Pages entitled to.
    pub(crate) entitled: u64,
    /// Pages in use in the SSD tier.
    pub(crate) ssd_used: u64,
    /// Pages entitled to in the SSD tier.
    pub(crate) ssd_entitled: u64,
    /// Number of containers of a VM.
    pub(crate) containers: u32,
    /// Store and policy of a container.
    pub(crate) kind: Option<(&'static str, &'static str)>,
    /// Its counters.
    pub(crate) counts: Counts,
}

impl From<&NamedVm> for Row {
    fn from(named: &NamedVm) -> Self {
        let vm = &named.vm;
        Self {
            id: vm.id,
            name: printable(&named.label()).into_owned(),
            weight: vm.weight,
            used: vm.used,
            entitled: vm.entitlement,
            ssd_used: vm.stats.ssd_used,
            ssd_entitled: vm.stats.ssd_entitlement,
            containers: vm.pools,
            kind: None,
            counts: (&vm.stats).into(),
        }
    }
}

impl From<&Pool> for Row {
    fn from(pool: &Pool) -> Self {
        let stats = pool.stats_or_zero();
        Self {
            id: pool.id,
            name: pool_label(pool),
            weight: pool.weight,
            used: stats.used,
            entitled: match pool.store {
                Store::None => 0,
                Store::Memory => stats.entitlement,
                Store::Ssd => stats.ssd_entitlement,
                Store::Hybrid => stats.entitlement + stats.ssd_entitlement,
            },
            ssd_used: stats.ssd_used,
            ssd_entitled: stats.ssd_entitlement,
            containers: 0,
            kind: Some((pool.store.name(), pool.policy.name())),
            counts: (&stats).into(),
        }
    }
}
