// SPDX-License-Identifier: GPL-2.0-only

//! The store against a model that is too simple to be wrong.

mod room;

use super::block::{Block, MAX_KEPT_INDEX};
use super::*;
use ddabi::key::FileKey;
use proptest::prelude::*;
use std::collections::BTreeMap;

const POOLS: u16 = 3;

/// A page of the model.
#[derive(Clone, Copy, Debug)]
struct Entry {
    pool: u16,
    handle: u64,
    stamp: u64,
}

/// The store under test beside its model: pages by key, with a number that tells their age.
struct Pair {
    store: Store<Heap>,
    model: BTreeMap<PageKey, (Entry, u64)>,
    age: u64,
    handle: u64,
    /// What each pool's counters must be.
    expected: Vec<List>,
}

impl Pair {
    fn new() -> Self {
        let memory = Heap::with_lists(POOLS.into());
        Self {
            store: Store::new(memory, Hasher::new(0x1234_5678_9abc_def0)),
            model: BTreeMap::new(),
            age: 0,
            handle: (1 << 32) - 20,
            expected: vec![List::default(); POOLS.into()],
        }
    }

    /// Inserts runs in one batch; handles come from where `handle` stands.
    fn insert(&mut self, runs: &[(PageKey, usize)], pool: u16) {
        let hasher = self.store.hasher;
        let mut batch = Batch::new();
        let (mut keys, mut handles) = (Vec::new(), Vec::new());
        for (first, pages) in runs {
            let added = batch.add(&hasher, first, *pages, (keys.len(), pool));
            let known = (first.index..=MAX_KEPT_INDEX).take(added);
            keys.extend(
                (first.index..)
                    .take(added)
                    .map(|index| PageKey { index, ..*first }),
            );
            handles.resize(keys.len(), 0);
            let start = keys.len() - added;
            for handle in handles[start..].iter_mut().take(known.count()) {
                self.handle += 1;
                *handle = self.handle;
            }
        }
        self.age += 1;
        let stamp = self.age;
        let (mut replaced, mut stored) = (Vec::new(), 0);
        batch.by_shard(0, |_, group| {
            supply(&mut self.store, group.len());
            self.store.insert(
                &group,
                stamp,
                &handles,
                |place, page| replaced.push((place, page)),
                |part| stored += part.pages(),
            );
        });
        let mut expected = Vec::new();
        let mut count = 0;
        for (place, key) in keys.iter().enumerate() {
            if key.index > MAX_KEPT_INDEX {
                continue;
            }
            count += 1;
            let handle = handles[place];
            let entry = Entry {
                pool,
                handle,
                stamp,
            };
            self.expected[usize::from(pool)].puts += 1;
            if let Some((old, _)) = self.model.insert(*key, (entry, 0)) {
                self.expected[usize::from(old.pool)].flushes += 1;
                expected.push((place, removed(*key, &old)));
            }
        }
        assert_eq!(stored, count);
        replaced.sort_by_key(|(place, _)| *place);
        assert_eq!(replaced, expected);
        self.renew(&keys, pool);
    }

    /// Sets the age of the blocks that got pages: that of the last insertion into each, in order.
    fn renew(&mut self, keys: &[PageKey], pool: u16) {
        for key in keys {
            let Some((new, _)) = self.model.get(key).copied() else {
                continue;
            };
            self.age += 1;
            let (age, stamp) = (self.age, new.stamp);
            for (_, (entry, at)) in self.model.range_mut(block_of(key)) {
                if entry.pool == pool && entry.handle >> 32 == new.handle >> 32 {
                    (*at, entry.stamp) = (age, stamp);
                }
            }
        }
    }

    fn take(&mut self, runs: &[(PageKey, usize)], reason: Reason) {
        let hasher = self.store.hasher;
        let mut batch = Batch::new();
        let mut keys = Vec::new();
        for (first, pages) in runs {
            let added = batch.add(&hasher, first, *pages, (keys.len(), 0));
            keys.extend(
                (first.index..)
                    .take(added)
                    .map(|index| PageKey { index, ..*first }),
            );
        }
        let mut got = Vec::new();
        batch.by_shard(0, |_, group| {
            self.store
                .take(&group, reason, |place, page| got.push((place, page)));
        });
        let mut expected = Vec::new();
        for (place, key) in keys.iter().enumerate() {
            if let Some((old, _)) = self.model.remove(key) {
                self.expected[usize::from(old.pool)].count(reason, 1);
                expected.push((place, removed(*key, &old)));
            }
        }
        got.sort_by_key(|(place, _)| *place);
        assert_eq!(got, expected);
    }

