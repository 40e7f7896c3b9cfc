// SPDX-License-Identifier: GPL-2.0-only

//! Accumulates the counters of each VM's containers.
//!
//! The module's own sums cover existing containers only, and fall when one is removed. Prometheus
//! takes a counter that falls for one that restarted at 0, and would add the counts of the other
//! containers a second time. The sums here therefore keep the counts of removed containers.

use ddabi::pool::PoolStats;
use ddnl::Pool;
use std::collections::BTreeMap;

/// Sums by the name of the store that a container had at the time.
pub type Totals = BTreeMap<&'static str, PoolStats>;

const WORDS: usize = size_of::<PoolStats>() / size_of::<u64>();

/// The sums of all VMs.
#[derive(Clone, Debug, Default)]
pub struct Accumulator(BTreeMap<u32, VmCounters>);

#[derive(Clone, Debug, Default)]
struct VmCounters {
    pid: u32,
    totals: Totals,
    /// The counters of each pool at the last update.
    last: BTreeMap<u32, PoolStats>,
}

impl Accumulator {
    /// Adds the changes since the last update. `vms` are all VMs with their processes, `pools` all
    /// pools.
    pub fn update(&mut self, vms: impl Iterator<Item = (u32, u32)>, pools: &[Pool]) {
        let mut before = std::mem::take(&mut self.0);
        for (vm, pid) in vms {
            // Numbers are reused: a VM with another process is another VM.
            let counters = before.remove(&vm).filter(|counters| counters.pid == pid);
            let counters = counters.unwrap_or_default();
            self.0.insert(vm, VmCounters { pid, ..counters });
        }
        let mut last: BTreeMap<u32, BTreeMap<u32, PoolStats>> = BTreeMap::new();
        for pool in pools {
            let (Some(vm), Some(stats)) = (pool.vm, pool.stats) else {
                continue;
            };
            let Some(counters) = self.0.get_mut(&vm) else {
                continue;
            };
            let since = match counters.last.get(&pool.id) {
                Some(before) if !is_anew(&stats, before) => difference(&stats, before),
                _ => stats,
            };
            let store = ddnl::reply::store_word(pool.store);
            counters.totals.entry(store).or_default().merge(&since);
            last.entry(vm).or_default().insert(pool.id, stats);
        }
        for (vm, counters) in &mut self.0 {
            counters.last = last.remove(vm).unwrap_or_default();
        }
    }

    /// Forgets all counters, because the module was loaded again.
    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// Returns the sums of each VM.
    pub fn totals(&self) -> BTreeMap<u32, Totals> {
        let totals = |(vm, counters): (&u32, &VmCounters)| (*vm, counters.totals.clone());
        self.0.iter().map(totals).collect()
    }
}

/// Returns whether the counters are those of another pool with the same number.
fn is_anew(now: &PoolStats, before: &PoolStats) -> bool {
    let sums = |it: &PoolStats| [it.puts, it.gets, it.get_batches, it.put_batches];
    let (now, before) = (sums(now), sums(before));
    now.iter().zip(before).any(|(now, before)| *now < before)
}

fn difference(now: &PoolStats, before: &PoolStats) -> PoolStats {
    let mut words: [u64; WORDS] = zerocopy::transmute!(*now);
    let before: [u64; WORDS] = zerocopy::transmute!(*before);
    for (word, before) in words.iter_mut().zip(before) {
        *word = word.wrapping_sub(before);
    }
    zerocopy::transmute!(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ddabi::pool::Store;
    use ddnl::fake;

    fn pool(id: u32, store: Store, hits: u64) -> Pool {
        let mut stats = PoolStats {
            hits,
            gets: hits,
            ..PoolStats::default()
        };
        stats.get_latency[12] = hits;
        Pool {
            store,
            ..fake::pool(1, id, "", stats)
        }
    }

    fn hits(accumulator: &Accumulator) -> Vec<(&'static str, u64, u64)> {
        let totals = accumulator.totals();
        let stores = totals[&1].iter();
        stores
            .map(|(store, stats)| (*store, stats.hits, stats.get_latency[12]))
            .collect()
    }

    #[test]
    fn sums_keep_what_removed_containers_counted() {
        let mut accumulator = Accumulator::default();
        let mut list = |pools: &[Pool]| {
            accumulator.update([(1, 40)].into_iter(), pools);
            hits(&accumulator)
        };
        let mem = Store::Memory;
        assert_eq!(list(&[pool(0, mem, 5), pool(1, mem, 7)]), [("mem", 12, 12)]);
        assert_eq!(list(&[pool(0, mem, 6)]), [("mem", 13, 13)]);
        // Another pool of the same number begins at 0.
        assert_eq!(list(&[pool(0, mem, 6), pool(1, mem, 2)]), [("mem", 15, 15)]);
        assert_eq!(list(&[pool(0, mem, 1), pool(1, mem, 2)]), [("mem", 16, 16)]);
        // What was counted in one store stays there.
        let moved = list(&[pool(0, mem, 1), pool(1, Store::Ssd, 5)]);
        assert_eq!(moved, [("mem", 16, 16), ("ssd", 3, 3)]);
    }

    #[test]
    fn another_vm_begins_at_zero() {
        let mut accumulator = Accumulator::default();
        accumulator.update([(1, 40)].into_iter(), &[pool(0, Store::Memory, 5)]);
        accumulator.update([(1, 41)].into_iter(), &[pool(0, Store::Memory, 6)]);
        assert_eq!(hits(&accumulator), [("mem", 6, 6)]);
        accumulator.update(std::iter::empty(), &[pool(0, Store::Memory, 6)]);
        assert!(accumulator.totals().is_empty());
    }
}
