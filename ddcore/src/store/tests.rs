// SPDX-License-Identifier: GPL-2.0

//! The store against a model that is too simple to be wrong.

use super::*;
use ddabi::key::{FileKey, MAX_INDEX};
use proptest::prelude::*;
use std::collections::BTreeMap;

const POOLS: u16 = 3;

#[derive(Debug, Default)]
struct Memory {
    segments: Vec<Segment>,
    lists: Vec<List>,
}

impl Storage for Memory {
    fn segments(&self) -> usize {
        self.segments.len()
    }
    fn segment(&self, number: usize) -> &Segment {
        &self.segments[number]
    }
    fn segment_mut(&mut self, number: usize) -> &mut Segment {
        &mut self.segments[number]
    }
    fn lists(&self) -> &[List] {
        &self.lists
    }
    fn lists_mut(&mut self) -> &mut [List] {
        &mut self.lists
    }
}

/// The store under test beside its model: pages by key, with a number that tells their age.
struct Pair {
    store: Store<Memory>,
    model: BTreeMap<PageKey, (Entry, u64)>,
    age: u64,
    handle: u64,
    /// What each pool's counters must be.
    expected: Vec<List>,
}

impl Pair {
    fn new() -> Self {
        let memory = Memory {
            segments: Vec::new(),
            lists: vec![List::default(); POOLS.into()],
        };
        Self {
            store: Store::new(memory, Hasher::new(0x1234_5678_9abc_def0)),
            model: BTreeMap::new(),
            age: 0,
            handle: MAX_HANDLE - 100_000,
            expected: vec![List::default(); POOLS.into()],
        }
    }

    fn insert(&mut self, key: PageKey, pool: u16) {
        if self.store.room() == 0 {
            let memory = self.store.storage_mut();
            memory.segments.push(Segment::EMPTY);
        }
        self.age += 1;
        self.handle += 1;
        let entry = Entry {
            pool,
            handle: self.handle,
            stamp: self.age as u32,
        };
        let inserted = self.store.insert(&key, entry);
        assert!(inserted.stored);
        self.expected[usize::from(pool)].puts += 1;
        let old = self.model.insert(key, (entry, self.age));
        if let Some((old, _)) = old {
            self.expected[usize::from(old.pool)].flushes += 1;
        }
        assert_eq!(inserted.replaced, old.map(|(old, _)| removed(key, &old)));
    }

    fn remove(&mut self, key: PageKey, reason: Reason) {
        let old = self.model.remove(&key).map(|(old, _)| old);
        if let Some(old) = &old {
            self.expected[usize::from(old.pool)].count(reason, 1);
        }
        assert_eq!(self.store.pool_of(&key), old.map(|old| old.pool));
        assert_eq!(
            self.store.remove(&key, reason),
            old.map(|old| removed(key, &old))
        );
    }

    fn evict(&mut self, pool: u16) {
        let oldest = self
            .model
            .iter()
            .filter(|(_, (entry, _))| entry.pool == pool)
            .min_by_key(|(_, (_, age))| *age)
            .map(|(key, (entry, _))| (*key, *entry));
        assert_eq!(
            self.store.oldest_stamp(pool),
            oldest.map(|(_, entry)| entry.stamp),
        );
        let got = self.store.remove_oldest(pool, Reason::Eviction);
        assert_eq!(got, oldest.map(|(key, entry)| removed(key, &entry)));
        if let Some((key, entry)) = oldest {
            self.model.remove(&key);
            self.expected[usize::from(entry.pool)].evictions += 1;
        }
    }