    fn evict(&mut self, pool: u16, pages: u32) {
        let mut expected: Vec<_> = self
            .model
            .iter()
            .filter(|(_, (entry, _))| entry.pool == pool)
            .map(|(key, (entry, age))| (*age, *key, *entry))
            .collect();
        expected.sort_by_key(|(age, key, _)| (*age, *key));
        let stamp = expected.first().map(|(_, _, entry)| entry.stamp);
        assert_eq!(self.store.oldest_stamp(pool), stamp);
        let stamp = expected.last().map(|(_, _, entry)| entry.stamp);
        assert_eq!(self.store.newest_stamp(pool), stamp);
        expected.truncate(pages as usize);
        let mut got = Vec::new();
        let count = self
            .store
            .remove_oldest(pool, pages, Reason::Eviction, |page| got.push(page));
        assert_eq!(count as usize, got.len());
        let expected = expected.into_iter().map(|(_, key, entry)| {
            self.model.remove(&key);
            removed(key, &entry)
        });
        assert_eq!(got, expected.collect::<Vec<_>>());
        self.expected[usize::from(pool)].evictions += u64::from(count);
    }

    fn gone(&mut self, mut got: Vec<Removed>, reason: Reason, gone: impl Fn(&PageKey) -> bool) {
        got.sort_by_key(|removed| *removed.key());
        let mut wanted = Vec::new();
        self.model.retain(|key, (entry, _)| {
            if gone(key) {
                self.expected[usize::from(entry.pool)].count(reason, 1);
                wanted.push(removed(*key, entry));
            }
            !gone(key)
        });
        assert_eq!(got, wanted);
    }

    fn remove_range(&mut self, file: FileKey, first: u64, last: u64) {
        let (mut got, mut cursor) = (Vec::new(), Cursor::default());
        let mut step = || {
            self.store
                .remove_range(&file, (first, last), &mut cursor, 19, |page| got.push(page))
        };
        while step() == Walk::More {}
        self.gone(got, Reason::Flush, |key| {
            key.file == file && (first..=last).contains(&key.index)
        });
    }

    fn sweep(&mut self, filesystem: u32) {
        let (mut got, mut cursor) = (Vec::new(), Cursor::default());
        let condemned = |file: &FileKey| file.filesystem == filesystem;
        let mut step = || {
            self.store.trim_and_free(13);
            self.store
                .sweep(&mut cursor, 16, Reason::Flush, condemned, |page| {
                    got.push(page);
                })
        };
        while step() == Walk::More {}
        self.gone(got, Reason::Flush, |key| condemned(&key.file));
    }

    fn migrate(&mut self, file: FileKey, pool: u16) {
        let moves = |key: &PageKey, entry: &Entry| key.file == file && entry.pool != pool;
        let pages = self
            .model
            .iter()
            .filter(|(key, (entry, _))| moves(key, entry));
        let pages: Vec<_> = pages.map(|(key, _)| *key).collect();
        supply(&mut self.store, 1);
        let mut cursor = Cursor::default();
        let mut moved = 0;
        self.age += 1;
        let stamp = self.age;
        let mut step = || {
            self.store
                .migrate(&file, (|_| pool, stamp), &mut cursor, 17, |_, pages| {
                    moved += pages;
                })
        };
        while step() == Walk::More {}
        assert_eq!(moved as usize, pages.len());
        for key in &pages {
            let (entry, _) = self.model.get_mut(key).unwrap();
            self.expected[usize::from(entry.pool)].moved_out += 1;
            self.expected[usize::from(pool)].moved_in += 1;
            entry.pool = pool;
        }
        // The model learns the order from the store: it is any order of the moved blocks.
        for (place, block) in self.fifo(pool).into_iter().enumerate() {
            let keys = self.keys(&block);
            let is_new = keys.iter().any(|key| pages.contains(key));
            for key in keys {
                if let Some((entry, age)) = self.model.get_mut(&key) {
                    *age = self.age + place as u64;
                    if is_new {
                        entry.stamp = stamp;
                    }
                }
            }
        }
        self.age += self.model.len() as u64;
    }

