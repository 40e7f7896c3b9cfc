// SPDX-License-Identifier: GPL-2.0

//! Which lists of a store are whose: a pool has one for each class of its pages.

use crate::shard::Memory;
use core::ops::Range;
use ddabi::pool::MAX_POOLS;
use ddabi::request::CLASSES;
use ddcore::policy::Order;
use ddcore::store::{Storage, Store};

/// The list of a pool's pages of a class; both are within their bounds.
pub(crate) const fn list(pool: u32, class: u8) -> u16 {
    pool as u16 * CLASSES as u16 + class as u16
}

/// The lists of a pool.
pub(crate) const fn lists(pool: u32) -> Range<u16> {
    list(pool, 0)..list(pool, 0) + CLASSES as u16
}

/// The pool of a list.
pub(crate) const fn pool(of: u16) -> u32 {
    of as u32 / CLASSES as u32
}

/// The list of another pool for the same class.
pub(crate) const fn same_class(of: u16, pool: u32) -> u16 {
    list(pool, (of % CLASSES as u16) as u8)
}

/// Whether a list has pages.
pub(crate) fn has_pages(store: &Store<Memory>, list: u16) -> bool {
    let list = store.storage().lists().get(usize::from(list));
    list.is_some_and(|list| list.used > 0)
}

/// The class of a pool that gives, by what one shard has of it; `None` if it has nothing.
///
/// Pages are spread over the shards by hash, so that each is a fair sample of the pool.
pub(crate) fn victim(store: &Store<Memory>, pool: u32, order: Order, now: u64) -> Option<usize> {
    order.victim_in(store, list(pool, 0), now)
}

const _: () = assert!(MAX_POOLS as usize * CLASSES <= u16::MAX as usize);
