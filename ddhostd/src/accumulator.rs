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

/// Maximum number of containers of all VMs together whose counters are kept, except for
/// [`OF_EACH`]. Each takes about a KiB.
const MAX_CONTAINERS: usize = 32 << 10;
/// Containers of each VM whose counters are kept in any case.
const OF_EACH: usize = 16;

/// The sums of all VMs.
///
/// Guests choose the number of containers. A VM whose containers are too many has sums that lack
/// what some of them count.
#[derive(Clone, Debug, Default)]
pub struct Accumulator {
    vms: BTreeMap<u32, VmCounters>,
    /// Number of containers whose counters are kept.
    kept: usize,
}

#[derive(Clone, Debug, Default)]
struct VmCounters {
    pid: u32,
    totals: Totals,
    /// The counters of each pool at the last update.
    last: BTreeMap<u32, PoolStats>,
    /// Whether the counters of some pools were not kept. A pool that is new then may be one of
    /// them, so that nothing is known about the time before.
    is_cut: bool,
}

impl Accumulator {
    /// Forgets the VMs that are not among these.
    pub fn retain(&mut self, is_there: impl Fn(u32) -> bool) {
        let kept = &mut self.kept;
        self.vms.retain(|vm, counters| {
            let is_there = is_there(*vm);
            if !is_there {
                *kept -= counters.last.len();
            }
            is_there
        });
    }

    /// Adds the changes of a VM since its last update. `pools` are all its pools, and `pid` is its
    /// process.
    pub fn update(&mut self, vm: u32, pid: u32, pools: &[Pool]) {
        let counters = self.vms.entry(vm).or_default();
        self.kept -= counters.last.len();
        // Numbers are reused: a VM with another process is another VM.
        if counters.pid != pid {
            *counters = VmCounters {
                pid,
                ..VmCounters::default()
            };
        }
        let before = std::mem::take(&mut counters.last);
        let stats = |pool: &Pool| Some((pool.id, pool.store, pool.stats?));
        let (old, new): (Vec<_>, Vec<_>) = pools
            .iter()
            .filter_map(stats)
            .partition(|(id, ..)| before.contains_key(id));
        let room = OF_EACH.max(MAX_CONTAINERS.saturating_sub(self.kept));
        let was_cut = counters.is_cut;
        for (id, store, stats) in old.into_iter().chain(new) {
            let last = before.get(&id);
            if last.is_none() && counters.last.len() >= room {
                counters.is_cut = true;
                continue;
            }
            let since = match last {
                Some(before) if !is_another_pool(&stats, before) => difference(&stats, before),
                None if was_cut => PoolStats::default(),
                _ => stats,
            };
            let store = store.name();
            counters.totals.entry(store).or_default().merge(&since);
            counters.last.insert(id, stats);
        }
        self.kept += counters.last.len();
    }

    /// Forgets all counters, because the module was loaded again.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Returns the sums of each VM.
    pub fn totals(&self) -> BTreeMap<u32, Totals> {
        let totals = |(vm, counters): (&u32, &VmCounters)| (*vm, counters.totals.clone());
        self.vms.iter().map(totals).collect()
    }
}

/// Returns whether the counters are those of another pool with the same number.
fn is_another_pool(now: &PoolStats, before: &PoolStats) -> bool {
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
    fn sums_include_counters_of_removed_containers() {
        let mut accumulator = Accumulator::default();
        let mut list = |pools: &[Pool]| {
            accumulator.update(1, 40, pools);
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
        accumulator.update(1, 40, &[pool(0, Store::Memory, 5)]);
        accumulator.update(1, 41, &[pool(0, Store::Memory, 6)]);
        assert_eq!(hits(&accumulator), [("mem", 6, 6)]);
        accumulator.retain(|vm| vm != 1);
        assert!(accumulator.totals().is_empty() && accumulator.kept == 0);
    }

    #[test]
    fn guests_do_not_make_it_larger_than_its_bound() {
        let mut accumulator = Accumulator::default();
        let pools = |count: u32, hits| -> Vec<Pool> {
            let ids = 0..count;
            ids.map(|id| pool(id, Store::Memory, hits)).collect()
        };
        // A VM has at most 1024 pools.
        let of_vm = pools(1024, 5);
        for vm in 1..=100 {
            accumulator.update(vm, 40, &of_vm);
        }
        assert!(
            accumulator.kept <= MAX_CONTAINERS + 100 * OF_EACH,
            "{}",
            accumulator.kept
        );
        let kept = accumulator.vms.values().map(|counters| counters.last.len());
        assert_eq!(kept.sum::<usize>(), accumulator.kept);
        // A VM that comes late has sums, too.
        accumulator.update(1000, 40, &pools(OF_EACH as u32, 5));
        assert_eq!(accumulator.totals()[&1000]["mem"].hits, 80);
        // What was not kept is not counted a second time when there is room again.
        let cut = accumulator.totals()[&100]["mem"].hits;
        assert_eq!(cut, 80);
        accumulator.retain(|vm| vm == 100);
        accumulator.update(100, 40, &of_vm);
        assert_eq!(accumulator.totals()[&100]["mem"].hits, cut);
        accumulator.update(100, 40, &pools(1024, 6));
        assert_eq!(accumulator.totals()[&100]["mem"].hits, cut + 1024);
        assert_eq!(accumulator.kept, 1024);
    }
}
