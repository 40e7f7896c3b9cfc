// SPDX-License-Identifier: GPL-2.0-only

//! Cohorts: up to 64 blocks of a pool that came one after the other.
//!
//! The order of a pool's blocks is a list of cohorts, not of blocks. A block knows its cohort and
//! its place there, so that one that leaves touches 16 bytes, of which a processor's cache holds
//! those of many blocks; neighbours in a list of blocks would be two cache lines far away.

use super::arena::{Arena, Piece};
use super::block::{Block, Field};
use super::segment::Kind;
use super::{Storage, Store, NONE};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Blocks in a cohort.
pub(super) const MEMBERS: usize = 1 << PLACE_BITS;

const PLACE_BITS: u32 = 6;

/// Bits of a cohort's number: cohorts have 17 members on average, however blocks leave.
const COHORT_BITS: u32 = 20;

/// Bits of a [`Seat`].
pub(super) const SEAT_BITS: u32 = COHORT_BITS + PLACE_BITS;

/// A cohort with at most this many members is merged with a neighbour. Moving a member costs
/// about as much as its leaving, so that this must be rare.
const SMALL: u32 = MEMBERS as u32 / 4;

/// Two neighbours are merged if they have at most this many members together.
const FEW: u32 = MEMBERS as u32 * 3 / 4;

/// The numbers of a cohort's members, in the order in which they came.
pub(super) type Members = [u32; MEMBERS];

/// A cohort and a place there.
#[derive(Clone, Copy)]
pub(super) struct Seat(pub(super) u32);

impl Seat {
    #[inline]
    const fn new(cohort: u32, place: usize) -> Self {
        Self(cohort << PLACE_BITS | place as u32)
    }

    #[inline]
    pub(super) const fn cohort(self) -> u32 {
        self.0 >> PLACE_BITS
    }

    #[inline]
    const fn place(self) -> usize {
        self.0 as usize % MEMBERS
    }
}

const OLDER: Field = Field::new(0, COHORT_BITS);
const NEWER: Field = Field::new(20, COHORT_BITS);
const POOL: Field = Field::new(40, 16);
const TAKEN: Field = Field::new(56, 7);

/// A cohort, or a free place for one.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub(super) struct Cohort {
    /// The members that are still there, a bit each. Zero in a free place.
    present: u64,
    /// Neighbours, pool, places that were ever taken.
    facts: u64,
}

impl Cohort {
    pub(super) const fn older(&self) -> u32 {
        OLDER.get(self.facts)
    }

    pub(super) const fn newer(&self) -> u32 {
        NEWER.get(self.facts)
    }

    const fn pool(&self) -> u16 {
        POOL.get(self.facts) as u16
    }

    pub(super) const fn count(&self) -> u32 {
        self.present.count_ones()
    }

    /// The place of the oldest member.
    const fn first(&self) -> usize {
        self.present.trailing_zeros() as usize % MEMBERS
    }

    /// The place of the newest member.
    const fn last(&self) -> usize {
        (MEMBERS - 1).wrapping_sub(self.present.leading_zeros() as usize) % MEMBERS
    }

    /// Takes the next place, if there is one.
    #[inline]
    fn take_place(&mut self) -> Option<usize> {
        let place = TAKEN.get(self.facts) as usize;
        if place == MEMBERS {
            return None;
        }
        self.present |= 1 << place;
        self.facts += TAKEN.put(1);
        Some(place)
    }

    /// Leaves a place. Returns the number of members that are left.
    #[inline]
    fn leave_place(&mut self, place: usize) -> u32 {
        self.present &= !(1 << place);
        self.count()
    }
}

impl Piece for Cohort {
    const KIND: Kind = Kind::Cohorts;
    const LIMIT: usize = 1 << COHORT_BITS;

    #[inline]
    fn arena<S>(store: &Store<S>) -> &Arena {
        &store.cohorts
    }

