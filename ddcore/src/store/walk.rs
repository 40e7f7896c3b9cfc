// SPDX-License-Identifier: GPL-2.0

//! Operations on many blocks, in steps: the caller holds a lock and lets it go between the steps.

use super::block::{BLOCK_PAGES, MAX_POOL};
use super::hash::{block_hash, BLOCK_BITS};
use super::{Reason, Removed, Storage, Store, NONE};
use ddabi::key::FileKey;

/// Where a walk goes on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    block: u32,
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
    /// Removes those pages `first..=last` of a file that are kept. A step visits blocks of the
    /// file until it may have removed `pages` pages, which is at least 16.
    ///
    /// If others change the file meanwhile, a walk may begin again: the caller bounds the number
    /// of its calls.
    pub fn remove_range(
        &mut self,
        file: &FileKey,
        (first, last): (u64, u64),
        cursor: &mut Cursor,
        pages: u32,
        mut sink: impl FnMut(Removed),
    ) -> Walk {
        self.walk_file(file, cursor, pages, |store, number| {
            let mask = covered(u64::from(store.block(number).index()), (first, last));
            store.remove_pages(number, mask, None, Reason::Flush, |_, page| sink(page));
        })
    }

    /// Moves all pages of a file to a pool, in steps like [`Store::remove_range`]. `moved` gets the
    /// former owner of pages that changed hands, and their number.
    pub fn migrate(
        &mut self,
        file: &FileKey,
        owner: (u16, u32),
        cursor: &mut Cursor,
        pages: u32,
        mut moved: impl FnMut(u16, u32),
    ) -> Walk {
        if owner.0 > MAX_POOL || usize::from(owner.0) >= self.storage.lists().len() {
            return Walk::Done;
        }
        self.walk_file(file, cursor, pages, |store, number| {
            let block = store.block(number);
            let (from, pages) = (block.pool(), block.pages());
            if from != owner.0 {
                let twin = store.twin(number, owner.0);
                if twin == NONE || store.leaf_room() == 0 {
                    store.move_to(number, owner);
                } else {
                    store.merge(number, twin, owner);
                }
                moved(from, pages);
            }
        })
    }

    /// Removes the pages of the files that `condemned` picks, visiting blocks until it may have
    /// removed `pages` pages, which is at least 16, or has seen as many places for blocks.
    ///
    /// They are visited from the highest down: [`Store::trim`] moves blocks only in that
    /// direction, so that none escapes if the store is trimmed between the steps.
    pub fn sweep(
        &mut self,
        cursor: &mut Cursor,
        pages: u32,
        reason: Reason,
        mut condemned: impl FnMut(&FileKey) -> bool,
        mut sink: impl FnMut(Removed),
    ) -> Walk {
        if cursor.block == NONE {
            cursor.block = self.blocks.high;
        }
        let mut budget = pages;
        while budget >= BLOCK_PAGES as u32 {
            cursor.block = cursor.block.min(self.blocks.high);
            if cursor.block <= NONE + 1 {
                return Walk::Done;
            }
            cursor.block -= 1;
            let block = self.block(cursor.block);
            budget -= block.pages().max(1);
            if block.is_used() && condemned(self.file(block.file()).key()) {
                self.remove_pages(cursor.block, u16::MAX, None, reason, |_, page| sink(page));
            }
        }
        Walk::More
    }

    /// The block that has others of the pages that a block has some of, but belongs to `pool`.
    fn twin(&self, number: u32, pool: u16) -> u32 {
        let block = self.block(number);
        let hash = block_hash(self.file(block.file()).hash(), block.index());
        let (name, high) = (block.name(), block.high());
        let mut twin = self.first_block(hash, name);
        while twin != NONE {
            let other = self.block(twin);
            if other.pool() == pool && other.high() == high {
                break;
            }
            twin = self.find_block_from(other.chain(), name);
        }
        twin
    }

    /// Moves the pages of a block to its twin.
    fn merge(&mut self, number: u32, twin: u32, owner: (u16, u32)) {
        self.move_to(number, owner);
        let block = *self.block(number);
        self.renew(twin, owner);
        let mut rest = block.present();
        while rest != 0 {
            let page = rest.trailing_zeros() as usize % BLOCK_PAGES;
            let low = if block.has_leaf() {
                self.leaf(block.body())[page]
            } else {
                block.body()
            };
            self.extend(twin, 1 << page, &[u64::from(low)]);
            rest &= rest - 1;
        }
        // Renewing the twin has told the block of its new neighbour.
        let block = *self.block(number);
        self.keep(number, &block, 0, None);
    }

    /// Visits blocks of a file from the cursor on, or from the first if the cursor's block is
    /// gone. `visit` may remove the block it is shown.
    fn walk_file(
        &mut self,
        file: &FileKey,
        cursor: &mut Cursor,
        pages: u32,
        mut visit: impl FnMut(&mut Self, u32),
    ) -> Walk {
        let mut number = cursor.block;
        if !self.belongs(number, file) {
            number = match self.find_file(file, self.hasher.file(file)) {
                NONE => NONE,
                file => self.file(file).first(),
            };
        }
        let mut budget = pages;
        while number != NONE && budget >= BLOCK_PAGES as u32 {
            let block = self.block(number);
            let next = block.after();
            budget -= block.pages();
            visit(self, number);
            number = next;
        }
        cursor.block = number;
        if number == NONE {
            Walk::Done
        } else {
            Walk::More
        }
    }

    fn belongs(&self, number: u32, file: &FileKey) -> bool {
        if number == NONE || number >= self.blocks.high {
            return false;
        }
        let block = self.block(number);
        block.is_used() && self.file(block.file()).key() == file
    }
}

/// The pages of a block that lie in a range.
fn covered(block: u64, (first, last): (u64, u64)) -> u16 {
    let start = block << BLOCK_BITS;
    let end = start + (BLOCK_PAGES as u64 - 1);
    if last < start || end < first {
        return 0;
    }
    let from = u16::MAX << first.saturating_sub(start);
    let upto = u16::MAX >> end.saturating_sub(last);
    from & upto
}
