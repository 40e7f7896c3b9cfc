// SPDX-License-Identifier: GPL-2.0-only

//! A hash table inside the slots of its entries, which grows slot by slot (linear hashing).

use super::seed::Seed;
use super::slots::{Link, Links, Slot, Slots, MAX_SLOTS};

/// A table of slots. Those with an entry are in chains by hash, the others on the free list.
pub(super) struct Table<S> {
    slots: S,
    /// The key of the hash, which prevents users from choosing files that collide.
    seed: Seed,
    /// Number of slots taken into use, which is also the number of chains.
    adopted: u32,
    /// Mask with ones up to the highest bit of the number of the last chain.
    mask: u32,
    used: u32,
    free: Link,
}

impl<S> Table<S> {
    pub(super) const fn new(slots: S, seed: Seed) -> Self {
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

    /// Returns the number of slots taken into use so far.
    pub(super) fn adopted(&self) -> u32 {
        self.adopted
    }

    /// Returns the number of entries.
    pub(super) fn used(&self) -> u32 {
        self.used
    }

    /// Returns the number of slots on the free list.
    pub(super) fn spare(&self) -> u32 {
        self.adopted.saturating_sub(self.used)
    }

    /// Returns the first slot of the free list.
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

    /// Returns the chain of the entry with this identity.
    ///
    /// Between two powers of two only the first chains are split. Entries of the others are found
    /// without the highest bit.
    pub(super) fn bucket(&self, identity: [u64; 2]) -> u32 {
        // The lower half of the hash suffices.
        let bucket = self.seed.hash(identity) as u32 & self.mask;
        if bucket < self.adopted {
            bucket
        } else {
            bucket & (self.mask >> 1)
        }
    }

    /// Returns the entry with this identity for which `is` returns `true`.
    pub(super) fn find(&self, identity: [u64; 2], is: impl Fn(&S::Slot) -> bool) -> Option<u32> {
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

    /// Takes a free slot, calls `fill` on it, and adds it to the chain of its identity. Returns
    /// `None` if no slot is free.
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

    /// Takes up to `max_entries` new slots into use. Returns whether all provided slots are in use.
    pub(super) fn adopt(&mut self, max_entries: u32) -> bool {
        let provided = self.slots.count().min(MAX_SLOTS);
        let end = provided.min(self.adopted.saturating_add(max_entries));
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

    /// Moves entries to the new chain `bucket` that belong there from now on.
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

    /// Takes an entry out of its chain. Returns `None` if it is not there.
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
    use crate::presence::seed::Seed;
    use crate::presence::slots::{Fixed, Link, Slot};
    use crate::presence::ChunkSlot;

    /// Returns the length of the longest chain of a table.
    fn longest(table: &Table<Fixed<ChunkSlot, 3000>>) -> usize {
        let length = |bucket| {
            let first = table.get(bucket).unwrap().links().bucket;
            let next = |at: &Link| Some(table.get(at.slot()?).unwrap().links().next);
            core::iter::successors(Some(first), next).count() - 1
        };
        (0..table.adopted()).map(length).max().unwrap()
    }

    fn table(seed: u64) -> Table<Fixed<ChunkSlot, 3000>> {
        let slots = Fixed([const { ChunkSlot::EMPTY }; 3000]);
        Table::new(slots, Seed::new([seed, 6]))
    }

    /// Returns the length of the longest chain of a table with this seed and these chunks of a
    /// file.
    fn longest_with(seed: u64, numbers: &[u64]) -> usize {
        let mut table = table(seed);
        table.adopt(u32::MAX);
        for &number in numbers {
            let inserted = table.insert(|chunk| {
                chunk.file = Link::to(3);
                chunk.number = number;
            });
            assert!(inserted.is_some());
        }
        longest(&table)
    }

    #[test]
    fn keys_that_collide_with_one_seed_do_not_with_others() {
        let mut known = table(5);
        known.adopt(u32::MAX);
        // A container can choose the offsets at which it writes to a sparse file.
        let collides =
            |number: &u64| known.bucket(ChunkSlot::identity_of(Link::to(3), *number)) == 0;
        let numbers: Vec<u64> = (0..1 << 21).filter(collides).take(300).collect();
        assert_eq!(numbers.len(), 300);
        assert_eq!(longest_with(5, &numbers), 300);
        for seed in 6..26 {
            assert!(longest_with(seed, &numbers) <= 12);
        }
    }

    #[test]
    fn no_pattern_of_offsets_collides_whatever_the_seed() {
        // A mixing function without a key may map numbers that differ in few bits, or by the same
        // distance, to the same chain for many seeds.
        let patterns: [fn(u64) -> u64; 4] = [
            |n| n << 20,
            |n| n * 0x1_0000_0001,
            |n| (n & 0x1f) << 28 | (n >> 5) << 8,
            |n| n << 24 | n,
        ];
        for pattern in patterns {
            let numbers: Vec<u64> = (0..1000).map(pattern).collect();
            for seed in 0..20 {
                assert!(longest_with(seed, &numbers) <= 12);
            }
        }
    }

    #[test]
    fn chains_stay_short_while_the_table_grows() {
        let mut table = table(5);
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
