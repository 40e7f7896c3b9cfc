// SPDX-License-Identifier: GPL-2.0-only

//! Comparison of the index with a simple model.

mod caps;
mod relocate;
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
    list: u16,
    handle: u64,
    stamp: u64,
}

/// The index under test, and the model: pages by key, each with a number that represents its age.
struct Pair {
    index: Index<Heap>,
    model: BTreeMap<PageKey, (Entry, u64)>,
    age: u64,
    handle: u64,
    /// The expected counters of each list.
    expected: Vec<List>,
}

impl Pair {
    fn new() -> Self {
        let memory = Heap::with_lists(POOLS.into());
        Self {
            index: Index::new(memory, Hasher::new(0x1234_5678_9abc_def0)),
            model: BTreeMap::new(),
            age: 0,
            handle: (1 << 32) - 20,
            expected: vec![List::default(); POOLS.into()],
        }
    }

    /// Inserts runs in one batch, with consecutive handles that follow `handle`.
    fn insert(&mut self, runs: &[(PageKey, usize)], list: u16) {
        let hasher = self.index.hasher;
        let mut batch = Batch::new();
        let (mut keys, mut handles) = (Vec::new(), Vec::new());
        for (first, pages) in runs {
            let added = batch.add(&hasher, first, *pages, (keys.len(), list));
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
            supply(&mut self.index, group.len());
            self.index.insert(
                &group,
                stamp,
                &handles,
                |position, page| replaced.push((position, page)),
                |part| stored += part.pages(),
            );
        });
        let mut expected = Vec::new();
        let mut count = 0;
        for (position, key) in keys.iter().enumerate() {
            if key.index > MAX_KEPT_INDEX {
                continue;
            }
            count += 1;
            let handle = handles[position];
            let entry = Entry {
                list,
                handle,
                stamp,
            };
            self.expected[usize::from(list)].puts += 1;
            if let Some((old, _)) = self.model.insert(*key, (entry, 0)) {
                self.expected[usize::from(old.list)].flushes += 1;
                expected.push((position, removed(*key, &old)));
            }
        }
        assert_eq!(stored, count);
        replaced.sort_by_key(|(position, _)| *position);
        assert_eq!(replaced, expected);
        self.renew(&keys, list);
    }

    /// Sets the ages of blocks into which pages were inserted, in the order of the last insertion
    /// into each.
    fn renew(&mut self, keys: &[PageKey], list: u16) {
        for key in keys {
            let Some((new, _)) = self.model.get(key).copied() else {
                continue;
            };
            self.age += 1;
            let (age, stamp) = (self.age, new.stamp);
            for (_, (entry, at)) in self.model.range_mut(block_of(key)) {
                if entry.list == list && entry.handle >> 32 == new.handle >> 32 {
                    (*at, entry.stamp) = (age, stamp);
                }
            }
        }
    }

    fn take(&mut self, runs: &[(PageKey, usize)], reason: Reason) {
        let hasher = self.index.hasher;
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
        let (mut got, mut seen) = (Vec::new(), Vec::new());
        batch.by_shard(0, |_, group| {
            self.index.look(&group, |position, held| {
                seen.push((position, held.handle()));
            });
            self.index
                .take(&group, reason, |position, page| got.push((position, page)));
        });
        let held = |(position, key)| {
            self.model
                .get(key)
                .map(|(entry, _)| (position, entry.handle))
        };
        let held: Vec<_> = keys.iter().enumerate().filter_map(held).collect();
        seen.sort_unstable();
        assert_eq!(seen, held);
        let mut expected = Vec::new();
        for (position, key) in keys.iter().enumerate() {
            if let Some((old, _)) = self.model.remove(key) {
                self.expected[usize::from(old.list)].count(reason, 1);
                expected.push((position, removed(*key, &old)));
            }
        }
        got.sort_by_key(|(position, _)| *position);
        assert_eq!(got, expected);
    }

    fn evict(&mut self, list: u16, pages: u32) {
        let mut expected: Vec<_> = self
            .model
            .iter()
            .filter(|(_, (entry, _))| entry.list == list)
            .map(|(key, (entry, age))| (*age, *key, *entry))
            .collect();
        expected.sort_by_key(|(age, key, _)| (*age, *key));
        let stamp = expected.first().map(|(_, _, entry)| entry.stamp);
        assert_eq!(self.index.oldest_stamp(list), stamp);
        let stamp = expected.last().map(|(_, _, entry)| entry.stamp);
        assert_eq!(self.index.newest_stamp(list), stamp);
        expected.truncate(pages as usize);
        let mut got = Vec::new();
        let count = self
            .index
            .remove_oldest(list, pages, Reason::Eviction, |page| got.push(page));
        assert_eq!(count as usize, got.len());
        let expected = expected.into_iter().map(|(_, key, entry)| {
            self.model.remove(&key);
            removed(key, &entry)
        });
        assert_eq!(got, expected.collect::<Vec<_>>());
        self.expected[usize::from(list)].evictions += u64::from(count);
    }

    fn gone(&mut self, mut got: Vec<Removed>, reason: Reason, gone: impl Fn(&PageKey) -> bool) {
        got.sort_by_key(|removed| *removed.key());
        let mut wanted = Vec::new();
        self.model.retain(|key, (entry, _)| {
            if gone(key) {
                self.expected[usize::from(entry.list)].count(reason, 1);
                wanted.push(removed(*key, entry));
            }
            !gone(key)
        });
        assert_eq!(got, wanted);
    }

    fn remove_range(&mut self, file: FileKey, first: u64, last: u64) {
        let (mut got, mut cursor) = (Vec::new(), Cursor::default());
        let mut step = || {
            self.index
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
            self.index.trim_and_free(13);
            self.index
                .sweep(&mut cursor, 16, Reason::Flush, condemned, |page| {
                    got.push(page);
                })
        };
        while step() == Walk::More {}
        self.gone(got, Reason::Flush, |key| condemned(&key.file));
    }

    fn migrate(&mut self, file: FileKey, list: u16) {
        let moves = |key: &PageKey, entry: &Entry| key.file == file && entry.list != list;
        let pages = self
            .model
            .iter()
            .filter(|(key, (entry, _))| moves(key, entry));
        let pages: Vec<_> = pages.map(|(key, _)| *key).collect();
        supply(&mut self.index, 1);
        let mut cursor = Cursor::default();
        let mut moved = 0;
        self.age += 1;
        let stamp = self.age;
        let mut step = || {
            self.index
                .migrate(&file, (|_| list, stamp), &mut cursor, 17, |_, pages| {
                    moved += pages;
                })
        };
        while step() == Walk::More {}
        assert_eq!(moved as usize, pages.len());
        for key in &pages {
            let (entry, _) = self.model.get_mut(key).unwrap();
            self.expected[usize::from(entry.list)].moved_out += 1;
            self.expected[usize::from(list)].moved_in += 1;
            entry.list = list;
        }
        // The order of the moved blocks is not specified, so that the model takes it from the
        // index.
        for (position, block) in self.fifo(list).into_iter().enumerate() {
            let keys = self.keys(&block);
            let is_new = keys.iter().any(|key| pages.contains(key));
            for key in keys {
                if let Some((entry, age)) = self.model.get_mut(&key) {
                    *age = self.age + position as u64;
                    if is_new {
                        entry.stamp = stamp;
                    }
                }
            }
        }
        self.age += self.model.len() as u64;
    }

    /// Returns the blocks of a list, oldest first.
    fn fifo(&self, list: u16) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut cohort = self.index.storage().lists()[usize::from(list)].oldest;
        let mut before = NONE;
        while cohort != NONE {
            let known = self.index.cohort(cohort);
            assert_eq!(known.older(), before);
            let members: Vec<_> = self.index.blocks_of(cohort).collect();
            assert_eq!(members.len(), known.count() as usize);
            blocks.extend(members.iter().map(|number| *self.index.block(*number)));
            (before, cohort) = (cohort, known.newer());
        }
        let newest = self.index.storage().lists()[usize::from(list)].newest;
        assert_eq!(newest, before);
        blocks
    }

    /// Returns the keys of a block's pages.
    fn keys(&self, block: &Block) -> Vec<PageKey> {
        let file = *self.index.file(block.file()).key();
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
        self.index.trim_and_free(steps);
    }

    /// Checks that no page is lost and that the counters are as expected. Called after each step.
    fn check_counters(&self) {
        let mut used = 0;
        for (list, expected) in self.index.storage().lists().iter().zip(&self.expected) {
            let came = list.puts + list.moved_in + list.relocated_in;
            let left = list.hits + list.flushes + list.evictions + list.moved_out;
            assert_eq!(list.used, came - left - list.relocated_out);
            let counted = List {
                oldest: NONE,
                newest: NONE,
                left: 0,
                used: 0,
                ..*list
            };
            assert_eq!(counted, *expected);
            used += list.used;
        }
        assert_eq!(used, self.model.len() as u64);
        assert_eq!(self.index.used(), used);
    }

    /// Checks that all items are found by key, by list in the right order, and by file.
    fn check_all(&self) {
        for (key, (entry, _)) in &self.model {
            assert_eq!(self.index.list_of(key), Some(entry.list));
        }
        for list in 0..POOLS {
            let pages = self
                .model
                .iter()
                .filter(|(_, (entry, _))| entry.list == list);
            let mut pages: Vec<_> = pages.map(|(key, (_, age))| (*age, *key)).collect();
            pages.sort();
            let blocks = self.fifo(list);
            let kept = blocks.iter().flat_map(|block| self.keys(block));
            assert!(kept.eq(pages.into_iter().map(|(_, key)| key)));
        }
        let mut files: BTreeMap<FileKey, usize> = BTreeMap::new();
        for key in self.model.keys() {
            *files.entry(key.file).or_default() += 1;
        }
        assert_eq!(self.index.files.used as usize, files.len());
        let blocks: Vec<_> = (0..POOLS).flat_map(|list| self.fifo(list)).collect();
        for (file, pages) in files {
            let number = self.index.find_file(&file, self.index.hasher.file(&file));
            let its = blocks.iter().filter(|block| block.file() == number);
            let (first, last) = self.index.file(number).extent();
            assert!(its
                .clone()
                .all(|block| (first..=last).contains(&block.index())));
            let count = its.clone().count();
            assert_eq!(self.index.file(number).count() as usize, count);
            assert_eq!(its.map(Block::pages).sum::<u32>() as usize, pages);
        }
    }
}

