// SPDX-License-Identifier: GPL-2.0-only

//! Operations on many blocks, in steps: the caller holds a lock and lets it go between the steps.

use super::block::{Name, BLOCK_PAGES};
use super::hash::BLOCK_BITS;
use super::{Reason, Removed, Storage, Store, NONE};
use ddabi::key::FileKey;

/// Where a walk goes on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    at: At,
}

#[derive(Clone, Copy, Debug, Default)]
enum At {
    /// It has not begun.
    #[default]
    Start,
    /// At this index of the file's blocks.
    Index(u32),
    /// Below this place for blocks: all blocks are looked at.
    Place(u32),
}

/// Looks that cost as much as a page that is removed.
const LOOKS: u32 = 8;

/// Blocks that are seen in passing while one is looked up.
const GLANCES: u32 = 8;

/// How far a step of a walk came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Walk {
    /// Everything was visited.
    Done,
    /// Call again with the same cursor.
    More,
}

impl<S: Storage> Store<S> {
    /// Removes those pages `first..=last` of a file that are kept. A step looks for blocks of the
    /// file until it may have removed `pages` pages, which is at least 16, or has found nothing
    /// for as long as that would take.
    ///
    /// Blocks are looked up by index, or among all blocks if that is quicker. Pages that are
    /// added between two steps may stay.
    pub fn remove_range(
        &mut self,
        file: &FileKey,
        (first, last): (u64, u64),
        cursor: &mut Cursor,
        pages: u32,
        mut sink: impl FnMut(Removed),
    ) -> Walk {
        self.walk_file(file, (first, last), cursor, pages, |store, number| {
            let mask = covered(u64::from(store.block(number).index()), (first, last));
            store.remove_pages(number, mask, Reason::Flush, |_, page| sink(page));
        })
    }

    /// Moves all pages of a file from their lists to those that `to` names for them, in steps like
    /// [`Store::remove_range`]. `moved` gets the former list of pages that changed hands, and their
    /// number. If memory is missing that [`Store::lack`] tells of for two parts, pages stay where
    /// they are.
    pub fn migrate(
        &mut self,
        file: &FileKey,
        (to, stamp): (impl Fn(u16) -> u16, u64),
        cursor: &mut Cursor,
        pages: u32,
        mut moved: impl FnMut(u16, u32),
    ) -> Walk {
        self.walk_file(file, (0, u64::MAX), cursor, pages, |store, number| {
            let block = store.block(number);
            let (from, pages) = (block.pool(), block.pages());
            let owner = (to(from), stamp);
            let known = usize::from(owner.0) < store.storage.lists().len();
            if from != owner.0 && known && store.cohort_room() > 0 {
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
        let start = match cursor.at {
            At::Place(place) => place,
            _ => u32::MAX,
        };
        self.sweep_blocks(start, cursor, pages, |store, number| {
            let picked = condemned(store.file(store.block(number).file()).key());
            if picked {
                store.remove_pages(number, u16::MAX, reason, |_, page| sink(page));
            }
            picked
        })
    }

    /// Looks at all blocks below a place, from the highest down. `visit` says whether it has done
    /// more than look.
    fn sweep_blocks(
        &mut self,
        below: u32,
        cursor: &mut Cursor,
        pages: u32,
        mut visit: impl FnMut(&mut Self, u32) -> bool,
    ) -> Walk {
        let mut at = below;
        let mut budget = Budget::new(pages);
        while budget.is_left() {
            at = at.min(self.blocks.high);
            if at <= NONE + 1 {
                return Walk::Done;
            }
            at -= 1;
            let block = self.block(at);
            let pages = block.pages();
            budget.look();
            if block.is_used() && visit(self, at) {
                budget.spend(pages);
            }
        }
        cursor.at = At::Place(at);
        Walk::More
    }

    /// The block that has others of the pages that a block has some of, but belongs to `pool`.
    fn twin(&self, number: u32, pool: u16) -> u32 {
        let block = self.block(number);
        let (name, hash, high) = (block.name(), block.hash(), block.high());
        let mut twin = self.first_block(hash, name);
        while twin != NONE {
            let other = self.block(twin);
            if other.pool() == pool && other.high() == high {
                break;
            }
            twin = self.next_block(twin, hash);
        }
        twin
    }

    /// Moves the pages of a block to its twin.
    fn merge(&mut self, number: u32, twin: u32, owner: (u16, u64)) {
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
        // Renewing the twin may have given the block another seat.
        let block = *self.block(number);
        self.keep(number, &block, 0);
    }

    /// Visits the blocks of a file that have pages of a range, perhaps others too, from the cursor
    /// on. `visit` may remove the block it is shown, or merge it with another one.
    fn walk_file(
        &mut self,
        file: &FileKey,
        (first, last): (u64, u64),
        cursor: &mut Cursor,
        pages: u32,
        mut visit: impl FnMut(&mut Self, u32),
    ) -> Walk {
        let hash = self.hasher.file(file);
        let mut number = self.find_file(file, hash);
        if number == NONE {
            return Walk::Done;
        }
        let (lowest, highest) = self.file(number).extent();
        let bound = |index: u64| (index >> BLOCK_BITS).min(u64::from(u32::MAX)) as u32;
        let highest = highest.min(bound(last));
        let mut index = match cursor.at {
            At::Start => {
                let index = lowest.max(bound(first));
                if highest.saturating_sub(index) > self.blocks.high / GLANCES {
                    cursor.at = At::Place(u32::MAX);
                }
                index
            }
            At::Index(index) => index.max(lowest),
            At::Place(_) => 0,
        };
        if let At::Place(below) = cursor.at {
            return self.sweep_blocks(below, cursor, pages, |store, at| {
                let is_its = store.block(at).file() == number;
                if is_its {
                    visit(store, at);
                }
                is_its
            });
        }
        let mut budget = Budget::new(pages);
        while number != NONE && index <= highest {
            if !budget.is_left() {
                cursor.at = At::Index(index);
                return Walk::More;
            }
            budget.look();
            let block = self.hasher.block(hash, index);
            let block = self.first_block(block, Name::new(number, index));
            if block != NONE {
                budget.spend(self.visit_all(block, &mut visit));
                // Its last block may be gone.
                number = self.find_file(file, hash);
            }
            match index.checked_add(1) {
                Some(next) => index = next,
                None => break,
            }
        }
        Walk::Done
    }

    /// Visits a block and those of the same name behind it. Returns the number of their pages.
    fn visit_all(&mut self, first: u32, visit: &mut impl FnMut(&mut Self, u32)) -> u32 {
        let (mut block, mut pages) = (first, 0);
        while block != NONE {
            let next = self.next_block(block, self.block(block).hash());
            pages += self.block(block).pages();
            visit(self, block);
            block = next;
        }
        pages
    }
}

/// How much a step may still do.
struct Budget {
    looks: u32,
}

impl Budget {
    const fn new(pages: u32) -> Self {
        Self {
            looks: pages.saturating_mul(LOOKS),
        }
    }

    /// Whether the pages of another block may be removed.
    const fn is_left(&self) -> bool {
        self.looks >= BLOCK_PAGES as u32 * LOOKS
    }

    fn look(&mut self) {
        self.looks = self.looks.saturating_sub(1);
    }

    fn spend(&mut self, pages: u32) {
        self.looks = self.looks.saturating_sub(pages * LOOKS);
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
