// SPDX-License-Identifier: GPL-2.0

//! What happens to the pages of a folio: puts, reads and notices.

use super::bits::Bits;
use super::chunk::{ChunkSlot, CHUNK_PAGES};
use super::file::FileSlot;
use super::shard::{count, Change, Shard};
use super::slots::Slots;
use super::span::Span;
use ddabi::key::FileKey;

/// Why a put may not begin. All copies of its pages are invalid from now on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refused {
    /// Another put of one of the pages is on its way, or the file got another generation and is
    /// not forgotten yet.
    Busy,
    /// There is no slot to remember it, or no such pages can exist.
    Full,
}

/// What became of the pages of a put.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Finished {
    /// Pages that are present now.
    pub present: u64,
    /// Pages whose put was cancelled: if it was stored, the host holds them in vain.
    pub cancelled: u64,
}

/// What a read may do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Claim {
    /// Ask the host: it may hold all pages.
    Ask,
    /// Read from the filesystem.
    Miss {
        /// Pages the host holds in vain from now on.
        present: u64,
    },
}

impl<F, C> Shard<F, C>
where
    F: Slots<Slot = FileSlot>,
    C: Slots<Slot = ChunkSlot>,
{
    /// The pages of a folio leave by reclaim: absent and present ones become leaving.
    ///
    /// All pages or none: if it is refused, no put may be sent, and the pages are as after
    /// [`Shard::invalidate`]: leaving ones cancelled, present ones absent. A run without pages,
    /// or one that goes beyond [`ddabi::key::MAX_INDEX`], is refused as [`Refused::Full`].
    ///
    /// After `Ok` the caller owes exactly one [`Shard::finish_put`] for each page.
    pub fn begin_put(&mut self, file: &FileKey, index: u64, pages: u32) -> Result<(), Refused> {
        let span = Span::run(index, pages).ok_or(Refused::Full)?;
        self.renew(file);
        // Its pages are of this generation, unless it is outdated.
        let owner = self.find_inode(file);
        if self.is_outdated(owner) {
            return Err(Refused::Busy);
        }
        let (mut missing, mut busy) = (0_u64, false);
        for number in span.numbers() {
            let slot = owner.and_then(|owner| self.find_chunk(owner, number));
            match slot.and_then(|slot| self.chunks.get(slot)) {
                Some(chunk) => busy |= chunk.bits.going() & span.mask(number) != 0,
                None => missing = missing.saturating_add(1),
            }
        }
        let room = missing <= u64::from(self.chunks.spare())
            && (owner.is_some() || self.files.spare() > 0)
            && span.pages() == u64::from(pages);
        if busy || !room {
            self.each(owner, span, Bits::invalidate, |_| ());
            return Err(if busy { Refused::Busy } else { Refused::Full });
        }
        for number in span.numbers() {
            let Some(slot) = self.obtain(file, number) else {
                // Cannot happen, slots were counted. No page of the run was going before.
                debug_assert!(false, "a slot is missing");
                self.finish_put(file, index, pages, false);
                return Err(Refused::Full);
            };
            self.change(slot, |bits| bits.begin(span.mask(number)));
            if let Some(chunk) = self.chunks.get_mut(slot) {
                chunk.recent = true;
            }
        }
        Ok(())
    }

    /// A put is over: confirmed by the host (`stored`), failed, or never sent.
    ///
    /// Leaving pages become present if stored, else absent; cancelled ones become absent. Pages
    /// without a put on its way stay as they are. It may be called for parts of the run, and after
    /// the inode got another generation, which cancelled the put.
    pub fn finish_put(&mut self, file: &FileKey, index: u64, pages: u32, stored: bool) -> Finished {
        let mut finished = Finished::default();
        let Some(span) = Span::run(index, pages) else {
            return finished;
        };
        let owner = self.find_inode(file);
        let outdated = self.is_outdated(owner);
        let finish = |bits: &mut Bits, mask| {
            if outdated {
                bits.invalidate(mask);
            }
            bits.finish(mask, stored);
        };
        self.each(owner, span, finish, |change| {
            let cancelled = count(change.before.cancelled() & !change.after.going());
            finished.present = finished.present.saturating_add(change.gained());
            finished.cancelled = finished.cancelled.saturating_add(cancelled);
        });
        finished
    }

    /// A read of one folio: present pages become absent, whether they can be used or not;
    /// leaving and cancelled ones stay and make it a miss.
    ///
    /// Only if all pages were present the host may be asked.
    pub fn claim(&mut self, file: &FileKey, index: u64, pages: u32) -> Claim {
        self.renew(file);
        let present = self.notice(file, index, pages);
        if present == u64::from(pages) && pages > 0 {
            Claim::Ask
        } else {
            Claim::Miss { present }
        }
    }

    /// The host evicted its copies: present pages become absent. Leaving and cancelled ones
    /// stay, for it was an older copy, and so do pages of another generation. Returns the number
    /// of pages that were present.
    pub fn notice(&mut self, file: &FileKey, index: u64, pages: u32) -> u64 {
        let mut lost = 0_u64;
        if let Some(span) = Span::run(index, pages) {
            self.each(self.find_file(file), span, Bits::take, |change| {
                lost = lost.saturating_add(change.lost());
            });
        }
        lost
    }

    /// Whether there is at least one page and all are present; changes nothing.
    pub fn peek(&self, file: &FileKey, index: u64, pages: u32) -> bool {
        let pages = u64::from(pages);
        pages > 0 && self.present_run(file, index, pages) == pages
    }

    /// Number of consecutive present pages from `index` on, at most `max`; changes nothing.
    pub fn present_run(&self, file: &FileKey, index: u64, max: u64) -> u64 {
        let Some(more) = max.checked_sub(1) else {
            return 0;
        };
        let Some(span) = Span::range(index, index.saturating_add(more)) else {
            return 0;
        };
        let Some(owner) = self.find_file(file) else {
            return 0;
        };
        let mut run = 0_u64;
        let mut bit = index % CHUNK_PAGES;
        for number in span.numbers() {
            let slot = self.find_chunk(owner, number);
            let Some(chunk) = slot.and_then(|slot| self.chunks.get(slot)) else {
                break;
            };
            let here = u64::from((chunk.bits.present() >> bit).trailing_ones());
            run = run.saturating_add(here);
            if here.saturating_add(bit) < CHUNK_PAGES {
                break;
            }
            bit = 0;
        }
        run.min(span.pages())
    }

    /// Applies an event to the part of each existing chunk the span covers.
    fn each(
        &mut self,
        owner: Option<u32>,
        span: Span,
        event: impl Fn(&mut Bits, u128),
        mut seen: impl FnMut(Change),
    ) {
        let Some(owner) = owner else {
            return;
        };
        // When the last chunk goes, so does the file: nothing is found under its number then.
        for number in span.numbers() {
            if let Some(slot) = self.find_chunk(owner, number) {
                seen(self.change(slot, |bits| event(bits, span.mask(number))));
            }
        }
    }
}
