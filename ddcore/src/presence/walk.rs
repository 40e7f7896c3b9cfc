// SPDX-License-Identifier: GPL-2.0-only

//! Invalidation of ranges, files, filesystems and the whole map, in bounded steps.

use super::bits::Bits;
use super::chunk::ChunkSlot;
use super::file::FileSlot;
use super::shard::Shard;
use super::slots::Slots;
use super::span::Span;
use ddabi::key::{FileKey, MAX_INDEX};

/// Position of a walk that is done in steps. A new walk starts with `Cursor::default()`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor(Position);

#[derive(Clone, Copy, Debug, Default)]
enum Position {
    #[default]
    Start,
    /// The chunk with this number.
    Number(u64),
    /// The chunk in this slot.
    Slot(u32),
}

/// Maximum number of chunks of a file that are invalidated at once when its inode gets another
/// generation. Any event can cause this, even in contexts that must not take long.
const AT_ONCE: u32 = 256;

/// Result of a step of a walk.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct Step {
    /// Number of present pages that became absent in this step.
    pub cleared: u64,
    /// Whether the walk is complete.
    pub done: bool,
}

impl<F, C> Shard<F, C>
where
    F: Slots<Slot = FileSlot>,
    C: Slots<Slot = ChunkSlot>,
{
    /// Invalidates pages `first..=last`, which leave the page cache without a put or whose content
    /// changes: present pages become absent, leaving ones cancelled. Returns the number of pages
    /// that were present.
    ///
    /// Examines either the chunks of the range or those of the file, whichever are fewer.
    pub fn invalidate(&mut self, file: &FileKey, first: u64, last: u64) -> u64 {
        let (mut cursor, mut cleared) = (Cursor::default(), 0_u64);
        loop {
            let step = self.invalidate_step(file, first, last, &mut cursor, u32::MAX);
            cleared = cleared.saturating_add(step.cleared);
            if step.done {
                return cleared;
            }
        }
    }

    /// Like [`Shard::invalidate`], in steps of at most `max_steps` chunks (at least one), for
    /// ranges of large files. Call it with the same range and cursor until it is done. Other calls
    /// may be made in between, but pages that were put since the first step may be left out.
    pub fn invalidate_step(
        &mut self,
        file: &FileKey,
        first: u64,
        last: u64,
        cursor: &mut Cursor,
        max_steps: u32,
    ) -> Step {
        let renewed = self.renew(file);
        let found = Span::range(first, last).zip(self.find_file(file));
        let Some((span, owner)) = found else {
            *cursor = Cursor::default();
            return Step {
                cleared: renewed,
                done: true,
            };
        };
        let numbers = span.numbers();
        let chunks = self
            .files
            .get(owner)
            .map_or(0, |file| u64::from(file.chunks));
        let step = match cursor.0 {
            Position::Start if numbers.end().saturating_sub(*numbers.start()) < chunks => {
                self.by_number(owner, span, *numbers.start(), cursor, max_steps)
            }
            Position::Start => self.by_list(owner, span, None, cursor, max_steps),
            Position::Number(number) => self.by_number(owner, span, number, cursor, max_steps),
            Position::Slot(slot) => self.by_list(owner, span, Some(slot), cursor, max_steps),
        };
        Step {
            cleared: step.cleared.saturating_add(renewed),
            ..step
        }
    }

    /// Called for each event with a generation of an inode: invalidates all pages of the inode if
    /// they belong to another generation. Returns the number of pages that were present. For a
    /// large file this is 0: the file becomes outdated, and [`Shard::forget_outdated`] invalidates
    /// its pages.
    ///
    /// The map has pages of one generation at a time, so that none can be found again when the
    /// inode gets its old generation back. The owner of a file on ext4 without metadata checksums
    /// may set it.
    pub(super) fn renew(&mut self, file: &FileKey) -> u64 {
        let known = |owner: &u32| self.files.get(*owner).map(|known| known.key.generation);
        let Some(owner) = self
            .find_inode(file)
            .filter(|owner| known(owner) != Some(file.generation))
        else {
            return 0;
        };
        if let Some(large) = self
            .files
            .get_mut(owner)
            .filter(|file| file.chunks > AT_ONCE)
        {
            if !large.outdated {
                large.outdated = true;
                self.outdated = self.outdated.saturating_add(1);
            }
            return 0;
        }
        let cleared = Span::range(0, MAX_INDEX).map_or(0, |all| {
            let mut cursor = Cursor::default();
            self.by_list(owner, all, None, &mut cursor, u32::MAX)
                .cleared
        });
        // Pages with a put in flight keep the slot.
        if let Some(known) = self.files.get_mut(owner).filter(|known| known.chunks > 0) {
            known.key.generation = file.generation;
        }
        cleared
    }

    /// Returns whether the inode in this slot got another generation and its old pages are not all
    /// invalidated yet.
    pub(super) fn is_outdated(&self, owner: Option<u32>) -> bool {
        let file = owner.and_then(|owner| self.files.get(owner));
        file.is_some_and(|file| file.outdated)
    }

    /// Returns whether there is work for [`Shard::forget_outdated`].
    pub fn has_outdated(&self) -> bool {
        self.outdated > 0
    }

    /// Invalidates the pages of older generations of all outdated files, in steps of at most
    /// `max_steps` slots of chunks (at least one). Call it with the same cursor until it is done. A
    /// file with puts in flight stays outdated until these end.
    pub fn forget_outdated(&mut self, cursor: &mut Cursor, max_steps: u32) -> Step {
        self.sweep(cursor, max_steps, |file| file.outdated)
    }

    /// Invalidates all pages of a file, because it is deleted. Returns the number that were
    /// present.
    pub fn forget_file(&mut self, file: &FileKey) -> u64 {
        self.invalidate(file, 0, MAX_INDEX)
    }

    /// Invalidates all pages of filesystems that were unmounted, in steps of at most `max_steps`
    /// slots of chunks (at least one). Call it with the same cursor until it is done. Pages that
    /// were put since the first step may be left out.
    pub fn forget_filesystems(
        &mut self,
        is_gone: impl Fn(u32) -> bool,
        cursor: &mut Cursor,
        max_steps: u32,
    ) -> Step {
        self.sweep(cursor, max_steps, |file| is_gone(file.key.filesystem))
    }

    /// Invalidates all pages, because the session is over, in steps of at most `max_steps` slots of
    /// chunks (at least one). Call it with the same cursor until it is done. Pages that were put
    /// since the first step may be left out.
    pub fn clear(&mut self, cursor: &mut Cursor, max_steps: u32) -> Step {
        self.sweep(cursor, max_steps, |_| true)
    }

    /// Looks up each chunk of the span.
    fn by_number(
        &mut self,
        owner: u32,
        span: Span,
        from: u64,
        cursor: &mut Cursor,
        max_steps: u32,
    ) -> Step {
        let mut cleared = 0_u64;
        let mut max_steps = max_steps.max(1);
        for number in from..=*span.numbers().end() {
            if max_steps == 0 {
                *cursor = Cursor(Position::Number(number));
                return Step {
                    cleared,
                    done: false,
                };
            }
            max_steps = max_steps.saturating_sub(1);
            if let Some(slot) = self.find_chunk(owner, number) {
                let change = self.change(slot, |bits| bits.invalidate(span.mask(number)));
                cleared = cleared.saturating_add(change.lost());
            }
        }
        *cursor = Cursor::default();
        Step {
            cleared,
            done: true,
        }
    }

    /// Visits the chunks of the file.
    ///
    /// New chunks are added at the head of the list, so that chunks that were not visited yet
    /// follow the one at which the walk stopped. If that one was removed in between, the walk
    /// restarts.
    fn by_list(
        &mut self,
        owner: u32,
        span: Span,
        from: Option<u32>,
        cursor: &mut Cursor,
        max_steps: u32,
    ) -> Step {
        let is_ours = |slot: &u32| {
            let chunk = self.chunks.get(*slot);
            chunk.is_some_and(|chunk| chunk.file.slot() == Some(owner))
        };
        let first = self.files.get(owner).and_then(|file| file.first.slot());
        let mut at = from.filter(is_ours).or(first);
        let mut cleared = 0_u64;
        let mut max_steps = max_steps.max(1);
        while let Some(slot) = at {
            if max_steps == 0 {
                *cursor = Cursor(Position::Slot(slot));
                return Step {
                    cleared,
                    done: false,
                };
            }
            max_steps = max_steps.saturating_sub(1);
            let Some(chunk) = self.chunks.get(slot) else {
                break;
            };
            at = chunk.after.slot();
            let mask = span.mask(chunk.number);
            if mask != 0 {
                let change = self.change(slot, |bits| bits.invalidate(mask));
                cleared = cleared.saturating_add(change.lost());
            }
        }
        *cursor = Cursor::default();
        Step {
            cleared,
            done: true,
        }
    }

    /// Visits all slots of chunks and invalidates those of the files that `chosen` selects.
    fn sweep(
        &mut self,
        cursor: &mut Cursor,
        max_steps: u32,
        chosen: impl Fn(&FileSlot) -> bool,
    ) -> Step {
        let from = match cursor.0 {
            Position::Slot(slot) => slot,
            Position::Start | Position::Number(_) => 0,
        };
        let end = self
            .chunks
            .adopted()
            .min(from.saturating_add(max_steps.max(1)));
        let mut cleared = 0_u64;
        for slot in from..end {
            let owner = self.chunks.get(slot).and_then(|chunk| chunk.file.slot());
            let file = owner.and_then(|owner| self.files.get(owner));
            if file.is_some_and(&chosen) {
                let all = |bits: &mut Bits| bits.invalidate(u128::MAX);
                cleared = cleared.saturating_add(self.change(slot, all).lost());
            }
        }
        let done = end == self.chunks.adopted();
        *cursor = Cursor(if done {
            Position::Start
        } else {
            Position::Slot(end)
        });
        Step { cleared, done }
    }
}
