// SPDX-License-Identifier: GPL-2.0-only

//! Policies of containers, which determine which pages are cached and which are evicted.
//!
//! The paper stores each page that leaves a guest and evicts the oldest (section 4.2). In an
//! exclusive cache a hit removes the page, so that the cache learns nothing about the pages in it,
//! and each page that is not read again costs an exit and a copy without any benefit. The decision
//! is therefore divided:
//!
//! - **guest** ([`admission`]): a page that leaves by reclaim is either refused, which costs
//!   neither an exit nor a copy, or put with a [`Class`], a two-bit estimate of its value;
//! - **host** ([`order`]): pages of one class are evicted in the order in which they were put. The
//!   class is chosen by age; a class counts as old at four times the age of the class below.
//!
//! The history of pages is kept in the guest: a sketch of frequencies ([`sketch`]), fingerprints of
//! pages seen before ([`ghost`]), and the kernel's own refault flag. The host only reports a
//! [`Pressure`] for each pool in its answers. While a pool has room, all pages are admitted.
//!
//! | policy | admits under pressure | class | host's order |
//! |---|---|---|---|
//! | `fifo` | all pages (the paper's policy) | 0 | oldest |
//! | `workingset` | pages that the kernel counts as refaults | 0 | oldest |
//! | `tinylfu` | pages of a higher class than the next victim | by frequency | by age and class |
//! | `s3` | all pages | 1 if it left before, else 0 | class 0 above a tenth, else class 1 |
//! | `mru` | one page in 32 | 0 | oldest |
//! | `adaptive` | as the best of three simulations ([`shadow`]) | as that one | by age and class |
//!
//! If only proven pages go to the SSD tier ([`Admission::prove`]), pages that left before have a
//! class of at least 1, whatever the policy is.
//!
//! The caller provides the memory. No operation allocates or sleeps, and each takes constant time
//! unless its documentation says otherwise.

pub mod admission;
pub mod ghost;
pub mod order;
pub mod pressure;
pub mod shadow;
pub mod sketch;
#[cfg(test)]
mod tests;
pub mod throttle;

pub use admission::{Admission, Refusal, Verdict};
pub use ddabi::policy::Policy;
pub use order::{Order, CLASSES};
pub use pressure::{is_full, Pressure};

use crate::index::BLOCK_PAGES;
use ddabi::key::{mix, FileKey, PageKey};

/// Binary logarithm of the number of pages that share a frequency (16 KiB). Adjacent pages are
/// mostly read together, and a run of them is counted once.
const GROUP_BITS: u32 = 2;

/// Mask of the position of a page in its group.
const GROUP_PLACES: u64 = (1 << GROUP_BITS) - 1;

/// Number of bits of the position of a page in a block of the host, whose pages are evicted
/// together.
const BLOCK_BITS: u32 = BLOCK_PAGES.ilog2();

/// Mask of the position of a page in a block.
const BLOCK_PLACES: u64 = BLOCK_PAGES as u64 - 1;

/// The value of a page, 0 to `CLASSES - 1`.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Class(u8);

impl Class {
    /// The class of pages without history.
    pub const LOWEST: Self = Self(0);

    /// The lowest class of pages that left before.
    const PROVEN: Self = Self(1);

    /// Returns the class with this number, or the highest.
    pub const fn new(number: u8) -> Self {
        if (number as usize) < CLASSES {
            Self(number)
        } else {
            Self(CLASSES as u8 - 1)
        }
    }

    /// Returns the class for a frequency of recent misses: 0 to 1, 2, 3 to 4, and more.
    pub const fn of_frequency(frequency: u8) -> Self {
        match frequency {
            0 | 1 => Self(0),
            2 => Self(1),
            3 | 4 => Self(2),
            _ => Self(3),
        }
    }

    /// Returns its number.
    pub const fn number(self) -> usize {
        self.0 as usize
    }
}

/// The identity of a page as hashes, so that policies need no keys.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PageName {
    /// Hash of the page.
    pub page: u64,
    /// Hash of the aligned group of pages to which the page belongs.
    pub group: u64,
    /// Hash of its block at the host, with its position in the block in the [`BLOCK_BITS`] lowest
    /// bits.
    pub block: u64,
}

impl PageName {
    /// Returns the name of a page.
    pub const fn of(key: &PageKey) -> Self {
        let names = Names::of(&key.file);
        Self {
            page: names.page(key.index),
            group: names.group(key.index),
            block: names.block(key.index) | key.index & BLOCK_PLACES,
        }
    }
}

/// The names of the pages of a file.
#[derive(Clone, Copy, Debug)]
pub struct Names(u64);

impl Names {
    /// Returns the names of a file.
    pub const fn of(file: &FileKey) -> Self {
        Self(file.hash())
    }

    /// Returns the names of `pages` pages from `first` on. Pages share the hashes of their groups
    /// and blocks, which are computed once for each of these.
    pub fn run(self, first: u64, pages: u32) -> impl Iterator<Item = PageName> {
        let (mut group, mut block) = (self.group(first), self.block(first));
        (first..first.saturating_add(pages.into())).map(move |index| {
            if index & GROUP_PLACES == 0 {
                group = self.group(index);
            }
            if index & BLOCK_PLACES == 0 {
                block = self.block(index);
            }
            PageName {
                page: self.page(index),
                group,
                block: block | index & BLOCK_PLACES,
            }
        })
    }

    const fn page(self, index: u64) -> u64 {
        mix(self.0.wrapping_add(index))
    }

    const fn group(self, index: u64) -> u64 {
        mix(!self.0.wrapping_add(index >> GROUP_BITS))
    }

    /// Returns the hash of the block of a page, without the position of the page.
    const fn block(self, index: u64) -> u64 {
        mix(self.0.wrapping_add(index >> BLOCK_BITS)) >> BLOCK_BITS << BLOCK_BITS
    }
}