    /// The blocks of a pool, oldest first.
    fn fifo(&self, pool: u16) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut cohort = self.store.storage().lists()[usize::from(pool)].oldest;
        let mut before = NONE;
        while cohort != NONE {
            let known = self.store.cohort(cohort);
            assert_eq!(known.older(), before);
            let members: Vec<_> = self.store.blocks_of(cohort).collect();
            assert_eq!(members.len(), known.count() as usize);
            blocks.extend(members.iter().map(|number| *self.store.block(*number)));
            (before, cohort) = (cohort, known.newer());
        }
        let newest = self.store.storage().lists()[usize::from(pool)].newest;
        assert_eq!(newest, before);
        blocks
    }

    /// The keys of a block's pages.
    fn keys(&self, block: &Block) -> Vec<PageKey> {
        let file = *self.store.file(block.file()).key();
        let start = u64::from(block.index()) * BLOCK_PAGES as u64;
        (0..16)
            .filter(|page| block.present() >> page & 1 != 0)
            .map(|page| PageKey {
                file,
                index: start + page,
            })
            .collect()
    }

    fn trim(&mut self, steps: u32) {
        self.store.trim_and_free(steps);
    }

    /// After every step: conservation, and counters as expected.
    fn check_counters(&self) {
        let mut used = 0;
        for (list, expected) in self.store.storage().lists().iter().zip(&self.expected) {
            let came = list.puts + list.moved_in;
            let left = list.hits + list.flushes + list.evictions + list.moved_out;
            assert_eq!(list.used, came - left);
            let counted = List {
                oldest: NONE,
                newest: NONE,
                used: 0,
                ..*list
            };
            assert_eq!(counted, *expected);
            used += list.used;
        }
        assert_eq!(used, self.model.len() as u64);
        assert_eq!(self.store.used(), used);
    }

    /// Everything reachable, everywhere, in order.
    fn check_all(&self) {
        for (key, (entry, _)) in &self.model {
            assert_eq!(self.store.pool_of(key), Some(entry.pool));
        }
        for pool in 0..POOLS {
            let pages = self
                .model
                .iter()
                .filter(|(_, (entry, _))| entry.pool == pool);
            let mut pages: Vec<_> = pages.map(|(key, (_, age))| (*age, *key)).collect();
            pages.sort();
            let blocks = self.fifo(pool);
            let kept = blocks.iter().flat_map(|block| self.keys(block));
            assert!(kept.eq(pages.into_iter().map(|(_, key)| key)));
        }
        let mut files: BTreeMap<FileKey, usize> = BTreeMap::new();
        for key in self.model.keys() {
            *files.entry(key.file).or_default() += 1;
        }
        assert_eq!(self.store.files.used as usize, files.len());
        let blocks: Vec<_> = (0..POOLS).flat_map(|pool| self.fifo(pool)).collect();
        for (file, pages) in files {
            let number = self.store.find_file(&file, self.store.hasher.file(&file));
            let its = blocks.iter().filter(|block| block.file() == number);
            let (first, last) = self.store.file(number).extent();
            assert!(its
                .clone()
                .all(|block| (first..=last).contains(&block.index())));
            let count = its.clone().count();
            assert_eq!(self.store.file(number).count() as usize, count);
            assert_eq!(its.map(Block::pages).sum::<u32>() as usize, pages);
        }
    }
}

/// The keys of the block that a page belongs to.
fn block_of(key: &PageKey) -> std::ops::RangeInclusive<PageKey> {
    let first = key.index & !15;
    let page = |index| PageKey { index, ..*key };
    page(first)..=page(first + 15)
}

fn supply(store: &mut Store<Heap>, parts: usize) {
    // A part may need a block for each of its pages, if their handles are far apart.
    store.supply(parts * BLOCK_PAGES);
}

fn removed(key: PageKey, entry: &Entry) -> Removed {
    Removed {
        key,
        pool: entry.pool,
        handle: entry.handle,
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<(PageKey, usize)>, u16),
    Take(Vec<(PageKey, usize)>, Reason),
    Evict(u16, u32),
    Range(FileKey, u64, u64),
    Sweep(u32),
    Migrate(FileKey, u16),
    Trim(u32),
    /// Handles go on where their upper bits change soon.
    Far(u64),
}

fn file() -> impl Strategy<Value = FileKey> {
    (0u64..6, 0u32..2, 0u32..2).prop_map(|(inode, filesystem, generation)| FileKey {
        inode,
        filesystem,
        generation,
    })
}

