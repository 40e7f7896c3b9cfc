// SPDX-License-Identifier: GPL-2.0-only

//! Insertions into the last place of a segment, and without memory.

use super::*;

/// Inserts a run as one batch, after providing memory for its parts. Returns the number of pages
/// that were kept.
fn insert(pair: &mut Pair, first: PageKey, pages: usize, list: u16) -> usize {
    let mut batch = Batch::new();
    assert_eq!(
        batch.add(&pair.index.hasher, &first, pages, (0, list)),
        pages
    );
    let handles: Vec<u64> = (1..=pages as u64).collect();
    let mut stored = 0;
    batch.by_shard(0, |_, group| {
        pair.index.supply(group.len());
        let kept = |part: &Part| stored += part.pages();
        pair.index.insert(&group, 0, &handles, |_, _| (), kept);
    });
    stored
}

/// Moves the pages of a file to a list in one step. Returns the number of moved pages.
fn migrate(pair: &mut Pair, file: FileKey, list: u16) -> u32 {
    let mut moved = 0;
    let (mut cursor, to) = (Cursor::default(), |_| list);
    let moves = |_, pages| moved += pages;
    let walk = pair
        .index
        .migrate(&file, (to, 1), &mut cursor, u32::MAX, moves);
    assert_eq!(walk, Walk::Done);
    moved
}

/// As long as [`Index::lack`] reports nothing, no insertion is refused, up to the last place of
/// each segment.
#[test]
fn insertion_succeeds_without_a_reported_lack() {
    let mut pair = Pair::new();
    let bytes = |pair: &Pair, kind| pair.index.storage().segments(kind);
    let mut index = 0;
    while Kind::ALL.into_iter().any(|kind| bytes(&pair, kind) < 3) {
        // A file with four blocks, one of which has a single page.
        let (first, pages) = (page(index / 4, index % 4 * 16), 1 + (index % 4) as usize);
        assert_eq!(insert(&mut pair, first, pages, 0), pages, "{index}");
        index += 1;
    }
}

/// Blocks of the same pages are merged only if there is memory for a leaf.
#[test]
fn without_leaves_twins_stay_apart() {
    let mut pair = Pair::new();
    assert_eq!(insert(&mut pair, page(1, 0), 1, 0), 1);
    assert_eq!(insert(&mut pair, page(1, 1), 1, 1), 1);
    pair.trim(u32::MAX);
    assert_eq!(pair.index.storage().segments(Kind::Leaves), 0);
    assert_eq!(migrate(&mut pair, page(1, 0).file, 1), 1);
    for index in 0..2 {
        assert_eq!(pair.index.list_of(&page(1, index)), Some(1));
    }
    assert_eq!(pair.fifo(1).len(), 2);
}

/// A cohort begins only if there is memory for its members.
#[test]
fn without_members_pages_stay_where_they_are() {
    const COHORTS: u64 = 7;
    let mut pair = Pair::new();
    for block in 0..COHORTS * 64 {
        assert_eq!(insert(&mut pair, page(1, block * 16), 1, 0), 1);
    }
    pair.trim(u32::MAX);
    // The first item of a segment, number 0, is not used.
    let members = pair
        .index
        .capacity::<super::super::cohort::Members>(Kind::Members);
    assert_eq!(members as u64, COHORTS + 1);
    assert_eq!(migrate(&mut pair, page(1, 0).file, 1), 0);
    assert_eq!(pair.index.list_of(&page(1, 0)), Some(0));
}

/// The number of a file that was freed matches no name.
#[test]
fn a_number_that_is_free_has_no_name() {
    let first = PageKey::default();
    let second = PageKey { index: 16, ..first };
    let mut pair = Pair::new();
    assert_eq!(insert(&mut pair, first, 1, 0), 1);
    let mut batch = Batch::new();
    batch.add(&pair.index.hasher, &first, 1, (0, POOLS));
    batch.add(&pair.index.hasher, &second, 1, (1, 0));
    let (mut back, mut stored) = (0, 0);
    batch.by_shard(0, |_, group| {
        supply(&mut pair.index, group.len());
        let kept = |part: &Part| stored += part.pages();
        pair.index
            .insert(&group, 0, &[1, 2], |_, _| back += 1, kept);
    });
    assert_eq!((back, stored), (1, 1));
    assert_eq!(pair.index.list_of(&second), Some(0));
    assert_eq!(pair.index.files.used, 1);
}
