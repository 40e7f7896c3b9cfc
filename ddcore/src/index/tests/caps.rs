// SPDX-License-Identifier: GPL-2.0-only

//! An index of which one kind of memory runs out: it refuses at the last item of that kind, and
//! neither earlier nor later.

use super::super::bucket::LOAD;
use super::super::cohort::Members;
use super::super::leaf::Owner;
use super::super::segment::Item as _;
use super::*;

/// An index with a number of lists and with caps of some kinds, in segments.
fn capped(lists: usize, caps: &[(Kind, usize)]) -> Index<Heap> {
    let mut heap = Heap::with_lists(lists);
    for (kind, segments) in caps {
        heap.cap(*kind, *segments);
    }
    Index::new(heap, Hasher::new(7))
}

/// Inserts a run in one part, with the memory that there may be. Returns whether it was kept.
fn insert(index: &mut Index<Heap>, first: PageKey, pages: usize, list: u16) -> bool {
    let mut batch = Batch::new();
    assert_eq!(batch.add(&index.hasher, &first, pages, (0, list)), pages);
    let handles: Vec<u64> = (1..=pages as u64).collect();
    let mut stored = 0;
    batch.by_shard(0, |_, group| {
        index.supply(group.len());
        let kept = |part: &Part| stored += part.pages();
        index.insert(&group, 0, &handles, |_, _| (), kept);
    });
    assert!(stored == 0 || stored == pages);
    stored == pages
}

fn take(index: &mut Index<Heap>, key: PageKey) {
    let mut batch = Batch::new();
    batch.add(&index.hasher, &key, 1, (0, 0));
    let mut taken = 0;
    batch.by_shard(0, |_, group| {
        index.take(&group, Reason::Hit, |_, _| taken += 1);
    });
    assert_eq!(taken, 1);
}

/// Moves the pages of a file to a list. Returns the number of moved pages.
fn migrate(index: &mut Index<Heap>, file: FileKey, list: u16) -> u32 {
    let mut moved = 0;
    let mut cursor = Cursor::default();
    let all = u32::MAX;
    let walk = index.migrate(&file, (|_| list, 1), &mut cursor, all, |_, pages| {
        moved += pages;
    });
    assert_eq!(walk, Walk::Done);
    moved
}

/// Returns the number of blocks of a list.
fn blocks(index: &Index<Heap>, list: u16) -> usize {
    let mut cohort = index.storage().lists()[usize::from(list)].oldest;
    let mut count = 0;
    while cohort != NONE {
        count += index.cohort(cohort).count() as usize;
        cohort = index.cohort(cohort).newer();
    }
    count
}

/// For each kind, insertions succeed up to the last item of its only segment, and the next one is
/// refused. Each insertion needs one item of the kind, except that few need a spill.
#[test]
fn the_last_item_of_a_segment_is_used_and_none_behind_it() {
    const LISTS: u64 = 1_024;
    // A file with a block, which has a leaf, and a list with a cohort.
    let one_of_each = |number: u64| (page(number, 0), 2, (number % LISTS) as u16);
    for (kind, items) in [
        (Kind::Buckets, Some(63 * u64::from(LOAD))),
        (Kind::Spills, None),
        (Kind::Files, Some(127)),
        (Kind::FileBuckets, Some(511)),
        (Kind::Leaves, Some(63)),
        (Kind::Owners, Some(511)),
        (Kind::Cohorts, Some(255)),
        (Kind::Members, Some(7)),
    ] {
        let mut index = capped(LISTS as usize, &[(kind, 1)]);
        let mut kept = 0;
        loop {
            let (first, pages, list) = one_of_each(kept);
            if !insert(&mut index, first, pages, list) {
                break;
            }
            kept += 1;
            assert!(kept < 100_000, "{kind:?} is never short");
        }
        assert_eq!(index.storage().segments(kind), 1, "{kind:?}");
        assert_eq!(kept, items.unwrap_or(kept), "{kind:?}");
        assert_eq!(index.used(), 2 * kept, "{kind:?}");
        for number in 0..kept {
            let (first, _, list) = one_of_each(number);
            assert_eq!(index.list_of(&first), Some(list), "{kind:?}");
        }
        if items.is_none() {
            continue;
        }
        // A place that becomes free is used again.
        index.remove_oldest(0, 2, Reason::Eviction, |_| ());
        let (first, pages, list) = one_of_each(kept);
        assert!(insert(&mut index, first, pages, list), "{kind:?}");
        let (first, pages, list) = one_of_each(kept + 1);
        assert!(!insert(&mut index, first, pages, list), "{kind:?}");
    }
}

