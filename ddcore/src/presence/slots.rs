// SPDX-License-Identifier: GPL-2.0-only

//! Slots, which the caller provides, and links between them.

/// Maximum number of slots of one kind in a shard. Further slots are not used.
pub const MAX_SLOTS: u32 = 1 << 30;

/// A growable sequence of slots: a vector, or a list of segments.
///
/// [`Slots::get`] and [`Slots::get_mut`] must always return the same slot for the same number,
/// for all numbers below [`Slots::count`], and the count must never fall. New slots must be
/// `EMPTY`. The caller must not change them after it has provided them; they are used once
/// [`super::Shard::adopt`] takes them.
pub trait Slots {
    /// Kind of slot: [`super::FileSlot`] or [`super::ChunkSlot`].
    type Slot: Slot;

    /// Returns the number of slots that were provided so far.
    fn count(&self) -> u32;

    /// Returns the slot with this number, or `None` from [`Slots::count`] on.
    fn get(&self, slot: u32) -> Option<&Self::Slot>;

    /// Returns the slot with this number for changes, or `None` from [`Slots::count`] on.
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

/// Interface of a slot to the hash table.
pub trait Slot {
    /// Returns numbers that identify the content. They need not be well mixed.
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
    /// The null link.
    pub(super) const NONE: Self = Self(0);

    /// Returns a link to the slot with this number, which is below [`MAX_SLOTS`].
    #[inline]
    pub(super) fn to(slot: u32) -> Self {
        debug_assert!(slot < MAX_SLOTS);
        Self(slot.wrapping_add(1))
    }

    /// Returns the number of the slot that it refers to.
    #[inline]
    pub(super) fn slot(self) -> Option<u32> {
        self.0.checked_sub(1)
    }
}

/// The fields of a slot that the hash table uses.
#[derive(Clone, Copy, Debug)]
pub struct Links {
    /// The next slot of the same chain, or of the free list.
    pub(super) next: Link,
    /// Head of the chain with the number of this slot. It is unrelated to the content of the slot.
    /// The table has as many chains as slots.
    pub(super) bucket: Link,
}

impl Links {
    /// Links of a slot on no list, with an empty chain.
    pub(super) const EMPTY: Self = Self {
        next: Link::NONE,
        bucket: Link::NONE,
    };
}