    #[inline]
    fn arena_mut<S>(store: &mut Store<S>) -> &mut Arena {
        &mut store.cohorts
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

impl<S: Storage> Store<S> {
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

    /// Cohorts that can begin before more segments are needed.
    pub(super) fn cohort_room(&self) -> usize {
        let members = self.capacity::<Members>(Kind::Members);
        self.room::<Cohort>()
            .min(members.saturating_sub(1 + self.cohorts.used as usize))
    }

    /// A pool's oldest block; [`NONE`] if it has no blocks.
    #[inline]
    pub(super) fn oldest(&self, pool: u16) -> u32 {
        let list = self.storage.lists().get(usize::from(pool));
        match list.map_or(NONE, |list| list.oldest) {
            NONE => NONE,
            cohort => self.members(cohort)[self.cohort(cohort).first()],
        }
    }

    /// A pool's newest block; [`NONE`] if it has no blocks.
    #[inline]
    pub(super) fn newest(&self, pool: u16) -> u32 {
        let list = self.storage.lists().get(usize::from(pool));
        match list.map_or(NONE, |list| list.newest) {
            NONE => NONE,
            cohort => self.members(cohort)[self.cohort(cohort).last()],
        }
    }

    /// Makes a block the newest of a pool. The caller has seen that there is room for a cohort, and
    /// tells the block its seat.
    #[inline]
    pub(super) fn join(&mut self, pool: u16, number: u32) -> Seat {
        let mut cohort = self.list_mut(pool).newest;
        let place = match cohort {
            NONE => None,
            cohort => self.cohort_mut(cohort).take_place(),
        };
        let place = place.unwrap_or_else(|| {
            cohort = self.begin_cohort(pool);
            0
        });
        self.members_mut(cohort)[place] = number;
        Seat::new(cohort, place)
    }

    /// A new cohort at the newest end of a pool, with its first place taken.
    fn begin_cohort(&mut self, pool: u16) -> u32 {
        let mut number = self.reuse::<Cohort>();
        if number == NONE {
            number = self.cohorts.high;
            self.cohorts.set_high(number + 1);
            self.cohorts.used += 1;
        }
        let list = self.list_mut(pool);
        let older = core::mem::replace(&mut list.newest, number);
        if older == NONE {
            list.oldest = number;
        } else {
            NEWER.set(&mut self.cohort_mut(older).facts, number);
        }
        *self.cohort_mut(number) = Cohort {
            present: 1,
            facts: OLDER.put(older) | POOL.put(pool.into()) | TAKEN.put(1),
        };
        number
    }

    /// Takes a block out of its cohort.
    #[inline]
    pub(super) fn leave(&mut self, seat: Seat) {
        let number = seat.cohort();
        let left = self.cohort_mut(number).leave_place(seat.place());
        // Not with each: two that shrink meet here soon enough.
        if left <= SMALL && left & left.wrapping_sub(1) == 0 {
            self.shrink(number);
        }
    }

    /// A cohort that has become small ends, or becomes one with a neighbour that is small too.
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

    /// Takes a cohort out of its list.
    fn end_cohort(&mut self, number: u32) {
        let cohort = *self.cohort(number);
        self.set_newer(cohort.older(), cohort.newer(), cohort.pool());
        self.set_older(cohort.newer(), cohort.older(), cohort.pool());
        self.release::<Cohort>(number);
    }

    fn set_newer(&mut self, cohort: u32, newer: u32, pool: u16) {
        match cohort {
            NONE => self.list_mut(pool).oldest = newer,
            cohort => NEWER.set(&mut self.cohort_mut(cohort).facts, newer),
        }
    }

    fn set_older(&mut self, cohort: u32, older: u32, pool: u16) {
        match cohort {
            NONE => self.list_mut(pool).newest = older,
            cohort => OLDER.set(&mut self.cohort_mut(cohort).facts, older),
        }
    }

    /// Makes one cohort of two neighbours. Their order remains.
    fn unite(&mut self, older: u32, newer: u32) {
        let mut next = 0;
        for from in [older, newer] {
            let mut rest = self.cohort(from).present;
            while rest != 0 {
                let place = rest.trailing_zeros() as usize % MEMBERS;
                let member = self.members(from)[place];
                // A member of the older one never goes behind the place it is read from.
                self.members_mut(older)[next % MEMBERS] = member;
                self.block_mut(member).set_seat(Seat::new(older, next));
                next += 1;
                rest &= rest - 1;
            }
        }
        self.end_cohort(newer);
        let cohort = self.cohort_mut(older);
        cohort.present = (1 << next) - 1;
        TAKEN.set(&mut cohort.facts, next as u32);
    }

    /// After the block in `from` was copied to `to`, its cohort learns of it.
    pub(super) fn redirect_member(&mut self, block: &Block, to: u32) {
        let seat = block.seat();
        self.members_mut(seat.cohort())[seat.place()] = to;
    }

    /// Takes the highest place for a cohort out of use: a cohort there moves to a free one.
    pub(super) fn drop_cohort(&mut self) {
        let highest = self.cohorts.high - 1;
        let cohort = *self.cohort(highest);
        if cohort.present == 0 {
            self.withdraw::<Cohort>(highest);
        } else {
            let target = self.vacancy::<Cohort>();
            *self.cohort_mut(target) = cohort;
            self.set_newer(cohort.older(), target, cohort.pool());
            self.set_older(cohort.newer(), target, cohort.pool());
            let mut rest = cohort.present;
            while rest != 0 {
                let place = rest.trailing_zeros() as usize % MEMBERS;
                let member = self.members(highest)[place];
                self.members_mut(target)[place] = member;
                self.block_mut(member).set_seat(Seat::new(target, place));
                rest &= rest - 1;
            }
        }
        *self.cohort_mut(highest) = Cohort::default();
        *self.members_mut(highest) = [NONE; MEMBERS];
        self.cohorts.set_high(highest);
    }

    /// The numbers of the next blocks of a pool, oldest first, as far as its oldest cohort goes;
    /// says how many.
    pub(super) fn next_to_go(&self, pool: u16, numbers: &mut [u32]) -> usize {
        let list = self.storage.lists().get(usize::from(pool));
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
            *number = self.members(cohort)[rest.trailing_zeros() as usize % MEMBERS];
            rest &= rest - 1;
            count += 1;
        }
        count
    }

    /// A cohort's blocks, oldest first.
    #[cfg(test)]
    pub(super) fn blocks_of(&self, cohort: u32) -> impl Iterator<Item = u32> + '_ {
        let present = self.cohort(cohort).present;
        let members = self.members(cohort);
        (0..MEMBERS)
            .filter(move |place| present >> place & 1 != 0)
            .map(move |place| members[place])
    }
}

const _: () = assert!(size_of::<Cohort>() == 16);