fn key() -> impl Strategy<Value = PageKey> {
    let index = prop_oneof![8 => 0u64..100, 1 => MAX_KEPT_INDEX - 3..=MAX_KEPT_INDEX + 20];
    (file(), index).prop_map(|(file, index)| PageKey { file, index })
}

fn runs() -> impl Strategy<Value = Vec<(PageKey, usize)>> {
    let run = (key(), prop_oneof![3 => Just(1usize), 1 => 1usize..70]);
    prop::collection::vec(run, 1..12)
}

fn reason() -> impl Strategy<Value = Reason> {
    prop_oneof![
        Just(Reason::Hit),
        Just(Reason::Flush),
        Just(Reason::Eviction)
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (runs(), 0..POOLS).prop_map(|(runs, pool)| Step::Insert(runs, pool)),
        6 => (runs(), reason()).prop_map(|(runs, reason)| Step::Take(runs, reason)),
        3 => (0..POOLS, 1u32..40).prop_map(|(pool, pages)| Step::Evict(pool, pages)),
        1 => (file(), 0u64..100, 0u64..120).prop_map(|(file, first, last)| Step::Range(file, first, last)),
        1 => (0u32..2).prop_map(Step::Sweep),
        1 => (file(), 0..POOLS).prop_map(|(file, pool)| Step::Migrate(file, pool)),
        2 => (1u32..600).prop_map(Step::Trim),
        1 => (0u64..4, 0u64..40).prop_map(|(high, before)| Step::Far(((high + 1) << 32) - before)),
    ]
}

proptest! {
    #[test]
    fn agrees_with_the_model(steps in prop::collection::vec(step(), 1..120)) {
        let mut pair = Pair::new();
        for step in steps {
            match step {
                Step::Insert(runs, pool) => pair.insert(&distinct(runs), pool),
                Step::Take(runs, reason) => pair.take(&runs, reason),
                Step::Evict(pool, pages) => pair.evict(pool, pages),
                Step::Range(file, first, last) => pair.remove_range(file, first, last),
                Step::Sweep(filesystem) => pair.sweep(filesystem),
                Step::Migrate(file, pool) => pair.migrate(file, pool),
                Step::Trim(steps) => pair.trim(steps),
                Step::Far(handle) => pair.handle = handle,
            }
            pair.check_counters();
        }
        pair.check_all();
    }

    /// Guests may name a page twice in a call: the last one counts, and no handle is lost.
    #[test]
    fn twice_in_a_batch(runs in runs()) {
        let mut pair = Pair::new();
        let mut batch = Batch::new();
        let (mut place, mut given, mut back) = (0, 0, 0);
        for (first, pages) in &runs {
            place += batch.add(&pair.store.hasher, first, *pages, (place, 0));
        }
        let handles: Vec<u64> = (1..=place as u64).collect();
        batch.by_shard(0, |_, group| {
            supply(&mut pair.store, group.len());
            pair.store.insert(&group, 0, &handles, |_, _| back += 1, |part| given += part.pages());
        });
        prop_assert_eq!(pair.store.used(), (given - back) as u64);
        back += pair.store.remove_oldest(0, u32::MAX, Reason::Eviction, |_| ()) as usize;
        prop_assert_eq!(given, back);
    }
}

/// Without the runs that overlap an earlier one.
fn distinct(runs: Vec<(PageKey, usize)>) -> Vec<(PageKey, usize)> {
    let mut seen = std::collections::BTreeSet::new();
    let mut is_new = |(first, pages): &(PageKey, usize)| {
        let keys = (first.index..).take(*pages);
        let keys: Vec<_> = keys.map(|index| PageKey { index, ..*first }).collect();
        let new = keys.iter().all(|key| !seen.contains(key));
        seen.extend(keys);
        new
    };
    runs.into_iter().filter(|run| is_new(run)).collect()
}

fn page(inode: u64, index: u64) -> PageKey {
    let file = FileKey {
        inode,
        filesystem: 1,
        generation: 1,
    };
    PageKey { file, index }
}

fn refused(store: &mut Store<Heap>, pool: u16, handle: u64) -> usize {
    let mut batch = Batch::new();
    assert_eq!(batch.add(&store.hasher, &page(1, 1), 1, (0, pool)), 1);
    let mut replaced = 0;
    batch.by_shard(0, |_, group| {
        let stored = |_: &Part| panic!("it cannot be stored");
        store.insert(&group, 0, &[handle], |_, _| replaced += 1, stored);
    });
    replaced
}

