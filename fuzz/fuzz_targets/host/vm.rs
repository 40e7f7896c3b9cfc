// SPDX-License-Identifier: GPL-2.0

//! What the host keeps for a VM that has registered, and the plain map beside it.

use std::collections::{BTreeMap, BTreeSet};

use ddabi::key::{FileKey, PageKey};
use ddabi::request::{CLASSES, Run};
use ddcore::partition::Entity;
use ddcore::request::{Range, Settings};
use ddcore::sequence::{Sequence, Verdict, WINDOW};
use ddcore::store::{Batch, Cursor, Group, Hasher, Heap, List, Reason, Removed, Store, Walk};

/// Binary logarithm of the number of shards.
const SHARD_BITS: u32 = 2;
/// Places for pools.
pub(crate) const POOLS: usize = 4;
/// Pages in a step of a walk, and of an eviction from a shard.
const STEP: u32 = 32;
/// Indices above are not kept.
const KEPT: u64 = 1 << 36;

type Shard = Store<Heap>;

/// The plain map: the list a page is on, and its handle.
type Model = BTreeMap<PageKey, (u16, u64)>;

/// A session.
pub(crate) struct Vm {
    pub(crate) id: u64,
    sequence: Sequence,
    seen: BTreeSet<u64>,
    hasher: Hasher,
    shards: Vec<Shard>,
    model: Model,
    pub(crate) pools: [Option<Settings>; POOLS],
    rotor: usize,
}

fn list(pool: u32, class: u8) -> u16 {
    pool as u16 * CLASSES as u16 + u16::from(class)
}

/// A page that left: it must be the one the map has.
fn gone(model: &mut Model, page: Removed) {
    let (key, pool) = (*page.key(), page.pool());
    assert_eq!(model.remove(&key), Some((pool, page.into_handle())));
}

/// Gives memory back, as the host module does after each operation.
fn tidy(store: &mut Shard) {
    if store.is_slack() {
        store.trim_and_free(128);
    }
}

impl Vm {
    pub(crate) fn new(id: u64) -> Self {
        let hasher = Hasher::new(id);
        let shard = |_| Store::new(Heap::with_lists(POOLS * CLASSES), hasher);
        let mut pools = [None; POOLS];
        pools[0] = Some(Settings::DEFAULT);
        Self {
            id,
            sequence: Sequence::new(),
            seen: BTreeSet::from([0]),
            hasher,
            shards: (0..1 << SHARD_BITS).map(shard).collect(),
            model: Model::new(),
            pools,
            rotor: 0,
        }
    }

    /// Pages held.
    pub(crate) fn used(&self) -> u64 {
        self.model.len() as u64
    }

    /// The number after the highest.
    pub(crate) fn next_number(&self) -> u64 {
        self.seen
            .last()
            .map_or(1, |highest| highest.saturating_add(1))
    }

    /// Judges a number, and the judgement.
    pub(crate) fn judge(&mut self, number: u64) -> Verdict {
        let highest = *self.seen.last().expect("zero counts as seen");
        let expected = if number > highest {
            Verdict::Accept
        } else if self.seen.contains(&number) || highest - number > WINDOW {
            Verdict::Stale
        } else {
            Verdict::Retry
        };
        assert_eq!(self.sequence.check(number), expected);
        if expected == Verdict::Accept {
            self.seen.insert(number);
        }
        expected
    }

    pub(crate) fn is_welcome(&self, run: &Run) -> bool {
        let pool = self.pools.get(run.pool as usize).copied().flatten();
        pool.is_some_and(|pool| pool.is_on())
    }