/// Returns the keys of the block to which a page belongs.
fn block_of(key: &PageKey) -> std::ops::RangeInclusive<PageKey> {
    let first = key.index & !15;
    let page = |index| PageKey { index, ..*key };
    page(first)..=page(first + 15)
}

fn supply(index: &mut Index<Heap>, parts: usize) {
    // A part may need a block for each of its pages, if the upper bits of their handles differ.
    index.supply(parts * BLOCK_PAGES);
}

fn removed(key: PageKey, entry: &Entry) -> Removed {
    Removed {
        key,
        list: entry.list,
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
    /// Relocates up to a number of the newest or the oldest pages from one list to another. In the
    /// middle of that, runs are taken, or inserted into a list.
    Relocate(
        (u16, u16),
        (bool, usize),
        Vec<(PageKey, usize)>,
        Option<u16>,
    ),
    Trim(u32),
    /// Sets the next handle, shortly before the upper bits of handles change.
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
        8 => (runs(), 0..POOLS).prop_map(|(runs, list)| Step::Insert(runs, list)),
        6 => (runs(), reason()).prop_map(|(runs, reason)| Step::Take(runs, reason)),
        3 => (0..POOLS, 1u32..40).prop_map(|(list, pages)| Step::Evict(list, pages)),
        1 => (file(), 0u64..100, 0u64..120).prop_map(|(file, first, last)| Step::Range(file, first, last)),
        1 => (0u32..2).prop_map(Step::Sweep),
        1 => (file(), 0..POOLS).prop_map(|(file, list)| Step::Migrate(file, list)),
        4 => ((0..POOLS, 0..POOLS), (any::<bool>(), 1usize..20), prop::collection::vec((key(), 1usize..4), 0..3), prop::option::of(0..POOLS))
            .prop_map(|(lists, which, runs, list)| Step::Relocate(lists, which, runs, list)),
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
                Step::Insert(runs, list) => pair.insert(&distinct(runs), list),
                Step::Take(runs, reason) => pair.take(&runs, reason),
                Step::Evict(list, pages) => pair.evict(list, pages),
                Step::Range(file, first, last) => pair.remove_range(file, first, last),
                Step::Sweep(filesystem) => pair.sweep(filesystem),
                Step::Migrate(file, list) => pair.migrate(file, list),
                Step::Relocate(lists, which, runs, list) => {
                    pair.relocate(lists, which, |pair| match list {
                        Some(list) if !runs.is_empty() => pair.insert(&distinct(runs), list),
                        _ => pair.take(&runs, Reason::Hit),
                    });
                }
                Step::Trim(steps) => pair.trim(steps),
                Step::Far(handle) => pair.handle = handle,
            }
            pair.check_counters();
        }
        pair.check_all();
    }

    /// A guest may name a page twice in a call. The last copy is kept, and no handle is lost.
    #[test]
    fn twice_in_a_batch(runs in runs()) {
        let mut pair = Pair::new();
        let mut batch = Batch::new();
        let (mut position, mut given, mut back) = (0, 0, 0);
        for (first, pages) in &runs {
            position += batch.add(&pair.index.hasher, first, *pages, (position, 0));
        }
        let handles: Vec<u64> = (1..=position as u64).collect();
        batch.by_shard(0, |_, group| {
            supply(&mut pair.index, group.len());
            pair.index.insert(&group, 0, &handles, |_, _| back += 1, |part| given += part.pages());
        });
        prop_assert_eq!(pair.index.used(), (given - back) as u64);
        back += pair.index.remove_oldest(0, u32::MAX, Reason::Eviction, |_| ()) as usize;
        prop_assert_eq!(given, back);
    }
}

