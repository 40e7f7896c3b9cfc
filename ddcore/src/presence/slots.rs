// SPDX-License-Identifier: GPL-2.0

//! Slots the caller provides, and how they refer to each other.

/// Most slots of one kind in a shard; what is provided beyond is not used.
pub const MAX_SLOTS: u32 = 1 << 30;

/// A growable sequence of slots: a vector, or a list of segments.
///
/// [`Slots::get`] and [`Slots::get_mut`] must answer with the same slot for the same number
/// for ever, for all numbers below [`Slots::count`], and the count must never fall. New slots
/// are `EMPTY` ones and are left alone until [`super::Shard::adopt`] takes them; the caller
/// never changes a slot afterwards.
pub trait Slots {
    /// Kind of slot: [`super::FileSlot`] or [`super::ChunkSlot`].
    type Slot: Slot;

    /// Number of slots provided so far.
    fn count(&self) -> u32;

    /// The slot with this number; `None` from [`Slots::count`] on.
    fn get(&self, slot: u32) -> Option<&Self::Slot>;

    /// The slot with this number, to change; `None` from [`Slots::count`] on.
    fn get_mut(&mut self, slot: u32) -> Option<&mut Self::Slot>;
}

/// A fixed number of slots.
#[derive(Clone, Debug)]
pub struct Fixed<T, const N: usize>(pub [T; N]);

impl<T: Slot, const N: usize> Slots for Fixed<T, N> {
    type Slot = T;

    fn count(&self) -> u32 {
        u32::try_from(N).unwrap_or(u32::MAX)
    }

    fn get(&self, slot: u32) -> Option<&T> {
        self.0.get(slot as usize)
    }

    fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.0.get_mut(slot as usize)
    }
}

/// What the hash table needs to know of a slot.
pub trait Slot {
    /// Numbers that identify the content; need not be well mixed.
    #[doc(hidden)]
    fn identity(&self) -> [u64; 2];

    #[doc(hidden)]
    fn links(&self) -> &Links;

    #[doc(hidden)]
    fn links_mut(&mut self) -> &mut Links;

    /// Empties the slot except for its links.
    #[doc(hidden)]
    fn reset(&mut self);
}

/// A reference to a slot, or none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Link(u32);

impl Link {
    /// Refers to nothing.
    pub(super) const NONE: Self = Self(0);

    /// Refers to the slot with this number, below [`MAX_SLOTS`].
    #[inline]
    pub(super) fn to(slot: u32) -> Self {
        debug_assert!(slot < MAX_SLOTS);
        Self(slot.wrapping_add(1))
    }

    /// Number of the slot it refers to.
    #[inline]
    pub(super) fn slot(self) -> Option<u32> {
        self.0.checked_sub(1)
    }
}

/// The hash table's share of a slot.
#[derive(Clone, Copy, Debug)]
pub struct Links {
    /// Next slot of the same chain, or of the free list.
    pub(super) next: Link,
    /// Head of the chain with the number of this slot, whatever the slot itself is used for:
    /// the table has as many chains as slots, and grows with them.
    pub(super) bucket: Link,
}

impl Links {
    /// On no list, and an empty chain.
    pub(super) const EMPTY: Self = Self {
        next: Link::NONE,
        bucket: Link::NONE,
    };
}
