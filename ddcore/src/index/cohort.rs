// SPDX-License-Identifier: GPL-2.0-only

//! Cohorts: up to 64 blocks of a list that were added consecutively.
//!
//! The order of the blocks is kept in a linked list of cohorts, not of blocks. A block refers to
//! its cohort and its slot there, so that removing a block accesses only a cohort, which has 16
//! bytes; a cache line contains four of them. In a linked list of blocks, the removal would access
//! two neighbours with a cache miss each. The list of a block is that of its cohort.

use super::arena::{Arena, Piece};
use super::block::{Field, MAX_BLOCKS};
use super::segment::Kind;
use super::spill::NUMBER_BITS;
use super::{Index, Storage, NONE};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Maximum number of blocks in a cohort.
pub(super) const MEMBERS: usize = 1 << SLOT_BITS;

/// Number of bits of a slot in a cohort.
pub(super) const SLOT_BITS: u32 = 6;

/// Number of bits of a cohort's number. As cohorts have 19 members on average, they suffice for all
/// blocks.
pub(super) const COHORT_BITS: u32 = 20;

/// Number of bits of a stamp. Higher bits are discarded, so that ages are unique within 64 PiB of
/// puts.
pub const STAMP_BITS: u32 = 36;

/// Two adjacent cohorts are merged if they have at most this many members together. Moving a member
/// costs about as much as removing it, so that merging must be rare: each merger ends a cohort, and
/// therefore fewer than one member is moved for each block that was added.
const FEW: u32 = 52;

/// Merging is considered when the number of members of a cohort is a multiple of this. In whatever
/// order blocks are removed, two adjacent cohorts therefore have at least 39 members, which is 53
/// minus the members that both may lose until merging is considered again.
const STEP: u32 = 8;

/// The blocks of a cohort, in the order in which they were added: the number of each, with the
/// stamp of the last put into it.
pub(super) type Members = [u64; MEMBERS];

/// Returns a member of a cohort. The lower bits of the stamp are kept.
#[inline]
const fn member(number: u32, stamp: u64) -> u64 {
    stamp << NUMBER_BITS | number as u64
}

/// Returns the number of the block of a member.
#[inline]
const fn number(member: u64) -> u32 {
    member as u32 & ((1 << NUMBER_BITS) - 1)
}

/// The position of a block: a cohort and a slot in it.
#[derive(Clone, Copy)]
pub(super) struct Position(u32);

impl Position {
    #[inline]
    pub(super) const fn new(cohort: u32, slot: usize) -> Self {
        Self(cohort << SLOT_BITS | slot as u32)
    }

    #[inline]
    pub(super) const fn cohort(self) -> u32 {
        self.0 >> SLOT_BITS
    }

    #[inline]
    pub(super) const fn slot(self) -> usize {
        self.0 as usize % MEMBERS
    }
}

const OLDER: Field = Field::new(0, COHORT_BITS);
const NEWER: Field = Field::new(20, COHORT_BITS);
const LIST: Field = Field::new(40, 16);
const COUNT: Field = Field::new(56, 7);

/// A cohort, or a free entry for one.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub(super) struct Cohort {
    /// Bitmap of the slots with a block. Zero in a free cohort.
    present: u64,
    /// Adjacent cohorts, list, and number of members.
    facts: u64,
}

impl Cohort {
    pub(super) const fn older(&self) -> u32 {
        OLDER.get(self.facts)
    }

    pub(super) const fn newer(&self) -> u32 {
        NEWER.get(self.facts)
    }

    #[inline]
    pub(super) const fn list(&self) -> u16 {
        LIST.get(self.facts) as u16
    }

    #[inline]
    pub(super) const fn count(&self) -> u32 {
        COUNT.get(self.facts)
    }

    /// Returns the slot of the oldest member.
    const fn first(&self) -> usize {
        self.present.trailing_zeros() as usize % MEMBERS
    }

    /// Returns the slot of the newest member.
    const fn last(&self) -> usize {
        (MEMBERS - 1).wrapping_sub(self.present.leading_zeros() as usize) % MEMBERS
    }

    /// Takes a slot.
    #[inline]
    fn take_slot(&mut self, slot: usize) {
        self.present |= 1 << slot;
        self.facts += COUNT.put(1);
    }

    /// Vacates a slot.
    #[inline]
    fn leave_slot(&mut self, slot: usize) {
        self.present &= !(1 << slot);
        self.facts -= COUNT.put(1);
    }
}

impl Piece for Cohort {
    const KIND: Kind = Kind::Cohorts;
    const LIMIT: usize = 1 << COHORT_BITS;

    #[inline]
    fn arena<S>(index: &Index<S>) -> &Arena {
        &index.cohorts
    }

    #[inline]
    fn arena_mut<S>(index: &mut Index<S>) -> &mut Arena {
        &mut index.cohorts
    }

    fn free_links(&self) -> (u32, u32) {
        (self.older(), self.newer())
    }

    fn set_free(&mut self, before: u32, after: u32) {
        *self = Self {
            present: 0,
            facts: OLDER.put(before) | NEWER.put(after),
        };
    }
}