/// Returns the runs without those that overlap an earlier one.
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

fn refused(index: &mut Index<Heap>, list: u16, handle: u64) -> usize {
    let mut batch = Batch::new();
    assert_eq!(batch.add(&index.hasher, &page(1, 1), 1, (0, list)), 1);
    let mut replaced = 0;
    batch.by_shard(0, |_, group| {
        let stored = |_: &Part| panic!("it cannot be stored");
        index.insert(&group, 0, &[handle], |_, _| replaced += 1, stored);
    });
    replaced
}

#[test]
fn a_store_without_memory_refuses() {
    let mut index = Index::new(Heap::default(), Hasher::new(1));
    assert!(index.lack(1).is_some());
    assert_eq!(refused(&mut index, 0, 1), 0);
    assert_eq!(index.remove_oldest(0, 1, Reason::Eviction, |_| ()), 0);
    assert_eq!(index.oldest_stamp(0), None);
    index.trim(10);
    assert!(Kind::ALL.into_iter().all(|kind| index.needed(kind) == 0));
    let mut cursor = Cursor::default();
    let done = index.sweep(&mut cursor, 16, Reason::Flush, |_| true, |_| ());
    assert_eq!(done, Walk::Done);
}

#[test]
fn a_refused_insert_leaves_no_older_copy() {
    let mut pair = Pair::new();
    for (list, handle) in [(POOLS, 5), (0, MAX_HANDLE + 1)] {
        pair.insert(&[(page(1, 1), 1)], 0);
        assert_eq!(refused(&mut pair.index, list, handle), 1);
        assert_eq!(pair.index.list_of(&page(1, 1)), None);
        assert_eq!(pair.index.used(), 0);
        pair.model.clear();
    }
}

