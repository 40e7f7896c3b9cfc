// SPDX-License-Identifier: GPL-2.0-only

//! Relocation of pages to another tier, where they get other handles and another list.
//!
//! The data of a page is copied without the lock of the index. The owner therefore looks up some
//! pages ([`Stretch`]), copies them, and then moves them if the index still has all of them under
//! the same handles. As long as the owner keeps the frames or places of the handles allocated, no
//! newer version of a page can have the same handle. Pages that were overwritten, read or evicted
//! in the meantime are thus not moved.

use super::batch::{Group, Part};
use super::block::BLOCK_PAGES;
use super::hash::BLOCK_BITS;
use super::insert::pieces;
use super::{Index, Reason, Removed, Storage, NONE, PLACED};
use core::marker::PhantomData;
use ddabi::key::PageKey;

/// Consecutive pages of one block, as they were in the index when it was created.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    first: PageKey,
    list: u16,
    count: u8,
    handles: [u64; BLOCK_PAGES],
}

impl Stretch {
    /// Returns the key of the first page.
    pub const fn first(&self) -> &PageKey {
        &self.first
    }

    /// Returns the handles of the pages.
    pub fn handles(&self) -> &[u64] {
        &self.handles[..usize::from(self.count)]
    }

    /// Keeps only the first `pages` pages, if there are more.
    pub fn truncate(&mut self, pages: usize) {
        self.count = self.count.min(pages.min(BLOCK_PAGES) as u8);
    }
}

/// An end of a list.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// The pages that were put first.
    Oldest,
    /// The pages that were put last.
    Newest,
}

/// A page that is in the index, as long as the index is borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    handle: u64,
    list: u16,
    index: PhantomData<&'a ()>,
}

impl Held<'_> {
    /// Returns the handle of the page.
    pub const fn handle(&self) -> u64 {
        self.handle
    }

    /// Returns the list that the page is in.
    pub const fn list(&self) -> u16 {
        self.list
    }

    /// Returns whether the page is in the SSD tier.
    pub const fn is_placed(&self) -> bool {
        self.handle & PLACED != 0
    }
}

impl<S: Storage> Index<S> {
    /// Returns up to `max_pages` pages at an end of a list, or `None` if the list is empty. Calls
    /// `held` with the position of each page and the page.
    pub fn stretch<'a>(
        &'a self,
        list: u16,
        end: End,
        max_pages: usize,
        mut held: impl FnMut(usize, Held<'a>),
    ) -> Option<Stretch> {
        let number = match end {
            End::Oldest => self.oldest(list),
            End::Newest => self.newest(list),
        };
        if number == NONE {
            return None;
        }
        let block = self.block(number);
        let page = block.present().trailing_zeros();
        let count = (block.present() >> page).trailing_ones() as usize;
        let count = count.min(max_pages);
        let mut handles = [0; BLOCK_PAGES];
        for (at, handle) in handles.iter_mut().enumerate().take(count) {
            *handle = self.handle(block, page as usize + at);
            let held_page = Held {
                handle: *handle,
                list,
                index: PhantomData,
            };
            held(at, held_page);
        }
        Some(Stretch {
            first: PageKey {
                file: *self.file(block.file()).key(),
                index: u64::from(block.index()) << BLOCK_BITS | u64::from(page),
            },
            list,
            count: count as u8,
            handles,
        })
    }

    /// Calls `held` for each page of a group that the index has, with its position among the
    /// caller's pages, as passed to [`super::Batch::add`], and the page.
    pub fn look<'a>(&'a self, group: &Group<'_>, mut held: impl FnMut(usize, Held<'a>)) {
        for part in group.parts() {
            let file = self.find_file(&part.file, part.file_hash);
            let mut number = self.find_block(part, file);
            let mut rest = part.mask;
            while number != NONE && rest != 0 {
                let block = self.block(number);
                let mut mask = block.present() & rest;
                rest &= !mask;
                let list = self.list_of_block(block);
                while mask != 0 {
                    let page = mask.trailing_zeros();
                    let held_page = Held {
                        handle: self.handle(block, page as usize),
                        list,
                        index: PhantomData,
                    };
                    held(part.position_of(page), held_page);
                    mask &= mask - 1;
                }
                number = self.next_block(number);
            }
        }
    }

    /// Moves the pages of a stretch to another list, where they have `handles`. Calls `sink` with
    /// each page and its former handle. Returns whether they were moved, which applies to all of
    /// them or to none. They are not moved if one of them is no longer in the index or has another
    /// handle, if memory is missing that [`Index::lack`] would report for one part, or if the list
    /// does not exist.
    pub fn relocate(
        &mut self,
        stretch: &Stretch,
        (list, stamp): (u16, u64),
        handles: &[u64],
        mut sink: impl FnMut(Removed),
    ) -> bool {
        let part = Part::stretch(&self.hasher, &stretch.first, stretch.handles().len(), list);
        let Some(block) = self.find_stretch(stretch, &part) else {
            return false;
        };
        let pieces = pieces(handles);
        if handles.len() != stretch.handles().len()
            || usize::from(list) >= self.storage.lists().len()
            || pieces == 0
            || !self.has_room(pieces)
        {
            return false;
        }
        self.remove_pages(block, part.mask, Reason::Relocation, |_, page| sink(page));
        // The block and the file were removed if these were their last pages.
        let file = self.find_file(&part.file, part.file_hash);
        let block = self.find_block(&part, file);
        let has_moved = self.add_all(&part, (file, block), stamp, handles);
        if has_moved {
            let list = self.list_mut(list);
            list.puts -= handles.len() as u64;
            list.relocated_in += handles.len() as u64;
        }
        has_moved
    }

    /// Removes the pages of a stretch, unless one of them is no longer in the index or has another
    /// handle. Calls `sink` with each page.
    pub fn remove_stretch(
        &mut self,
        stretch: &Stretch,
        reason: Reason,
        mut sink: impl FnMut(Removed),
    ) {
        let pages = stretch.handles().len();
        let part = Part::stretch(&self.hasher, &stretch.first, pages, stretch.list);
        if let Some(block) = self.find_stretch(stretch, &part) {
            self.remove_pages(block, part.mask, reason, |_, page| sink(page));
        }
    }

    /// Returns the block that has the pages of a stretch, under the same handles and in the same
    /// list.
    fn find_stretch(&self, stretch: &Stretch, part: &Part) -> Option<u32> {
        let file = self.find_file(&part.file, part.file_hash);
        if file == NONE {
            return None;
        }
        let mut number = self.find_block(part, file);
        while number != NONE {
            let block = self.block(number);
            let is_there = block.present() & part.mask == part.mask;
            if is_there && self.list_of_block(block) == stretch.list {
                let first = part.mask.trailing_zeros() as usize;
                let mut handles = (first..).zip(stretch.handles());
                let is_same = handles.all(|(page, handle)| self.handle(block, page) == *handle);
                return is_same.then_some(number);
            }
            number = self.next_block(number);
        }
        None
    }
}
