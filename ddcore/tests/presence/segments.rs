// SPDX-License-Identifier: GPL-2.0-only

//! Slots in segments of a fixed size, as in the guest module.

use ddabi::key::FileKey;
use ddcore::presence::{ChunkSlot, FileSlot, Seed, Shard, Slots};

/// Number of slots of a segment.
const SEGMENT: u32 = 4;

pub(crate) struct Segments<T>(Vec<Box<[T]>>);

impl<T: Clone + Default> Segments<T> {
    pub(crate) fn new(segments: u32) -> Self {
        let mut all = Self(Vec::new());
        (0..segments).for_each(|_| all.grow());
        all
    }

    pub(crate) fn grow(&mut self) {
        self.0.push(vec![T::default(); SEGMENT as usize].into());
    }
}

macro_rules! slots {
    ($slot:ty) => {
        impl Slots for Segments<$slot> {
            type Slot = $slot;

            fn count(&self) -> u32 {
                self.0.len() as u32 * SEGMENT
            }

            fn get(&self, slot: u32) -> Option<&$slot> {
                self.0
                    .get((slot / SEGMENT) as usize)?
                    .get((slot % SEGMENT) as usize)
            }

            fn get_mut(&mut self, slot: u32) -> Option<&mut $slot> {
                self.0
                    .get_mut((slot / SEGMENT) as usize)?
                    .get_mut((slot % SEGMENT) as usize)
            }
        }
    };
}

slots!(FileSlot);
slots!(ChunkSlot);

pub(crate) type Map = Shard<Segments<FileSlot>, Segments<ChunkSlot>>;

/// Returns a map with this number of segments.
pub(crate) fn map(files: u32, chunks: u32, seed: u64) -> Map {
    let seed = Seed::new([seed, 1]);
    let mut map = Shard::new(Segments::new(files), Segments::new(chunks), seed);
    assert!(map.adopt(u32::MAX));
    map
}

/// Returns a file of a filesystem.
pub(crate) fn file(filesystem: u32, inode: u64) -> FileKey {
    FileKey {
        inode,
        filesystem,
        generation: 1,
    }
}