#[test]
fn memory_goes_back_when_pages_go() {
    let mut pair = Pair::new();
    for index in 0..10_000 {
        pair.insert(&[(page(index % 7, index / 7 * 16), 2)], (index % 3) as u16);
    }
    let bytes = |pair: &Pair| pair.index.storage().bytes();
    let full = bytes(&pair);
    // Two slots, a member of a cohort, a leaf and its owner take less than 64 bytes for each of the
    // two pages of a block.
    assert!(full < 20_000 * 64, "{full}");
    for _ in 0..20 {
        (0..POOLS).for_each(|list| pair.evict(list, 300));
    }
    pair.trim(u32::MAX);
    assert!(bytes(&pair) < full / 6, "{}", bytes(&pair));
    pair.check_counters();
    pair.check_all();
    (0..POOLS).for_each(|list| pair.evict(list, u32::MAX));
    pair.trim(u32::MAX);
    assert_eq!(bytes(&pair), 0);
}

#[test]
fn a_page_alone_costs_less_than_48_bytes() {
    let mut pair = Pair::new();
    for index in 0..20_000 {
        pair.insert(&[(page(1, index * 16), 1)], 0);
    }
    let bytes = pair.index.storage().bytes();
    assert!(bytes < 20_000 * 48, "{bytes}");
}

