// SPDX-License-Identifier: GPL-2.0-only

//! Numbering of the lists of an index: a pool has one list for each class of its pages.

use crate::policy::Order;
use crate::store::{Storage, Store};
use core::ops::Range;
use ddabi::pool::MAX_POOLS;
use ddabi::request::CLASSES;

/// Returns the list of a pool's pages of a class; both are within their bounds.
#[inline]
pub const fn list(pool: u32, class: u8) -> u16 {
    pool as u16 * CLASSES as u16 + class as u16
}

/// Returns the lists of a pool.
#[inline]
pub const fn lists(pool: u32) -> Range<u16> {
    list(pool, 0)..list(pool, 0) + CLASSES as u16
}

/// Returns the pool of a list.
#[inline]
pub const fn pool(of: u16) -> u32 {
    of as u32 / CLASSES as u32
}

/// Returns the list of another pool for the same class.
#[inline]
pub const fn same_class(of: u16, pool: u32) -> u16 {
    list(pool, (of % CLASSES as u16) as u8)
}

/// Returns the number of pages on some lists of an index. Lists that it does not have count as
/// empty.
pub fn used<S: Storage>(store: &Store<S>, lists: Range<u16>) -> u64 {
    let held = store.storage().lists();
    let held = held.iter().take(usize::from(lists.end));
    held.skip(usize::from(lists.start))
        .map(|list| list.used)
        .sum()
}

/// Returns the class of a pool from which a page is evicted, by the pages of one shard, or `None`
/// if the shard has no page of the pool.
///
/// Pages are spread over the shards by hash, so that each is a fair sample of the pool.
pub fn victim<S: Storage>(store: &Store<S>, pool: u32, order: Order, now: u64) -> Option<u8> {
    let class = order.victim_in(store, list(pool, 0), now)?;
    Some(class as u8)
}

const _: () = assert!(MAX_POOLS as usize * CLASSES <= u16::MAX as usize);
