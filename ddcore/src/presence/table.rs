// SPDX-License-Identifier: GPL-2.0

//! A hash table inside the slots of its entries, which grows slot by slot (linear hashing).

use super::slots::{Link, Links, Slot, Slots, MAX_SLOTS};
use ddabi::key::mix;

/// Slots, those in use in chains by hash, the others on the free list.
pub(super) struct Table<S> {
    slots: S,
    /// Keeps who names files from choosing what collides.
    seed: u64,
    /// Slots taken into use, also the number of chains.
    adopted: u32,
    /// All ones, up to the highest bit of the number of the last chain.
    mask: u32,
    used: u32,
    free: Link,
}

impl<S> Table<S> {
    pub(super) const fn new(slots: S, seed: u64) -> Self {
        Self {
            slots,
            seed,
            adopted: 0,
            mask: 0,
            used: 0,
            free: Link::NONE,
        }
    }

    pub(super) fn slots_mut(&mut self) -> &mut S {
        &mut self.slots
    }

    /// Slots taken into use so far.
    pub(super) fn adopted(&self) -> u32 {
        self.adopted
    }

    /// Entries.
    pub(super) fn used(&self) -> u32 {
        self.used
    }

    /// Slots on the free list.
    pub(super) fn spare(&self) -> u32 {
        self.adopted.saturating_sub(self.used)
    }

    /// First slot of the free list.
    pub(super) fn free(&self) -> Link {
        self.free
    }
}

impl<S: Slots> Table<S> {
    pub(super) fn get(&self, slot: u32) -> Option<&S::Slot> {
        self.slots.get(slot)
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut S::Slot> {
        self.slots.get_mut(slot)
    }

    /// Chain of the entry with this identity.
    ///
    /// Between two powers of two only the first chains are split already: entries of the
    /// others are found without the highest bit.
    pub(super) fn bucket(&self, identity: u64) -> u32 {
        // The lower half of a well mixed word is one as well.
        let bucket = mix(identity ^ self.seed) as u32 & self.mask;
        if bucket < self.adopted {
            bucket
        } else {
            bucket & (self.mask >> 1)
        }
    }

    /// The entry with this identity that `is` the one looked for.
    pub(super) fn find(&self, identity: u64, is: impl Fn(&S::Slot) -> bool) -> Option<u32> {
        let bucket = self.slots.get(self.bucket(identity))?;
        let mut at = bucket.links().bucket;
        while let Some(slot) = at.slot() {
            let entry = self.slots.get(slot)?;
            if is(entry) {
                return Some(slot);
            }
            at = entry.links().next;
        }
        None
    }

    /// Takes a free slot, has it filled, and enters it by its identity.
    pub(super) fn insert(&mut self, fill: impl FnOnce(&mut S::Slot)) -> Option<u32> {
        let slot = self.free.slot()?;
        let entry = self.slots.get_mut(slot)?;
        self.free = entry.links().next;
        fill(entry);
        self.used = self.used.saturating_add(1);
        self.chain(slot);
        Some(slot)
    }

    /// Takes the entry out of its chain and frees the slot.
    pub(super) fn remove(&mut self, slot: u32) {
        if self.unchain(slot).is_none() {
            debug_assert!(false, "an entry outside its chain");
            return;
        }
        let free = self.free;
        if let Some(entry) = self.slots.get_mut(slot) {
            entry.reset();
            entry.links_mut().next = free;
            self.free = Link::to(slot);
            self.used = self.used.saturating_sub(1);
        }
    }

    /// Takes up to `most` new slots into use; whether all provided ones are.
    pub(super) fn adopt(&mut self, most: u32) -> bool {
        let provided = self.slots.count().min(MAX_SLOTS);
        let end = provided.min(self.adopted.saturating_add(most));
        for slot in self.adopted..end {
            let free = self.free;
            let Some(entry) = self.slots.get_mut(slot) else {
                debug_assert!(false, "fewer slots than counted");
                break;
            };
            entry.reset();
            *entry.links_mut() = Links {
                next: free,
                ..Links::EMPTY
            };
            self.free = Link::to(slot);
            self.adopted = slot.saturating_add(1);
            self.mask = u32::MAX.checked_shr(slot.leading_zeros()).unwrap_or(0);
            self.split(slot);
        }
        self.adopted == provided
    }

    /// Moves those entries to the new chain `bucket` that belong there from now on.
    fn split(&mut self, bucket: u32) {
        let Some(highest) = bucket.checked_ilog2() else {
            return;
        };
        let Some(source) = self.slots.get_mut(bucket ^ 1 << highest) else {
            return;
        };
        let mut at = core::mem::replace(&mut source.links_mut().bucket, Link::NONE);
        while let Some(slot) = at.slot() {
            at = self
                .slots
                .get(slot)
                .map_or(Link::NONE, |entry| entry.links().next);
            self.chain(slot);
        }
    }

    /// Puts an entry at the head of its chain.
    fn chain(&mut self, slot: u32) {
        let Some(identity) = self.slots.get(slot).map(Slot::identity) else {
            return;
        };
        let bucket = self.bucket(identity);
        let Some(chain) = self.slots.get_mut(bucket) else {
            return;
        };
        let next = core::mem::replace(&mut chain.links_mut().bucket, Link::to(slot));
        if let Some(entry) = self.slots.get_mut(slot) {
            entry.links_mut().next = next;
        }
    }

    /// Takes an entry out of its chain; `None` if it is not there.
    fn unchain(&mut self, slot: u32) -> Option<()> {
        let entry = self.slots.get(slot)?;
        let (next, bucket) = (entry.links().next, self.bucket(entry.identity()));
        let chain = self.slots.get_mut(bucket)?.links_mut();
        let mut at = chain.bucket;
        if at == Link::to(slot) {
            chain.bucket = next;
            return Some(());
        }
        loop {
            let before = self.slots.get_mut(at.slot()?)?.links_mut();
            at = before.next;
            if at == Link::to(slot) {
                before.next = next;
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Table;
    use crate::presence::slots::{Fixed, Link, Slot};
    use crate::presence::ChunkSlot;

    /// Longest chain of a table with as many entries as slots.
    fn longest(table: &Table<Fixed<ChunkSlot, 3000>>) -> usize {
        let length = |bucket| {
            let first = table.get(bucket).unwrap().links().bucket;
            let next = |at: &Link| Some(table.get(at.slot()?).unwrap().links().next);
            core::iter::successors(Some(first), next).count() - 1
        };
        (0..table.adopted()).map(length).max().unwrap()
    }

    #[test]
    fn chains_stay_short_while_the_table_grows() {
        let mut table = Table::new(Fixed([const { ChunkSlot::EMPTY }; 3000]), 5);
        for number in 0..3000 {
            table.adopt(1);
            let inserted = table.insert(|chunk| {
                chunk.file = Link::to(3);
                chunk.number = number;
            });
            assert!(inserted.is_some());
            if number % 100 == 99 {
                assert!(longest(&table) <= 12);
            }
        }
        assert!(table.insert(|_| ()).is_none());
        for number in 0..3000 {
            let identity = ChunkSlot::identity_of(Link::to(3), number);
            let slot = table
                .find(identity, |chunk| chunk.number == number)
                .unwrap();
            table.remove(slot);
        }
        assert_eq!((table.used(), table.spare()), (0, 3000));
    }
}