impl<S: Storage> Index<S> {
    #[inline]
    pub(super) fn cohort(&self, number: u32) -> &Cohort {
        self.item(Kind::Cohorts, number)
    }

    #[inline]
    fn cohort_mut(&mut self, number: u32) -> &mut Cohort {
        self.item_mut(Kind::Cohorts, number)
    }

    #[inline]
    fn members(&self, cohort: u32) -> &Members {
        self.item(Kind::Members, cohort)
    }

    #[inline]
    fn members_mut(&mut self, cohort: u32) -> &mut Members {
        self.item_mut(Kind::Members, cohort)
    }

    /// Returns the number of cohorts that can be added before another segment is needed.
    pub(super) fn cohort_room(&self) -> usize {
        let members = self.capacity::<Members>(Kind::Members);
        self.room::<Cohort>()
            .min(members.saturating_sub(1 + self.cohorts.used as usize))
    }

    /// Returns the oldest block of a list, or [`NONE`] if it is empty.
    #[inline]
    pub(super) fn oldest(&self, list: u16) -> u32 {
        number(self.oldest_member(list))
    }

    /// Returns the newest block of a list, or [`NONE`] if it is empty.
    #[inline]
    pub(super) fn newest(&self, list: u16) -> u32 {
        number(self.newest_member(list))
    }

    /// Returns the lower bits of the stamp of the oldest block in a list.
    pub fn oldest_stamp(&self, list: u16) -> Option<u64> {
        match self.oldest_member(list) {
            0 => None,
            member => Some(member >> NUMBER_BITS),
        }
    }

    /// Returns the lower bits of the stamp of the newest block in a list.
    pub fn newest_stamp(&self, list: u16) -> Option<u64> {
        match self.newest_member(list) {
            0 => None,
            member => Some(member >> NUMBER_BITS),
        }
    }

    /// Returns the oldest member of a list's cohorts, or 0.
    #[inline]
    fn oldest_member(&self, list: u16) -> u64 {
        let list = self.storage.lists().get(usize::from(list));
        match list.map_or(NONE, |list| list.oldest) {
            NONE => 0,
            cohort => self.members(cohort)[self.cohort(cohort).first()],
        }
    }

    /// Returns the newest member of a list's cohorts, or 0.
    #[inline]
    fn newest_member(&self, list: u16) -> u64 {
        let list = self.storage.lists().get(usize::from(list));
        match list.map_or(NONE, |list| list.newest) {
            NONE => 0,
            cohort => self.members(cohort)[self.cohort(cohort).last()],
        }
    }

    /// Returns the stamp of the block at a position.
    pub(super) fn stamp(&self, position: Position) -> u64 {
        self.members(position.cohort())[position.slot()] >> NUMBER_BITS
    }

    /// Makes a block the newest of a list. The caller has checked that there is room for a cohort,
    /// and stores the returned position in the block.
    #[inline(always)]
    pub(super) fn join(&mut self, number: u32, (list, stamp): (u16, u64)) -> Position {
        let ends = self.list_mut(list);
        let (mut cohort, mut slot) = (ends.newest, 0);
        // In a list without cohorts `left` is 0.
        if ends.left > 0 {
            slot = MEMBERS.wrapping_sub(ends.left as usize) % MEMBERS;
            ends.left -= 1;
            self.cohort_mut(cohort).take_slot(slot);
        } else {
            cohort = self.begin_cohort(list);
        }
        self.members_mut(cohort)[slot] = member(number, stamp);
        Position::new(cohort, slot)
    }

    /// Begins a cohort at the newest end of a list, and takes its first slot.
    #[inline(never)]
    fn begin_cohort(&mut self, list: u16) -> u32 {
        let mut number = self.reuse::<Cohort>();
        if number == NONE {
            number = self.cohorts.high;
            self.cohorts.set_high(number + 1);
            self.cohorts.used += 1;
        }
        let ends = self.list_mut(list);
        let older = core::mem::replace(&mut ends.newest, number);
        ends.left = MEMBERS as u32 - 1;
        if older == NONE {
            ends.oldest = number;
        } else {
            NEWER.set(&mut self.cohort_mut(older).facts, number);
        }
        *self.cohort_mut(number) = Cohort {
            present: 1,
            facts: OLDER.put(older) | LIST.put(list.into()) | COUNT.put(1),
        };
        number
    }

    /// Removes a block from its cohort. Returns the list of the cohort.
    #[inline(always)]
    pub(super) fn leave(&mut self, position: Position) -> u16 {
        let number = position.cohort();
        let cohort = self.cohort_mut(number);
        cohort.leave_slot(position.slot());
        let (list, left) = (cohort.list(), cohort.count());
        if left % STEP == 0 {
            self.shrink(number);
        }
        list
    }

