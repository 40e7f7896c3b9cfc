// SPDX-License-Identifier: GPL-2.0-only

//! Numbering of the lists of an index: a pool has one list for each class of its pages in the
//! memory tier, and one for its pages in the SSD tier.

use crate::index::{Index, Storage};
use crate::policy::Order;
use core::ops::Range;
use ddabi::pool::MAX_POOLS;
use ddabi::request::CLASSES;

/// The class of pages in the SSD tier, which follows the classes of the memory tier.
pub const SSD_CLASS: u8 = CLASSES as u8;

/// Number of lists of a pool.
pub const LISTS: usize = CLASSES + 1;

/// Returns the list of a pool's pages of a class in the memory tier. Both numbers must be within
/// their bounds.
#[inline]
pub const fn list(pool: u32, class: u8) -> u16 {
    pool as u16 * LISTS as u16 + class as u16
}

/// Returns the lists of a pool in the memory tier.
#[inline]
pub const fn lists(pool: u32) -> Range<u16> {
    list(pool, 0)..ssd_list(pool)
}

/// Returns the lists of a pool in all tiers.
#[inline]
pub const fn all_lists(pool: u32) -> Range<u16> {
    list(pool, 0)..list(pool + 1, 0)
}

/// Returns the list of a pool's pages in the SSD tier.
#[inline]
pub const fn ssd_list(pool: u32) -> u16 {
    list(pool, SSD_CLASS)
}

/// Returns whether a list is that of a pool's pages in the SSD tier.
#[inline]
pub const fn is_ssd(list: u16) -> bool {
    list as usize % LISTS == CLASSES
}

/// Returns the pool of a list.
#[inline]
pub const fn pool(of: u16) -> u32 {
    of as u32 / LISTS as u32
}

/// Returns the list of another pool for the same class. Pages in the SSD tier stay where they are,
/// because a segment has the pages of one pool.
#[inline]
pub const fn same_class(of: u16, pool: u32) -> u16 {
    if is_ssd(of) {
        return of;
    }
    list(pool, (of % LISTS as u16) as u8)
}

/// Returns the number of pages on some lists of an index. Lists that it does not have count as
/// empty.
pub fn used<S: Storage>(index: &Index<S>, lists: Range<u16>) -> u64 {
    let held = index.storage().lists();
    let held = held.iter().take(usize::from(lists.end));
    held.skip(usize::from(lists.start))
        .map(|list| list.used)
        .sum()
}

/// Returns the class of a pool from which a page is to be evicted, or `None` if the shard has no
/// page of the pool. The choice depends only on the pages of this shard.
///
/// Because pages are spread over the shards by hash, each shard is a fair sample of the pool.
pub fn victim<S: Storage>(index: &Index<S>, pool: u32, order: Order, now: u64) -> Option<u8> {
    let class = order.victim_in(index, list(pool, 0), now)?;
    Some(class as u8)
}

const _: () = assert!(MAX_POOLS as usize * LISTS <= u16::MAX as usize);
