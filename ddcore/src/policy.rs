// SPDX-License-Identifier: GPL-2.0-only

//! Policies of containers: which pages are cached, and which are evicted.
//!
//! The paper stores each page that leaves a guest and evicts the oldest (section 4.2). In an
//! exclusive cache a hit takes the page out, so that the cache learns nothing about the pages
//! inside, and pages that are not read again cost an exit and a copy each. The decision is therefore
//! divided:
//!
//! - **guest** ([`admission`]): a page that leaves by reclaim is either refused, which costs neither
//!   an exit nor a copy, or put with a [`Class`], a number of two bits for its value;
//! - **host** ([`order`]): pages of one class are evicted in the order in which they came. The class
//!   is chosen by age; a class counts as old at four times the age of the class below.
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

use crate::store::BLOCK_PAGES;
use ddabi::key::{mix, PageKey};

/// Pages that share a frequency: 16 KiB. What is read together is read together again, and runs
/// are counted once.
const GROUP_BITS: u32 = 2;

/// Pages of which the host makes a block: they leave together.
const BLOCK_BITS: u32 = BLOCK_PAGES.ilog2();

/// The bits of a place in a block.
const BLOCK_PLACES: u64 = BLOCK_PAGES as u64 - 1;

/// What a page is worth, 0 to `CLASSES - 1`.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Class(u8);

impl Class {
    /// The class of pages of which nothing is known.
    pub const LOWEST: Self = Self(0);

    /// The class with this number, or the highest.
    pub const fn new(number: u8) -> Self {
        if (number as usize) < CLASSES {
            Self(number)
        } else {
            Self(CLASSES as u8 - 1)
        }
    }

    /// By how often a page was missed of late: 0 and 1, 2, 3 and 4, more.
    const fn of_frequency(frequency: u8) -> Self {
        match frequency {
            0 | 1 => Self(0),
            2 => Self(1),
            3 | 4 => Self(2),
            _ => Self(3),
        }
    }

    /// Its number.
    pub const fn number(self) -> usize {
        self.0 as usize
    }
}

/// What a page is known by here: hashes, so that a policy needs no keys.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Name {
    /// Of the page.
    pub page: u64,
    /// Of the aligned group of pages it is part of.
    pub group: u64,
    /// Of the block it is part of at the host, with its place there in the [`BLOCK_BITS`] lowest
    /// bits.
    pub block: u64,
}

impl Name {
    /// The name of a page.
    pub const fn of(key: &PageKey) -> Self {
        let file = key.file.hash();
        Self {
            page: mix(file.wrapping_add(key.index)),
            group: mix(!file.wrapping_add(key.index >> GROUP_BITS)),
            block: mix(file.wrapping_add(key.index >> BLOCK_BITS)) >> BLOCK_BITS << BLOCK_BITS
                | key.index & BLOCK_PLACES,
        }
    }
}