#[test]
fn a_store_without_memory_refuses() {
    let mut store = Store::new(Heap::default(), Hasher::new(1));
    assert!(store.lack(1).is_some());
    assert_eq!(refused(&mut store, 0, 1), 0);
    assert_eq!(store.remove_oldest(0, 1, Reason::Eviction, |_| ()), 0);
    assert_eq!(store.oldest_stamp(0), None);
    store.trim(10);
    assert!(Kind::ALL.into_iter().all(|kind| store.needed(kind) == 0));
    let mut cursor = Cursor::default();
    let done = store.sweep(&mut cursor, 16, Reason::Flush, |_| true, |_| ());
    assert_eq!(done, Walk::Done);
}

#[test]
fn a_refused_insert_leaves_no_older_copy() {
    let mut pair = Pair::new();
    for (pool, handle) in [(POOLS, 5), (0, MAX_HANDLE + 1)] {
        pair.insert(&[(page(1, 1), 1)], 0);
        assert_eq!(refused(&mut pair.store, pool, handle), 1);
        assert_eq!(pair.store.pool_of(&page(1, 1)), None);
        assert_eq!(pair.store.used(), 0);
        pair.model.clear();
    }
}

#[test]
fn memory_goes_back_when_pages_go() {
    let mut pair = Pair::new();
    for index in 0..10_000 {
        pair.insert(&[(page(index % 7, index / 7 * 16), 2)], (index % 3) as u16);
    }
    let bytes = |pair: &Pair| pair.store.storage().bytes();
    let full = bytes(&pair);
    // A block, its slots and owner, a leaf of 64 bytes: for 2 pages less than 64 each.
    assert!(full < 20_000 * 64, "{full}");
    for _ in 0..20 {
        (0..POOLS).for_each(|pool| pair.evict(pool, 300));
    }
    pair.trim(u32::MAX);
    assert!(bytes(&pair) < full / 6, "{}", bytes(&pair));
    pair.check_counters();
    pair.check_all();
    (0..POOLS).for_each(|pool| pair.evict(pool, u32::MAX));
    pair.trim(u32::MAX);
    assert_eq!(bytes(&pair), 0);
}

#[test]
fn a_page_alone_costs_less_than_56_bytes() {
    let mut pair = Pair::new();
    for index in 0..20_000 {
        pair.insert(&[(page(1, index * 16), 1)], 0);
    }
    assert!(pair.store.storage().bytes() < 20_000 * 56);
}

/// A store that is trimmed while it is swept, as the host does, keeps nothing back.
#[test]
fn a_sweep_leaves_nothing_behind() {
    let mut pair = Pair::new();
    for index in 0..5_000 {
        pair.insert(&[(page(index % 7, index / 7), 1)], 0);
    }
    pair.sweep(1);
    assert_eq!(pair.store.used(), 0);
}

#[test]
fn counters_can_begin_anew_only_when_empty() {
    let mut pair = Pair::new();
    pair.insert(&[(page(1, 1), 1)], 0);
    let list = &mut pair.store.storage_mut().lists[0];
    assert!(!list.reset());
    pair.take(&[(page(1, 1), 1)], Reason::Hit);
    let list = &mut pair.store.storage_mut().lists[0];
    list.spoil_hits(5);
    assert_eq!((list.hits, list.flushes), (0, 1));
    assert!(list.reset());
    assert_eq!(*list, List::default());
}

#[test]
fn shards_are_even_and_groups_stay_together() {
    let hasher = Hasher::new(99);
    let mut pages = [0u32; 16];
    for inode in 0..200 {
        for group in 0..10 {
            let mut batch = Batch::new();
            batch.add(&hasher, &page(inode, group * 32), 32, (0, 0));
            let mut shards = 0;
            batch.by_shard(4, |shard, group| {
                shards += 1;
                let count: usize = group.parts().map(Part::pages).sum();
                pages[shard] += count as u32;
            });
            assert_eq!(shards, 1);
        }
    }
    assert!(
        pages.iter().all(|pages| (3000..5000).contains(pages)),
        "{pages:?}"
    );
}

#[test]
fn ages_wrap() {
    let top = (1 << STAMP_BITS) - 1;
    assert_eq!(age(5, 3), 2);
    assert_eq!(age(1, top), 2);
    assert_eq!(age(top, 0), 0);
    assert_eq!(age(1 << STAMP_BITS, top), 1);
}