    /// Works on the parts of runs, shard by shard.
    fn by_shard(
        &mut self,
        runs: impl Iterator<Item = (Run, usize)>,
        mut work: impl FnMut(&mut Shard, &mut Model, &Group<'_>),
    ) {
        let Self {
            shards,
            model,
            hasher,
            ..
        } = self;
        let mut batch = Batch::new();
        let mut work = |batch: &mut Batch| {
            batch.by_shard(SHARD_BITS, |shard, group| {
                work(&mut shards[shard], model, &group);
                tidy(&mut shards[shard]);
            });
        };
        for (run, place) in runs {
            let pages = usize::from(run.pages);
            let mut done = 0;
            while done < pages {
                let first = PageKey {
                    file: run.file,
                    index: run.index + done as u64,
                };
                let at = (place + done, list(run.pool, run.class));
                let added = batch.add(hasher, &first, pages - done, at);
                done += added;
                if done < pages {
                    work(&mut batch);
                }
            }
        }
        work(&mut batch);
    }

    /// Stores runs whose pages have these handles, by place; room has been reserved for all.
    pub(crate) fn put(&mut self, runs: &[(Run, usize)], handles: &[u64], stamp: u64) {
        let mut older = Vec::new();
        self.by_shard(runs.iter().copied(), |store, _, group| {
            store.supply(group.len());
            let mut parts = 0;
            let older = |_, page: Removed| {
                older.push((*page.key(), (page.pool(), page.into_handle())));
            };
            store.insert(group, stamp, handles, older, |_| parts += 1);
            assert_eq!(parts, group.len(), "there is room");
        });
        let mut expected = Vec::new();
        for (run, place) in runs {
            let pages = (run.index..KEPT.max(run.index)).take(run.pages.into());
            for (index, handle) in pages.zip(&handles[*place..]) {
                let file = run.file;
                let key = PageKey { file, index };
                let page = (list(run.pool, run.class), *handle);
                expected.extend(self.model.insert(key, page).map(|older| (key, older)));
            }
        }
        older.sort_unstable();
        expected.sort_unstable();
        assert_eq!(older, expected);
        self.check_few();
    }

    /// Takes runs out.
    pub(crate) fn take(&mut self, runs: &[(Run, usize)], reason: Reason) {
        let place_of = |run: &Run, place: &usize, key: &PageKey| {
            let offset = key.index.checked_sub(run.index)?;
            let is_its = run.file == key.file && offset < run.pages.into();
            is_its.then_some(place + offset as usize)
        };
        self.by_shard(runs.iter().copied(), |store, model, group| {
            store.take(group, reason, |place, page| {
                let key = page.key();
                let mut places = runs.iter().filter_map(|(run, at)| place_of(run, at, key));
                assert!(places.any(|at| at == place), "a page of the caller's");
                gone(model, page);
            });
        });
        let wanted = |key: &PageKey| {
            runs.iter()
                .any(|(run, at)| place_of(run, at, key).is_some())
        };
        assert!(!self.model.keys().any(wanted), "all of them are gone");
    }

    pub(crate) fn flush(&mut self, range: &Range) {
        match *range {
            Range::Pages { file, first, last } => self.flush_file(&file, (first, last)),
            Range::File(file) => self.flush_file(&file, (0, u64::MAX)),
            Range::Filesystem(number) => self.sweep(|file| file.filesystem == number),
            Range::All => self.sweep(|_| true),
        }
    }

    fn flush_file(&mut self, file: &FileKey, (first, last): (u64, u64)) {
        for store in &mut self.shards {
            let mut cursor = Cursor::default();
            let model = &mut self.model;
            while store.remove_range(file, (first, last), &mut cursor, STEP, |page| {
                gone(model, page);
            }) == Walk::More
            {
                tidy(store);
            }
            tidy(store);
        }
        let flushed = |key: &PageKey| key.file == *file && (first..=last).contains(&key.index);
        assert!(!self.model.keys().any(flushed));
    }

    fn sweep(&mut self, condemned: impl Fn(&FileKey) -> bool) {
        for store in &mut self.shards {
            let mut cursor = Cursor::default();
            let model = &mut self.model;
            while store.sweep(&mut cursor, STEP, Reason::Flush, &condemned, |page| {
                gone(model, page);
            }) == Walk::More
            {
                tidy(store);
            }
            tidy(store);
        }
        assert!(!self.model.keys().any(|key| condemned(&key.file)));
    }

    pub(crate) fn migrate(&mut self, file: &FileKey, pool: u32, stamp: u64) {
        let to = |from: u16| list(pool, (from % CLASSES as u16) as u8);
        for store in &mut self.shards {
            let mut cursor = Cursor::default();
            loop {
                store.supply(2 * STEP as usize);
                let step = store.migrate(file, (to, stamp), &mut cursor, STEP, |_, _| {});
                if step == Walk::Done {
                    break;
                }
            }
            tidy(store);
        }
        for (_, (list, _)) in self.model.iter_mut().filter(|(key, _)| key.file == *file) {
            *list = to(*list);
        }
        self.check_owners();
    }

    /// Ends a pool.
    pub(crate) fn end_pool(&mut self, pool: usize) {
        self.pools[pool] = None;
        let model = &mut self.model;
        for store in &mut self.shards {
            for class in 0..CLASSES as u8 {
                let list = list(pool as u32, class);
                store.remove_oldest(list, u32::MAX, Reason::Flush, |page| gone(model, page));
                assert!(store.storage_mut().lists[usize::from(list)].reset());
            }
            tidy(store);
        }
    }

    /// Evicts up to `pages` of a pool, a shard after the other, and returns their number.
    pub(crate) fn evict(&mut self, pool: usize, pages: u64, now: u64) -> u64 {
        let order = self.pools[pool].map_or(ddcore::policy::Order::Aged, |settings| {
            settings.policy.order()
        });
        let (mut evicted, mut dry) = (0, 0);
        while evicted < pages && dry < self.shards.len() {
            self.rotor = (self.rotor + 1) % self.shards.len();
            let store = &mut self.shards[self.rotor];
            let mut got = 0;
            if let Some(class) = order.victim_in(store, list(pool as u32, 0), now) {
                let (model, list) = (&mut self.model, list(pool as u32, class as u8));
                let wanted = u64::from(STEP).min(pages - evicted) as u32;
                got = store.remove_oldest(list, wanted, Reason::Eviction, |page| {
                    assert_eq!(page.pool(), list);
                    gone(model, page);
                });
                assert!(got > 0 && got <= wanted);
            }
            tidy(store);
            evicted += u64::from(got);
            dry = if got == 0 { dry + 1 } else { 0 };
        }
        evicted
    }

    /// Weight and use of each pool.
    pub(crate) fn entities(&self) -> [Entity; POOLS] {
        std::array::from_fn(|pool| Entity {
            weight: self.pools[pool].map_or(0, |settings| settings.share()),
            entitlement: 0,
            used: self.shards.iter().map(|store| pages_of(store, pool)).sum(),
        })
    }

    /// Everything the shards counted agrees with the map.
    pub(crate) fn check(&self) {
        let mut counted = [0u64; POOLS * CLASSES];
        for (list, _) in self.model.values() {
            counted[usize::from(*list)] += 1;
        }
        for (number, counted) in counted.into_iter().enumerate() {
            let mut sum = List::default();
            for store in &self.shards {
                let list = &store.storage().lists[number];
                assert_eq!(list.used > 0, store.oldest_stamp(number as u16).is_some());
                sum.merge(list);
            }
            assert_eq!(sum.used, counted);
            let gone = sum.hits + sum.flushes + sum.evictions + sum.moved_out;
            assert_eq!(sum.used + gone, sum.puts + sum.moved_in);
        }
        let used: u64 = self.shards.iter().map(Store::used).sum();
        assert_eq!(used, self.used());
    }

    /// Each page is found, with its owner.
    fn check_owners(&self) {
        for (key, (list, _)) in &self.model {
            let mut owners = self.shards.iter().filter_map(|store| store.pool_of(key));
            assert_eq!(owners.next(), Some(*list));
            assert_eq!(owners.next(), None);
        }
    }

    /// Looks at all pages if they are few.
    fn check_few(&self) {
        if self.model.len() < 64 {
            self.check_owners();
        }
    }
}

fn pages_of(store: &Shard, pool: usize) -> u64 {
    let lists = &store.storage().lists[pool * CLASSES..(pool + 1) * CLASSES];
    lists.iter().map(|list| list.used).sum()
}
