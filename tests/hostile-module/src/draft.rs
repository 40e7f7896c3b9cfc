// SPDX-License-Identifier: GPL-2.0-only

//! A request page under composition, in memory of the worker.

use crate::plan::{self, Frames};
use core::mem::offset_of;
use core::ops::Range;
use ddabi::hypercall::Operation;
use ddabi::request::{RequestHeader, Run, BODY, MAX_RUNS, REQUEST_MAGIC};
use ddabi::{ABI_VERSION, PAGE_SIZE};
use kernel::prelude::*;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Offset of the frame number in a run.
const GFN: Range<usize> = {
    let at = offset_of!(Run, gfn);
    at..at + 8
};

/// Offset of the number of elements in a header.
const COUNT: usize = offset_of!(RequestHeader, count);

/// Offsets of the flags and of the ticket in a header.
const FLAGS: usize = offset_of!(RequestHeader, flags);
const TICKET: usize = offset_of!(RequestHeader, ticket);

/// From this frame number on, no guest of these tests has memory, and a request with such frames
/// cannot reach any.
const BEYOND_MEMORY: u64 = 1 << 30;

/// A request page.
pub(crate) struct Draft {
    bytes: [u8; PAGE_SIZE],
    end: usize,
    count: u32,
}

// SAFETY: Integers.
unsafe impl Zeroable for Draft {}

impl Draft {
    /// Begins a request of a session.
    pub(crate) fn begin(&mut self, operation: Operation) {
        self.begin_as(operation, plan::session(), plan::sequence());
    }

    /// Begins a request with any session and sequence.
    pub(crate) fn begin_as(&mut self, operation: Operation, session: u64, sequence: u64) {
        let header = RequestHeader {
            magic: REQUEST_MAGIC,
            version: ABI_VERSION,
            operation: operation as u16,
            session,
            sequence,
            ..RequestHeader::default()
        };
        self.end = 0;
        self.count = 0;
        self.append(header.as_bytes());
    }

    /// Adds an element to the body, as long as there is room.
    pub(crate) fn push(&mut self, element: &(impl IntoBytes + Immutable)) {
        if self.append(element.as_bytes()) {
            self.count += 1;
            self.set_count(self.count);
        }
    }

    /// Sets the number of elements that the header names.
    pub(crate) fn set_count(&mut self, count: u32) {
        if let Some(place) = self.bytes.get_mut(COUNT..COUNT + 4) {
            place.copy_from_slice(&count.to_le_bytes());
        }
    }

    /// Lets the host defer a get, or makes it continue one that was deferred.
    pub(crate) fn defer(&mut self, flags: u32, ticket: u64) {
        if let Some(place) = self.bytes.get_mut(FLAGS..FLAGS + 4) {
            place.copy_from_slice(&flags.to_le_bytes());
        }
        if let Some(place) = self.bytes.get_mut(TICKET..TICKET + 8) {
            place.copy_from_slice(&ticket.to_le_bytes());
        }
    }

    fn append(&mut self, bytes: &[u8]) -> bool {
        let end = self.end + bytes.len();
        let Some(place) = self.bytes.get_mut(self.end..end) else {
            return false;
        };
        place.copy_from_slice(bytes);
        self.end = end;
        true
    }

    /// Fills header and body with the results of `word`.
    pub(crate) fn fill(&mut self, end: usize, mut word: impl FnMut() -> u64) {
        self.end = end.min(PAGE_SIZE);
        if let Some(place) = self.bytes.get_mut(..self.end) {
            for part in place.chunks_mut(8) {
                let word = word().to_le_bytes();
                for (to, from) in part.iter_mut().zip(word) {
                    *to = from;
                }
            }
        }
    }

    /// Makes the header name so many elements that the request includes bytes of an earlier one.
    pub(crate) fn stretch(&mut self, end: usize) {
        self.end = self.end.max(end.min(PAGE_SIZE));
    }

    /// Changes a byte at any offset, except in the frame number of a run.
    pub(crate) fn change(&mut self, at: usize, change: impl FnOnce(u8) -> u8) {
        let inside = at.wrapping_sub(BODY) % RUN;
        if at >= BODY && GFN.contains(&inside) {
            return;
        }
        if let Some(byte) = self.bytes.get_mut(at) {
            *byte = change(*byte);
        }
    }

    /// Returns its sequence number.
    pub(crate) fn sequence(&self) -> u64 {
        let header = RequestHeader::read_from_prefix(&self.bytes);
        header.map_or(0, |(header, _)| header.sequence)
    }

    /// Returns the bytes to send.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.end).unwrap_or(&[])
    }

    /// Returns whether the host can write only to allowed frames. A get with other frames would
    /// overwrite this guest's own memory.
    pub(crate) fn is_safe(&self) -> bool {
        let Ok((header, body)) = RequestHeader::read_from_prefix(&self.bytes) else {
            return false;
        };
        if header.operation != Operation::Get as u16 {
            return true;
        }
        // All elements are checked whatever the count, because the host may read elements that were
        // not written.
        let written = self.end.saturating_sub(BODY);
        let named = (header.count as usize).min(MAX_RUNS);
        if named * RUN > written {
            return false;
        }
        let frames = Frames::all();
        body.chunks_exact(RUN)
            .take(named)
            .filter_map(|run| Run::read_from_bytes(run).ok())
            .all(|run| {
                frames.contains(run.gfn) || plan::is_moving(run.gfn) || run.gfn >= BEYOND_MEMORY
            })
    }
}

const RUN: usize = size_of::<Run>();
