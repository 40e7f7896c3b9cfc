// SPDX-License-Identifier: GPL-2.0

//! Operations on many pages, in steps: the caller holds a lock and lets it go between the steps.

use super::{Reason, Removed, Storage, Store, NONE};
use ddabi::key::{FileKey, PageKey};

/// Where a walk goes on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    slot: u32,
}

/// How far a step of a walk came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Walk {
    /// Everything was visited.
    Done,
    /// Call again with the same cursor.
    More,
}

impl<S: Storage> Store<S> {
    /// Removes those pages `first..=last` of a file that are kept, visiting up to `steps` pages of
    /// the file.
    ///
    /// If others change the file meanwhile, a walk may begin again: the caller bounds the number
    /// of its calls.
    pub fn remove_range(
        &mut self,
        file: &FileKey,
        (first, last): (u64, u64),
        cursor: &mut Cursor,
        steps: u32,
        mut sink: impl FnMut(Removed),
    ) -> Walk {
        self.walk_file(file, cursor, steps, |store, slot| {
            if (first..=last).contains(&store.slot(slot).index()) {
                sink(store.remove_slot(slot, Reason::Flush));
            }
        })
    }

    /// Moves all pages of a file to a pool, visiting up to `steps` of them. `moved` gets the former
    /// owner of each page that changed hands.
    pub fn migrate(
        &mut self,
        file: &FileKey,
        (pool, stamp): (u16, u32),
        cursor: &mut Cursor,
        steps: u32,
        mut moved: impl FnMut(u16),
    ) -> Walk {
        if usize::from(pool) >= self.storage.lists().len() {
            return Walk::Done;
        }
        self.walk_file(file, cursor, steps, |store, slot| {
            let owner = store.slot(slot).pool();
            if owner != pool {
                store.move_to(slot, pool, stamp);
                moved(owner);
            }
        })
    }

    /// Removes the pages that `condemned` picks, visiting up to `steps` slots.
    ///
    /// Slots are visited from the highest down: [`Store::trim`] moves pages only in that direction,
    /// so that none escapes if the store is trimmed between the steps.
    pub fn sweep(
        &mut self,
        cursor: &mut Cursor,
        steps: u32,
        reason: Reason,
        mut condemned: impl FnMut(&PageKey) -> bool,
        mut sink: impl FnMut(Removed),
    ) -> Walk {
        if cursor.slot == NONE {
            cursor.slot = self.high;
        }
        for _ in 0..steps {
            cursor.slot = cursor.slot.min(self.high);
            if cursor.slot <= NONE + 1 {
                return Walk::Done;
            }
            cursor.slot -= 1;
            let slot = self.slot(cursor.slot);
            if slot.is_used() && condemned(&slot.key()) {
                sink(self.remove_slot(cursor.slot, reason));
            }
        }
        Walk::More
    }

    /// Visits pages of a file from the cursor on, or from the first if the cursor's page is gone.
    /// `visit` may remove the page it is shown.
    fn walk_file(
        &mut self,
        file: &FileKey,
        cursor: &mut Cursor,
        steps: u32,
        mut visit: impl FnMut(&mut Self, u32),
    ) -> Walk {
        let mut leader = self.leader(file);
        if leader == NONE {
            return Walk::Done;
        }
        let mut slot = if self.belongs(cursor.slot, file) {
            cursor.slot
        } else {
            leader
        };
        for _ in 0..steps {
            let next = self.slot(slot).ring_after;
            let last = next == leader;
            visit(self, slot);
            if last {
                return Walk::Done;
            }
            if slot == leader && !self.belongs(slot, file) {
                leader = next;
            }
            slot = next;
        }
        cursor.slot = slot;
        Walk::More
    }

    fn belongs(&self, slot: u32, file: &FileKey) -> bool {
        if slot == NONE || slot >= self.high {
            return false;
        }
        let slot = self.slot(slot);
        slot.is_used() && slot.file() == *file
    }
}