    /// Removes a cohort without members, or merges a cohort with an adjacent one.
    #[inline(never)]
    fn shrink(&mut self, number: u32) {
        let cohort = *self.cohort(number);
        let (older, newer) = (cohort.older(), cohort.newer());
        let together =
            |other: u32| other != NONE && self.cohort(other).count() + cohort.count() <= FEW;
        if cohort.count() == 0 {
            self.end_cohort(number);
        } else if together(older) {
            self.unite(older, number);
        } else if together(newer) {
            self.unite(number, newer);
        }
    }

    /// Removes a cohort from its list.
    fn end_cohort(&mut self, number: u32) {
        let cohort = *self.cohort(number);
        self.set_newer(cohort.older(), cohort.newer(), cohort.list());
        self.set_older(cohort.newer(), cohort.older(), cohort.list());
        self.release::<Cohort>(number);
    }

    fn set_newer(&mut self, cohort: u32, newer: u32, list: u16) {
        match cohort {
            NONE => self.list_mut(list).oldest = newer,
            cohort => NEWER.set(&mut self.cohort_mut(cohort).facts, newer),
        }
    }

    fn set_older(&mut self, cohort: u32, older: u32, list: u16) {
        match cohort {
            NONE => {
                let ends = self.list_mut(list);
                (ends.newest, ends.left) = (older, 0);
            }
            cohort => OLDER.set(&mut self.cohort_mut(cohort).facts, older),
        }
    }

    /// Merges two adjacent cohorts, and keeps the order of their members.
    fn unite(&mut self, older: u32, newer: u32) {
        let mut next = 0;
        for from in [older, newer] {
            let mut rest = self.cohort(from).present;
            while rest != 0 {
                let slot = rest.trailing_zeros() as usize % MEMBERS;
                let member = self.members(from)[slot];
                // A member of the older cohort never moves to a later slot, so that no unread
                // member is overwritten.
                self.members_mut(older)[next % MEMBERS] = member;
                let position = Position::new(older, next);
                self.block_mut(self::number(member)).set_position(position);
                next += 1;
                rest &= rest - 1;
            }
        }
        self.end_cohort(newer);
        let cohort = self.cohort_mut(older);
        cohort.present = (1 << next) - 1;
        COUNT.set(&mut cohort.facts, next as u32);
        let (list, is_newest) = (cohort.list(), cohort.newer() == NONE);
        if is_newest {
            self.list_mut(list).left = (MEMBERS - next) as u32;
        }
    }

    /// Updates the number of the block at a position.
    pub(super) fn redirect_member(&mut self, position: Position, to: u32) {
        let member = &mut self.members_mut(position.cohort())[position.slot()];
        *member = self::member(to, *member >> NUMBER_BITS);
    }

    /// Takes the highest number of a cohort out of use. If a cohort has this number, it moves to a
    /// free one.
    pub(super) fn drop_cohort(&mut self) {
        let highest = self.cohorts.high - 1;
        let cohort = *self.cohort(highest);
        if cohort.present == 0 {
            self.withdraw::<Cohort>(highest);
        } else {
            let target = self.vacancy::<Cohort>();
            *self.cohort_mut(target) = cohort;
            self.set_newer(cohort.older(), target, cohort.list());
            self.set_older(cohort.newer(), target, cohort.list());
            let mut rest = cohort.present;
            while rest != 0 {
                let slot = rest.trailing_zeros() as usize % MEMBERS;
                let member = self.members(highest)[slot];
                self.members_mut(target)[slot] = member;
                let position = Position::new(target, slot);
                self.block_mut(number(member)).set_position(position);
                rest &= rest - 1;
            }
        }
        *self.cohort_mut(highest) = Cohort::default();
        *self.members_mut(highest) = [0; MEMBERS];
        self.cohorts.set_high(highest);
    }

    /// Writes the numbers of a list's next blocks, oldest first and only from its oldest cohort,
    /// and returns how many there are.
    pub(super) fn next_to_go(&self, list: u16, numbers: &mut [u32]) -> usize {
        let list = self.storage.lists().get(usize::from(list));
        let cohort = list.map_or(NONE, |list| list.oldest);
        if cohort == NONE {
            return 0;
        }
        let mut rest = self.cohort(cohort).present;
        let mut count = 0;
        for number in numbers {
            if rest == 0 {
                break;
            }
            let slot = rest.trailing_zeros() as usize % MEMBERS;
            *number = self::number(self.members(cohort)[slot]);
            rest &= rest - 1;
            count += 1;
        }
        count
    }

    /// Returns the blocks of a cohort, oldest first.
    #[cfg(test)]
    pub(super) fn blocks_of(&self, cohort: u32) -> impl Iterator<Item = u32> + '_ {
        let present = self.cohort(cohort).present;
        let members = self.members(cohort);
        (0..MEMBERS)
            .filter(move |slot| present >> slot & 1 != 0)
            .map(move |slot| number(members[slot]))
    }
}

const _: () = assert!(size_of::<Cohort>() == 16);
/// The number of cohorts suffices, because they have at least this many members on average.
const _: () = assert!(MAX_BLOCKS < ((FEW + 1 - 2 * (STEP - 1)) as usize / 2) << COHORT_BITS);