/// Fills all leaves but `left` of an index, and lets a block meet its twin. Returns the number of
/// blocks that they are afterwards.
fn twins(caps: &[(Kind, usize)], leaves: u64, left: u64) -> usize {
    let mut index = capped(3, caps);
    for number in 0..leaves - left {
        assert!(insert(&mut index, page(10 + number, 0), 2, 0), "{number}");
    }
    // The two blocks need no leaf, but an insertion is refused if none is left. So the last leaf is
    // used after them.
    let spare = page(5, 0);
    let fills = left == 0;
    if fills {
        take(&mut index, page(10, 0));
        take(&mut index, page(10, 1));
    }
    assert!(insert(&mut index, page(1, 0), 1, 1));
    assert!(insert(&mut index, page(1, 1), 1, 2));
    if fills {
        assert!(insert(&mut index, spare, 2, 0));
    }
    // Kinds that are not capped have memory for more, so that the capped one decides.
    index.supply(1);
    assert_eq!(index.leaf_room() as u64, left);
    assert_eq!(migrate(&mut index, page(1, 0).file, 2), 1);
    assert_eq!(index.list_of(&page(1, 0)), Some(2));
    assert_eq!(index.list_of(&page(1, 1)), Some(2));
    blocks(&index, 2)
}

/// Blocks of the same pages are merged with the last leaf, and stay apart without one, whether
/// leaves or their owners run out.
#[test]
fn twins_merge_only_while_there_is_a_leaf() {
    let leaves = [(Kind::Leaves, 1)];
    assert_eq!(twins(&leaves, 63, 1), 1);
    assert_eq!(twins(&leaves, 63, 0), 2);
    let owners = [(Kind::Owners, 1)];
    assert_eq!(u64::from(Owner::EACH), 512);
    assert_eq!(twins(&owners, 511, 1), 1);
    assert_eq!(twins(&owners, 511, 0), 2);
}

/// Fills all cohorts but `left`, and moves a file. Returns the number of moved pages.
fn moved(caps: &[(Kind, usize)], cohorts: u64, left: u64) -> u32 {
    let mut index = capped(300, caps);
    for number in 0..cohorts - left {
        assert!(insert(&mut index, page(number, 0), 1, number as u16));
    }
    index.supply(1);
    assert_eq!(index.cohort_room() as u64, left);
    let to = 299;
    let moved = migrate(&mut index, page(3, 0).file, to);
    let list = if moved > 0 { to } else { 3 };
    assert_eq!(index.list_of(&page(3, 0)), Some(list));
    assert_eq!(blocks(&index, list), 1);
    moved
}

/// A page moves to another list with the last cohort, and stays without one, whether cohorts or the
/// places of their members run out.
#[test]
fn pages_move_only_while_there_is_a_cohort() {
    let cohorts = [(Kind::Cohorts, 1)];
    assert_eq!(moved(&cohorts, 255, 1), 1);
    assert_eq!(moved(&cohorts, 255, 0), 0);
    let members = [(Kind::Members, 1)];
    assert_eq!(Members::EACH, 8);
    assert_eq!(moved(&members, 7, 1), 1);
    assert_eq!(moved(&members, 7, 0), 0);
}

/// A cohort takes 64 members and begins no other one for the last of them. The next block begins
/// one, and is refused if there is none.
#[test]
fn the_last_member_of_a_cohort_needs_no_other_cohort() {
    let mut index = capped(1, &[(Kind::Members, 1)]);
    let mut kept = 0;
    while insert(&mut index, page(1, kept * 16), 1, 0) {
        kept += 1;
        let cohorts = kept.div_ceil(64);
        assert_eq!(u64::from(index.cohorts.used), cohorts, "{kept}");
    }
    // An insertion is refused before its list is known, when a cohort might be needed: the seventh
    // cohort has one member.
    assert_eq!((kept, index.cohort_room()), (6 * 64 + 1, 0));
    assert_eq!(blocks(&index, 0) as u64, kept);
    for block in 0..kept {
        assert_eq!(index.list_of(&page(1, block * 16)), Some(0));
    }
}
