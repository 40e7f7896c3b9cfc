// SPDX-License-Identifier: GPL-2.0-only

//! Events that concern the pages of a folio: puts, reads and eviction notices.

use super::bits::Bits;
use super::chunk::{ChunkSlot, CHUNK_PAGES};
use super::file::FileSlot;
use super::shard::{count, Change, Shard};
use super::slots::Slots;
use super::span::Span;
use ddabi::key::FileKey;

/// Reason for which a put may not begin. All copies of its pages are invalid from then on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refused {
    /// Another put of one of the pages is in flight, or the pages of an older generation of the
    /// file are not invalidated yet.
    Busy,
    /// No slot is free, or such pages cannot exist.
    Full,
}

/// Result of a put.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Finished {
    /// Number of pages that are present now.
    pub present: u64,
    /// Number of pages whose put was cancelled. If they were stored, the host may free them.
    pub cancelled: u64,
}

/// The source of the pages of a read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Claim {
    /// The host, which may have all pages.
    Ask,
    /// The filesystem.
    Miss {
        /// Number of pages that were present. The host may free them.
        present: u64,
    },
}

impl<F, C> Shard<F, C>
where
    F: Slots<Slot = FileSlot>,
    C: Slots<Slot = ChunkSlot>,
{
    /// Begins a put of the pages of a folio that reclaim removes: absent and present pages become
    /// leaving.
    ///
    /// The put begins for all pages or for none. If it is refused, no put may be sent, and the
    /// pages are as after [`Shard::invalidate`]: leaving ones are cancelled, and present ones
    /// absent. A run without pages, or one beyond [`ddabi::key::MAX_INDEX`], is refused as
    /// [`Refused::Full`].
    ///
    /// After `Ok` the caller must call [`Shard::finish_put`] exactly once for each page.
    pub fn begin_put(&mut self, file: &FileKey, index: u64, pages: u32) -> Result<(), Refused> {
        let span = Span::run(index, pages).ok_or(Refused::Full)?;
        self.renew(file);
        // After `renew`, the pages of the inode have this generation, unless the file is outdated.
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
                // This cannot happen, because free slots were counted. No page of the run had a put
                // in flight before.
                debug_assert!(false, "a slot is missing");
                self.finish_put(file, index, pages, false);
                return Err(Refused::Full);
            };
            self.begin(slot, span.mask(number));
        }
        Ok(())
    }

    /// Makes pages of a chunk leaving, and records that the chunk was used. None of them may have a
    /// put in flight.
    fn begin(&mut self, slot: u32, mask: u128) {
        self.change(slot, |bits| bits.begin(mask));
        if let Some(chunk) = self.chunks.get_mut(slot) {
            chunk.recent = true;
        }
    }

    /// Ends a put that was confirmed by the host (`stored`), failed, or was never sent.
    ///
    /// Leaving pages become present if stored, and absent otherwise; cancelled ones become absent.
    /// Pages without a put do not change. It may be called for parts of the run, and after
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

    /// Begins a read of one folio. Present pages become absent in any case; leaving and cancelled
    /// ones do not change and make the read a miss.
    ///
    /// The host may be asked only if all pages were present.
    ///
    /// See [`Shard::claim_retained`] for hosts that may keep the pages that they return.
    pub fn claim(&mut self, file: &FileKey, index: u64, pages: u32) -> Claim {
        self.renew(file);
        let present = self.notice(file, index, pages);
        if present == u64::from(pages) && pages > 0 {
            Claim::Ask
        } else {
            Claim::Miss { present }
        }
    }

    /// Begins a read of one folio from a host that may keep the pages that it returns. Does the
    /// same as [`Shard::claim`], but if the host may be asked, the pages are leaving, as if they
    /// were put: a change of their content during the read cancels them.
    ///
    /// After [`Claim::Ask`] the caller must call [`Shard::finish_put`] exactly once for each page,
    /// with whether the host has kept it, before the folio can be written or reclaimed.
    pub fn claim_retained(&mut self, file: &FileKey, index: u64, pages: u32) -> Claim {
        self.renew(file);
        if !self.peek(file, index, pages) {
            return self.claim(file, index, pages);
        }
        if let Some(span) = Span::run(index, pages) {
            let owner = self.find_file(file);
            for number in span.numbers() {
                if let Some(slot) = owner.and_then(|owner| self.find_chunk(owner, number)) {
                    self.begin(slot, span.mask(number));
                }
            }
        }
        Claim::Ask
    }

    /// Applies an eviction notice of the host: present pages become absent. Leaving and cancelled
    /// ones do not change, because the host evicted an older copy, and neither do pages of another
    /// generation. Returns the number of pages that were present.
    pub fn notice(&mut self, file: &FileKey, index: u64, pages: u32) -> u64 {
        let mut lost = 0_u64;
        if let Some(span) = Span::run(index, pages) {
            self.each(self.find_file(file), span, Bits::take, |change| {
                lost = lost.saturating_add(change.lost());
            });
        }
        lost
    }

    /// Returns whether all pages are present. Returns `false` if there are no pages.
    pub fn peek(&self, file: &FileKey, index: u64, pages: u32) -> bool {
        let pages = u64::from(pages);
        pages > 0 && self.present_run(file, index, pages) == pages
    }

    /// Returns the number of consecutive present pages from `index` on, at most `max`.
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

    /// Applies an event to the part of each existing chunk that the span covers.
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
        // The file is removed with its last chunk. No chunk is found by its number afterwards.
        for number in span.numbers() {
            if let Some(slot) = self.find_chunk(owner, number) {
                seen(self.change(slot, |bits| event(bits, span.mask(number))));
            }
        }
    }
}
