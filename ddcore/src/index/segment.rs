// SPDX-License-Identifier: GPL-2.0-only

//! Segments, the units of memory that the caller provides. A segment contains items of one kind.
//! Their size is a power of two, and they are found by number.

use super::block::Block;
use super::bucket::{Bucket, SLOTS};
use super::cohort::{Cohort, Members};
use super::file::File;
use super::file_bucket::FileBucket;
use super::leaf::{Leaf, Owner};
use super::spill::Spill;
use super::{Index, Storage};
use zerocopy::{transmute_mut, transmute_ref};

/// Memory for items of one kind. An empty segment is all zeroes, and zeroed memory of this size is
/// an empty segment.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Segment([u64; 512]);

impl Segment {
    /// An empty segment.
    pub const EMPTY: Self = Self([0; 512]);
}

/// Kind of the items in a segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Buckets of blocks.
    Buckets,
    /// Blocks of full buckets.
    Spills,
    /// Files.
    Files,
    /// Buckets of files.
    FileBuckets,
    /// Handles of blocks with more than one page.
    Leaves,
    /// The blocks to which leaves belong, and the upper bits of their handles.
    Owners,
    /// Cohorts.
    Cohorts,
    /// The blocks of cohorts.
    Members,
}

impl Kind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Buckets,
        Self::Spills,
        Self::Files,
        Self::FileBuckets,
        Self::Leaves,
        Self::Owners,
        Self::Cohorts,
        Self::Members,
    ];
}

/// The items of a segment.
pub(super) trait Item: Sized + 'static {
    /// Number of items in a segment, a power of two.
    const EACH: u32;

    fn items(segment: &Segment) -> &[Self];

    fn items_mut(segment: &mut Segment) -> &mut [Self];
}

macro_rules! item {
    ($($item:ty: $each:literal)*) => {
        $(
            impl Item for $item {
                const EACH: u32 = $each;

                #[inline]
                fn items(segment: &Segment) -> &[Self] {
                    let items: &[Self; $each] = transmute_ref!(&segment.0);
                    items
                }

                #[inline]
                fn items_mut(segment: &mut Segment) -> &mut [Self] {
                    let items: &mut [Self; $each] = transmute_mut!(&mut segment.0);
                    items
                }
            }
        )*
    };
}

item! {
    Block: 256
    Bucket: 64
    Spill: 128
    File: 128
    FileBucket: 256
    Leaf: 64
    Owner: 512
    Cohort: 256
    Members: 8
}

impl<S: Storage> Index<S> {
    #[inline]
    pub(super) fn item<T: Item>(&self, kind: Kind, number: u32) -> &T {
        let segment = self.storage.segment(kind, (number / T::EACH) as usize);
        &T::items(segment)[(number % T::EACH) as usize]
    }

    #[inline]
    pub(super) fn item_mut<T: Item>(&mut self, kind: Kind, number: u32) -> &mut T {
        let segment = self.storage.segment_mut(kind, (number / T::EACH) as usize);
        &mut T::items_mut(segment)[(number % T::EACH) as usize]
    }

    /// Returns the number of items for which there is memory.
    pub(super) fn capacity<T: Item>(&self, kind: Kind) -> usize {
        self.storage.segments(kind) * T::EACH as usize
    }
}

const _: () = assert!(size_of::<Segment>() == ddabi::PAGE_SIZE);
const _: () = assert!(Block::EACH == Bucket::EACH * SLOTS);
