// SPDX-License-Identifier: GPL-2.0-only

//! Looking things up in a map in the order of their keys.

use std::{
    borrow::Borrow,
    cmp::Ordering,
    collections::{BTreeMap, btree_map::Iter},
    iter::Peekable,
};

/// A place in a map that moves on as larger keys are asked for. To look all keys of one map up in
/// another takes as long as to walk through both, whatever their sizes.
pub(super) struct Cursor<'a, K, V>(Peekable<Iter<'a, K, V>>);

impl<'a, K: Borrow<str>, V> Cursor<'a, K, V> {
    pub(super) fn new(map: &'a BTreeMap<K, V>) -> Self {
        Self(map.iter().peekable())
    }

    /// Returns the value of a key, which must not be smaller than those asked for before.
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
                // The same key may be asked for again.
                prop_assert_eq!(cursor.at(key), map.get(key));
            }
        }
    }
}
