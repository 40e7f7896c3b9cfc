// SPDX-License-Identifier: GPL-2.0-only

//! Relocation of pages, with changes of the index in the middle of it.

use super::*;

impl Pair {
    /// Looks up a stretch, lets `between` change the index, and relocates the stretch.
    pub(super) fn relocate(
        &mut self,
        (from, to): (u16, u16),
        (newest, most): (bool, usize),
        between: impl FnOnce(&mut Self),
    ) {
        let end = match newest {
            true => End::Newest,
            false => End::Oldest,
        };
        let mut seen = Vec::new();
        let stretch = self
            .index
            .stretch(from, end, most, |at, held| seen.push((at, held.handle())));
        let has_pages = self.model.values().any(|(entry, _)| entry.list == from);
        assert_eq!(stretch.is_some(), has_pages);
        let Some(stretch) = stretch else { return };
        let pages = stretch.handles().len();
        assert!((1..=most).contains(&pages));
        let handles = stretch.handles().iter().copied().enumerate();
        assert!(seen.into_iter().eq(handles));
        let first = *stretch.first();
        let keys: Vec<_> = (first.index..)
            .take(pages)
            .map(|index| PageKey { index, ..first })
            .collect();
        let entry = |pair: &Self, key: &PageKey| pair.model.get(key).map(|(entry, _)| *entry);
        for (key, handle) in keys.iter().zip(stretch.handles()) {
            let entry = entry(self, key).unwrap();
            assert_eq!((entry.list, entry.handle), (from, *handle));
        }
        between(self);
        let is_same = |(key, handle): (&PageKey, &u64)| {
            entry(self, key).is_some_and(|one| one.list == from && one.handle == *handle)
        };
        let is_same = keys.iter().zip(stretch.handles()).all(is_same);
        let handles: Vec<_> = (self.handle + 1..).take(pages).collect();
        self.handle += pages as u64;
        self.age += 1;
        let (stamp, mut sunk) = (self.age, Vec::new());
        supply(&mut self.index, 1);
        let moved = self
            .index
            .relocate(&stretch, (to, stamp), &handles, |page| sunk.push(page));
        assert_eq!(moved, is_same);
        if !moved {
            assert_eq!(sunk, []);
            return;
        }
        let mut expected = Vec::new();
        for (key, handle) in keys.iter().zip(handles) {
            let new = Entry {
                list: to,
                handle,
                stamp,
            };
            let (old, _) = self.model.insert(*key, (new, 0)).unwrap();
            expected.push(removed(*key, &old));
        }
        assert_eq!(sunk, expected);
        self.expected[usize::from(from)].relocated_out += pages as u64;
        self.expected[usize::from(to)].relocated_in += pages as u64;
        self.renew(&keys, to);
    }
}

#[test]
fn a_page_that_was_overwritten_is_not_moved() {
    let mut pair = Pair::new();
    let key = page(1, 5);
    pair.insert(&[(key, 3)], 0);
    pair.relocate((0, 1), (false, 16), |pair| {
        pair.insert(&[(page(1, 6), 1)], 0);
    });
    assert_eq!(pair.index.list_of(&key), Some(0));
    pair.relocate((0, 1), (false, 16), |_| ());
    assert_eq!(pair.index.list_of(&key), Some(1));
    pair.check_all();
}

#[test]
fn pages_that_cannot_move_stay_where_they_are() {
    let mut pair = Pair::new();
    pair.insert(&[(page(1, 0), 2)], 0);
    let stretch = pair.index.stretch(0, End::Oldest, 16, |_, _| ()).unwrap();
    let nowhere = |_| panic!("a page was removed");
    for (list, handles) in [
        // The list does not exist.
        (POOLS, &[7, 8][..]),
        // There is a handle for only one of two pages, or a handle is too large.
        (1, &[7]),
        (1, &[7, MAX_HANDLE + 1]),
    ] {
        assert!(!pair.index.relocate(&stretch, (list, 9), handles, nowhere));
    }
    assert_eq!(pair.index.list_of(&page(1, 1)), Some(0));
    assert!(pair.index.relocate(&stretch, (1, 9), &[7, 8], |_| ()));
}

#[test]
fn a_stretch_that_changed_is_not_removed() {
    let mut pair = Pair::new();
    pair.insert(&[(page(1, 0), 2)], 0);
    let stretch = pair.index.stretch(0, End::Oldest, 16, |_, _| ()).unwrap();
    pair.insert(&[(page(1, 1), 1)], 0);
    let mut gone = 0;
    pair.index
        .remove_stretch(&stretch, Reason::Eviction, |_| gone += 1);
    assert_eq!((gone, pair.index.used()), (0, 2));
    let stretch = pair.index.stretch(0, End::Newest, 16, |_, _| ()).unwrap();
    pair.index
        .remove_stretch(&stretch, Reason::Eviction, |_| gone += 1);
    assert_eq!((gone, pair.index.used()), (2, 0));
}