    fn gone(&mut self, mut got: Vec<Removed>, reason: Reason, gone: impl Fn(&PageKey) -> bool) {
        got.sort_by_key(|removed| removed.key);
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
                .remove_range(&file, (first, last), &mut cursor, 7, |page| got.push(page))
        };
        while step() == Walk::More {}
        self.gone(got, Reason::Flush, |key| {
            key.file == file && (first..=last).contains(&key.index)
        });
    }

    fn sweep(&mut self, filesystem: u32) {
        let (mut got, mut cursor) = (Vec::new(), Cursor::default());
        let condemned = |key: &PageKey| key.file.filesystem == filesystem;
        let mut step = || {
            trim(&mut self.store, 13);
            self.store
                .sweep(&mut cursor, 9, Reason::Flush, condemned, |page| {
                    got.push(page);
                })
        };
        while step() == Walk::More {}
        self.gone(got, Reason::Flush, condemned);
    }

    fn migrate(&mut self, file: FileKey, pool: u16) {
        // In ring order, that is by age of insertion among pages of the file.
        let mut pages: Vec<_> = self
            .model
            .iter()
            .filter(|(key, (entry, _))| key.file == file && entry.pool != pool)
            .map(|(key, _)| *key)
            .collect();
        let mut cursor = Cursor::default();
        let mut owners = Vec::new();
        self.age += 1;
        let stamp = self.age as u32;
        let mut step = || {
            self.store
                .migrate(&file, (pool, stamp), &mut cursor, 5, |owner| {
                    owners.push(owner);
                })
        };
        while step() == Walk::More {}
        assert_eq!(owners.len(), pages.len());
        // The model learns the order from the store: it is any order of the moved pages.
        let mut order = BTreeMap::new();
        let mut slot = self.store.storage().lists()[usize::from(pool)].oldest;
        while slot != NONE {
            order.insert(self.store.slot(slot).key(), order.len());
            slot = self.store.slot(slot).newer;
        }
        pages.sort_by_key(|key| order[key]);
        for key in pages {
            self.age += 1;
            let (entry, age) = self.model.get_mut(&key).unwrap();
            self.expected[usize::from(entry.pool)].moved_out += 1;
            self.expected[usize::from(pool)].moved_in += 1;
            (entry.pool, entry.stamp) = (pool, stamp);
            *age = self.age;
        }
    }

    fn trim(&mut self, steps: u32) {
        trim(&mut self.store, steps);
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
        assert_eq!(u64::from(self.store.used()), used);
    }

    /// Everything reachable, everywhere, in order.
    fn check_all(&self) {
        for (key, (entry, _)) in &self.model {
            assert_eq!(self.store.pool_of(key), Some(entry.pool));
        }
        for pool in 0..POOLS {
            let mut pages: Vec<_> = self
                .model
                .iter()
                .filter(|(_, (entry, _))| entry.pool == pool)
                .map(|(key, (_, age))| (*age, *key))
                .collect();
            pages.sort();
            let mut slot = self.store.storage().lists()[usize::from(pool)].oldest;
            let mut before = NONE;
            for (_, key) in pages {
                assert_eq!(self.store.slot(slot).key(), key);
                assert_eq!(self.store.slot(slot).older, before);
                (before, slot) = (slot, self.store.slot(slot).newer);
            }
            assert_eq!(slot, NONE);
            assert_eq!(
                self.store.storage().lists()[usize::from(pool)].newest,
                before,
            );
        }
        let mut files: BTreeMap<FileKey, usize> = BTreeMap::new();
        for key in self.model.keys() {
            *files.entry(key.file).or_default() += 1;
        }
        for (file, pages) in files {
            let leader = self.store.leader(&file);
            let (mut slot, mut count) = (leader, 0);
            loop {
                assert_eq!(self.store.slot(slot).file(), file);
                assert_eq!(self.store.slot(slot).is_leader(), slot == leader);
                count += 1;
                slot = self.store.slot(slot).ring_after;
                if slot == leader {
                    break;
                }
            }
            assert_eq!(count, pages);
        }
    }
}

fn trim(store: &mut Store<Memory>, steps: u32) {
    let needed = store.trim(steps);
    assert!(needed * SEGMENT_SLOTS > store.used() as usize || needed == 0);
    store.storage_mut().segments.truncate(needed);
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
    InsertRun(PageKey, u64, u16),
    Remove(PageKey, Reason),
    Evict(u16, usize),
    Range(FileKey, u64, u64),
    Sweep(u32),
    Migrate(FileKey, u16),
    Trim(u32),
}

fn file() -> impl Strategy<Value = FileKey> {
    (0u64..6, 0u32..2, 0u32..2).prop_map(|(inode, filesystem, generation)| FileKey {
        inode,
        filesystem,
        generation,
    })
}

fn key() -> impl Strategy<Value = PageKey> {
    let index = prop_oneof![0u64..100, MAX_INDEX - 3..=MAX_INDEX];
    (file(), index).prop_map(|(file, index)| PageKey { file, index })
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
        8 => (key(), 1u64..64, 0..POOLS).prop_map(|(key, pages, pool)| Step::InsertRun(key, pages, pool)),
        6 => (key(), reason()).prop_map(|(key, reason)| Step::Remove(key, reason)),
        3 => (0..POOLS, 1usize..40).prop_map(|(pool, pages)| Step::Evict(pool, pages)),
        1 => (file(), 0u64..100, 0u64..120).prop_map(|(file, first, last)| Step::Range(file, first, last)),
        1 => (0u32..2).prop_map(Step::Sweep),
        1 => (file(), 0..POOLS).prop_map(|(file, pool)| Step::Migrate(file, pool)),
        2 => (1u32..600).prop_map(Step::Trim),
    ]
}

