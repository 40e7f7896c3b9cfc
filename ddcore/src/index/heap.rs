// SPDX-License-Identifier: GPL-2.0-only

//! Memory of indices outside of kernels, for tests, fuzzing, simulation and benchmarks.

use super::{Index, Kind, List, Segment, Storage};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Lists, and segments that are allocated one by one, as in the host module.
#[derive(Debug, Default)]
pub struct Heap {
    segments: [Vec<Box<Segment>>; Kind::ALL.len()],
    /// The largest number of segments of each kind, if there is one.
    caps: [Option<usize>; Kind::ALL.len()],
    /// The lists, by number.
    pub lists: Vec<List>,
}

impl Heap {
    /// Creates storage without segments and with empty lists.
    pub fn with_lists(lists: usize) -> Self {
        Self {
            lists: vec![List::default(); lists],
            ..Self::default()
        }
    }

    /// Limits the number of segments of a kind, as if memory ran out.
    pub fn cap(&mut self, kind: Kind, segments: usize) {
        self.caps[kind as usize] = Some(segments);
    }

    /// Returns the number of bytes of all segments.
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

impl Index<Heap> {
    /// Provides the segments that [`Index::lack`] asks for before `parts` parts are inserted, up to
    /// the first one that is [capped](Heap::cap).
    pub fn supply(&mut self, parts: usize) {
        while let Some(kind) = self.lack(parts) {
            let heap = self.storage_mut();
            let segments = &mut heap.segments[kind as usize];
            if heap.caps[kind as usize].is_some_and(|cap| segments.len() >= cap) {
                return;
            }
            segments.push(Box::new(Segment::EMPTY));
        }
    }

    /// [Trims](Index::trim) the index, and frees the segments that it no longer needs.
    pub fn trim_and_free(&mut self, steps: u32) {
        self.trim(steps);
        for kind in Kind::ALL {
            let needed = self.needed(kind);
            self.storage_mut().segments[kind as usize].truncate(needed);
        }
    }
}
