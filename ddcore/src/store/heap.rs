// SPDX-License-Identifier: GPL-2.0-only

//! Memory of stores outside kernels: for tests, fuzzing, simulation and benchmarks.

use super::{Kind, List, Segment, Storage, Store};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Segments that are allocated one by one, as in the host module, and lists.
#[derive(Debug, Default)]
pub struct Heap {
    segments: [Vec<Box<Segment>>; Kind::ALL.len()],
    /// The lists of the pools, by pool number.
    pub lists: Vec<List>,
}

impl Heap {
    /// No segments, and empty lists.
    pub fn with_lists(lists: usize) -> Self {
        Self {
            lists: vec![List::default(); lists],
            ..Self::default()
        }
    }

    /// Bytes of all segments.
    pub fn bytes(&self) -> usize {
        self.segments.iter().map(Vec::len).sum::<usize>() * size_of::<Segment>()
    }
}

impl Storage for Heap {
    #[inline]
    fn segments(&self, kind: Kind) -> usize {
        self.segments[kind as usize].len()
    }
    #[inline]
    fn segment(&self, kind: Kind, number: usize) -> &Segment {
        &self.segments[kind as usize][number]
    }
    #[inline]
    fn segment_mut(&mut self, kind: Kind, number: usize) -> &mut Segment {
        &mut self.segments[kind as usize][number]
    }
    #[inline]
    fn lists(&self) -> &[List] {
        &self.lists
    }
    #[inline]
    fn lists_mut(&mut self) -> &mut [List] {
        &mut self.lists
    }
}

impl Store<Heap> {
    /// Supplies what `parts` parts lack.
    pub fn supply(&mut self, parts: usize) {
        while let Some(kind) = self.lack(parts) {
            let segments = &mut self.storage_mut().segments[kind as usize];
            segments.push(Box::new(Segment::EMPTY));
        }
    }

    /// [Trims](Store::trim), and frees the segments that are not needed then.
    pub fn trim_and_free(&mut self, steps: u32) {
        self.trim(steps);
        for kind in Kind::ALL {
            let needed = self.needed(kind);
            self.storage_mut().segments[kind as usize].truncate(needed);
        }
    }
}