proptest! {
    #[test]
    fn agrees_with_the_model(steps in prop::collection::vec(step(), 1..120)) {
        let mut pair = Pair::new();
        for step in steps {
            match step {
                Step::InsertRun(key, pages, pool) => {
                    for index in (key.index..=MAX_INDEX).take(pages as usize) {
                        pair.insert(PageKey { index, ..key }, pool);
                    }
                }
                Step::Remove(key, reason) => pair.remove(key, reason),
                Step::Evict(pool, pages) => (0..pages).for_each(|_| pair.evict(pool)),
                Step::Range(file, first, last) => pair.remove_range(file, first, last),
                Step::Sweep(filesystem) => pair.sweep(filesystem),
                Step::Migrate(file, pool) => pair.migrate(file, pool),
                Step::Trim(steps) => pair.trim(steps),
            }
            pair.check_counters();
        }
        pair.check_all();
    }
}

fn page(inode: u64, index: u64) -> PageKey {
    let file = FileKey {
        inode,
        filesystem: 1,
        generation: 1,
    };
    PageKey { file, index }
}

#[test]
fn a_store_without_memory_refuses() {
    let mut store = Store::new(Memory::default(), Hasher::new(1));
    let entry = Entry {
        pool: 0,
        handle: 1,
        stamp: 0,
    };
    assert_eq!(store.room(), 0);
    assert!(!store.insert(&page(1, 1), entry).stored);
    assert_eq!(store.remove(&page(1, 1), Reason::Hit), None);
    assert_eq!(store.remove_oldest(0, Reason::Eviction), None);
    assert_eq!(store.trim(10), 0);
    let mut cursor = Cursor::default();
    let done = store.sweep(&mut cursor, 10, Reason::Flush, |_| true, |_| ());
    assert_eq!(done, Walk::Done);
}

#[test]
fn a_refused_insert_leaves_no_older_copy() {
    let mut pair = Pair::new();
    pair.insert(page(1, 1), 0);
    let entry = Entry {
        pool: POOLS,
        handle: 5,
        stamp: 0,
    };
    let inserted = pair.store.insert(&page(1, 1), entry);
    assert!(!inserted.stored && inserted.replaced.is_some());
    assert_eq!(pair.store.pool_of(&page(1, 1)), None);
}

#[test]
fn memory_goes_back_when_pages_go() {
    let mut pair = Pair::new();
    for index in 0..10_000 {
        pair.insert(page(index % 7, index / 7), (index % 3) as u16);
    }
    assert_eq!(
        pair.store.storage().segments.len(),
        10_001usize.div_ceil(SEGMENT_SLOTS)
    );
    for _ in 0..9_000 / 3 {
        (0..POOLS).for_each(|pool| pair.evict(pool));
    }
    pair.trim(u32::MAX);
    assert!(
        pair.store.storage().segments.len() * SEGMENT_SLOTS
            < 1_000 + 63 + SLACK as usize + SEGMENT_SLOTS
    );
    pair.check_counters();
    pair.check_all();
    while !pair.model.is_empty() {
        (0..POOLS).for_each(|pool| pair.evict(pool));
    }
    pair.trim(u32::MAX);
    assert_eq!(pair.store.storage().segments.len(), 0);
}

/// A store that is trimmed while it is swept, as the host does, keeps nothing back.
#[test]
fn a_sweep_leaves_nothing_behind() {
    let mut pair = Pair::new();
    for index in 0..5_000 {
        pair.insert(page(index % 7, index / 7), 0);
    }
    pair.sweep(1);
    assert_eq!(pair.store.used(), 0);
}

#[test]
fn counters_can_begin_anew_only_when_empty() {
    let mut pair = Pair::new();
    pair.insert(page(1, 1), 0);
    let list = &mut pair.store.storage_mut().lists[0];
    assert!(!list.reset());
    pair.remove(page(1, 1), Reason::Hit);
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
        for index in 0..320 {
            let shard = hasher.shard(&page(inode, index), 4);
            assert_eq!(shard, hasher.shard(&page(inode, index & !31), 4));
            pages[shard] += 1;
        }
    }
    assert!(
        pages.iter().all(|pages| (3000..5000).contains(pages)),
        "{pages:?}"
    );
}