/// An index that is trimmed while it is swept, as the host does, releases all memory.
#[test]
fn a_sweep_leaves_nothing_behind() {
    let mut pair = Pair::new();
    for index in 0..5_000 {
        pair.insert(&[(page(index % 7, index / 7), 1)], 0);
    }
    pair.sweep(1);
    assert_eq!(pair.index.used(), 0);
}

/// A sweep visits every page, even if the index grows between two of its steps.
#[test]
fn a_sweep_keeps_up_with_growth() {
    const PAGES: u64 = 500;
    let mut pair = Pair::new();
    for index in 0..PAGES {
        pair.insert(&[(page(1, index * 16), 1)], 0);
    }
    let (mut cursor, mut gone, mut came) = (Cursor::default(), 0, 0);
    let condemned = |file: &FileKey| file.inode == 1;
    let mut step = |pair: &mut Pair| {
        pair.index
            .sweep(&mut cursor, 16, Reason::Flush, condemned, |_| gone += 1)
    };
    while step(&mut pair) == Walk::More {
        for _ in 0..40 {
            pair.insert(&[(page(2, came * 16), 1)], 0);
            came += 1;
        }
    }
    assert!(came > PAGES);
    assert_eq!(gone, PAGES);
}

/// Cohorts are merged in whatever order blocks are removed.
#[test]
fn a_page_that_is_left_costs_less_than_64_bytes() {
    let mut pair = Pair::new();
    for index in 0..20_000 {
        pair.insert(&[(page(1, index * 16), 1)], 0);
    }
    // Every other cohort shrinks until it has one block left. Then the others shrink to the size at
    // which they would be merged.
    let is_odd = |index: &u64| index / 64 % 2 == 1;
    let odd = (0..20_000).filter(|index| is_odd(index) && index % 64 >= 1);
    let even = (0..20_000).filter(|index| !is_odd(index) && index % 64 >= 41);
    for index in odd.chain(even) {
        pair.take(&[(page(1, index * 16), 1)], Reason::Hit);
    }
    pair.trim(u32::MAX);
    let (bytes, used) = (pair.index.storage().bytes() as u64, pair.index.used());
    assert!(bytes < used * 64, "{}", bytes / used);
}

#[test]
fn counters_can_be_reset_only_when_empty() {
    let mut pair = Pair::new();
    pair.insert(&[(page(1, 1), 1)], 0);
    let list = &mut pair.index.storage_mut().lists[0];
    assert!(!list.reset());
    pair.take(&[(page(1, 1), 1)], Reason::Hit);
    let list = &mut pair.index.storage_mut().lists[0];
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
