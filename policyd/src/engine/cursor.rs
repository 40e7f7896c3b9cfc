// SPDX-License-Identifier: GPL-2.0-only

//! Lookups in a map in the order of its keys.

use std::{
    borrow::Borrow,
    cmp::Ordering,
    collections::{BTreeMap, btree_map::Iter},
    iter::Peekable,
};

/// A position in a map that advances as larger keys are looked up. To look up all keys of one map
/// in another takes as long as one pass over both, whatever their sizes.
pub(super) struct Cursor<'a, K, V>(Peekable<Iter<'a, K, V>>);

impl<'a, K: Borrow<str>, V> Cursor<'a, K, V> {
    pub(super) fn new(map: &'a BTreeMap<K, V>) -> Self {
        Self(map.iter().peekable())
    }

    /// Returns the value of a key, which must not be smaller than that of the previous lookup.
    pub(super) fn at(&mut self, key: &str) -> Option<&'a V> {
        loop {
            let (next, value) = self.0.peek()?;
            match <K as Borrow<str>>::borrow(next).cmp(key) {
                Ordering::Less => drop(self.0.next()),
                Ordering::Equal => return Some(*value),
                Ordering::Greater => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_cursor_finds_what_the_map_has(
            map in prop::collection::btree_map("[a-c/]{0,3}", any::<u8>(), 0..20),
            keys in prop::collection::vec("[a-c/]{0,3}", 0..20),
        ) {
            let map: BTreeMap<String, u8> = map;
            let keys: BTreeSet<String> = keys.into_iter().collect();
            let mut cursor = Cursor::new(&map);
            for key in &keys {
                prop_assert_eq!(cursor.at(key), map.get(key));
                // A key can be looked up twice.
                prop_assert_eq!(cursor.at(key), map.get(key));
            }
        }
    }
}
