// SPDX-License-Identifier: GPL-2.0

//! Our engine, set up as the host module does it: a session of shards, each behind its lock, pages
//! counted for pool, VM and tier, and eviction in batches of 2 MiB when the tier is full.

use std::sync::{
    Mutex, MutexGuard, TryLockError,
    atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

use ddcore::store::{Batch, Group, Hasher, Heap, Reason, Removed, Store};

use crate::{cache::Cache, mix::Run};

/// Binary logarithm of the number of shards, as in the host module.
const SHARD_BITS: u32 = 3;

/// Pages of an eviction batch.
const EVICTION: u64 = 512;

/// Looks at a lock that is taken, before others may run.
const SPINS: u32 = 256;

/// Pages that one shard evicts in a turn.
const TURN: u32 = 32;

type Shard = Mutex<Store<Heap>>;

/// One VM with one pool on a tier of its own.
pub(crate) struct Engine {
    hasher: Hasher,
    shards: Vec<Shard>,
    /// Pages of the VM.
    used: AtomicU64,
    /// Pages of the tier.
    tier: AtomicU64,
    capacity: u64,
    rotor: AtomicUsize,
}

impl Engine {
    /// An engine for so many pages.
    pub(crate) fn new(capacity: u64) -> Self {
        let hasher = Hasher::new(0x5eed_5eed_5eed_5eed);
        let shard = || Mutex::new(Store::new(Heap::with_lists(1), hasher));
        Self {
            hasher,
            shards: (0..1 << SHARD_BITS).map(|_| shard()).collect(),
            used: AtomicU64::new(0),
            tier: AtomicU64::new(0),
            capacity,
            rotor: AtomicUsize::new(0),
        }
    }

    /// Works on all parts of some runs, a batch at a time, shard by shard.
    fn work(&self, runs: &[Run], mut work: impl FnMut(&mut Store<Heap>, &Group<'_>)) {
        let mut batch = Batch::new();
        let mut place = 0;
        for run in runs {
            let mut key = run.key;
            let mut left = run.pages as usize;
            loop {
                let added = batch.add(&self.hasher, &key, left, (place, 0));
                place += added;
                left -= added;
                if left == 0 {
                    break;
                }
                key.index += added as u64;
                batch.by_shard(SHARD_BITS, |shard, group| {
                    work(&mut self.lock(shard), &group);
                });
            }
        }
        batch.by_shard(SHARD_BITS, |shard, group| {
            work(&mut self.lock(shard), &group);
        });
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, Store<Heap>> {
        // Held for less than a microsecond: spinning, as the module does, beats sleeping. But here
        // who holds it may be interrupted, and then others had better let it run.
        let mut spins = 0;
        loop {
            match self.shards[shard].try_lock() {
                Ok(guard) => return guard,
                Err(TryLockError::WouldBlock) if spins < SPINS => std::hint::spin_loop(),
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
                Err(TryLockError::Poisoned(error)) => panic!("{error}"),
            }
            spins += 1;
        }
    }

    fn reserve(&self, pages: u64) {
        if self.tier.fetch_add(pages, Relaxed) + pages > self.capacity {
            self.evict();
        }
    }

    fn went(&self, pages: u64) {
        self.used.fetch_sub(pages, Relaxed);
        self.tier.fetch_sub(pages, Relaxed);
    }

    fn evict(&self) {
        let (mut evicted, mut dry) = (0, 0);
        while evicted < EVICTION && dry < self.shards.len() {
            let turn = self.rotor.fetch_add(1, Relaxed) % self.shards.len();
            let got = self
                .lock(turn)
                .remove_oldest(0, TURN, Reason::Eviction, |page| {
                    std::hint::black_box(page.into_handle());
                });
            evicted += u64::from(got);
            dry = if got == 0 { dry + 1 } else { 0 };
        }
        self.went(evicted);
    }

    fn remove(&self, runs: &[Run], reason: Reason, frames: &mut Vec<u64>) {
        let before = frames.len();
        self.work(runs, |store, group| {
            store.take(group, reason, |_, page| frames.push(page.into_handle()));
        });
        self.went((frames.len() - before) as u64);
    }
}

impl Cache for Engine {
    fn put(&self, runs: &[Run], frame: u64) {
        let pages = runs.iter().map(|run| run.pages as usize).sum::<usize>();
        self.reserve(pages as u64);
        let mut handles = [0; 64];
        for (handle, frame) in handles.iter_mut().zip(frame..) {
            *handle = frame;
        }
        let (mut replaced, mut stored) = (0, 0);
        self.work(runs, |store, group| {
            store.supply(group.len());
            let drop = |_, page: Removed| {
                std::hint::black_box(page.into_handle());
                replaced += 1;
            };
            store.insert(group, 0, &handles, drop, |part| stored += part.pages());
        });
        assert_eq!(stored, pages, "there is room");
        self.used.fetch_add(pages as u64, Relaxed);
        if replaced > 0 {
            self.went(replaced);
        }
    }

    fn get(&self, runs: &[Run], frames: &mut Vec<u64>) {
        self.remove(runs, Reason::Hit, frames);
    }

    fn flush(&self, runs: &[Run]) -> usize {
        let mut frames = Vec::with_capacity(64);
        self.remove(runs, Reason::Flush, &mut frames);
        frames.len()
    }
}
