// SPDX-License-Identifier: GPL-2.0-only

//! The page ranges that a guest has to send to its host for a flush.
//!
//! Ranges are sent in the order in which they were queued. A range that the host has not finished
//! is sent again before all others and unchanged, so that the host continues where it has stopped:
//! it remembers the position of one flush per session only.

use core::ops::DerefMut;
use ddabi::key::FileKey;
use ddabi::request::{FlushRange, FlushScope, MAX_PAGES};

/// A queue in a buffer of the caller, whose length is the capacity.
#[derive(Debug)]
pub struct FlushQueue<B> {
    buffer: B,
    /// Position of the first range in the buffer. The ranges wrap around at its end.
    first: usize,
    /// Number of ranges.
    len: usize,
    /// Number of ranges at the beginning that were put back.
    unfinished: usize,
}

impl<B: DerefMut<Target = [FlushRange]>> FlushQueue<B> {
    /// Creates an empty queue.
    pub fn new(buffer: B) -> Self {
        Self {
            buffer,
            first: 0,
            len: 0,
            unfinished: 0,
        }
    }

    /// Returns the number of ranges.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no ranges.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a range, or extends the last one if this one follows it, as reclaim and truncation
    /// often queue adjacent ranges in succession. A full queue drops the range, because flushes
    /// are never needed for correctness (invariant 2). Returns whether the number of ranges has
    /// grown.
    pub fn push(&mut self, range: FlushRange) -> bool {
        if self.len > self.unfinished && extend(self.at(self.len - 1), &range) {
            return false;
        }
        let is_full = self.len == self.buffer.len();
        if !is_full {
            *self.at(self.len) = range;
            self.len += 1;
        }
        !is_full
    }

    /// Moves the first ranges, as many as there are places, to `into`. Returns their number.
    pub fn take(&mut self, into: &mut [FlushRange]) -> usize {
        let count = self.len.min(into.len());
        for (at, place) in into[..count].iter_mut().enumerate() {
            *place = *self.at(at);
        }
        self.first = self.position(count);
        self.len -= count;
        self.unfinished = self.unfinished.saturating_sub(count);
        count
    }

    /// Queues ranges in front of the others, in their order, because the host has not finished
    /// them. If the queue is full, the last ones are dropped.
    pub fn put_back(&mut self, ranges: impl DoubleEndedIterator<Item = FlushRange> + Clone) {
        let room = self.buffer.len() - self.len;
        let count = ranges.clone().count().min(room);
        self.first = self.position(self.buffer.len() - count);
        for (at, range) in ranges.take(count).enumerate() {
            *self.at(at) = range;
        }
        self.len += count;
        self.unfinished += count;
    }

    /// Removes all ranges.
    pub fn clear(&mut self) {
        (self.len, self.unfinished) = (0, 0);
    }

    /// Returns the range at a position of the queue.
    fn at(&mut self, at: usize) -> &mut FlushRange {
        let position = self.position(at);
        &mut self.buffer[position]
    }

    /// Returns the position in the buffer of a position of the queue.
    fn position(&self, at: usize) -> usize {
        (self.first + at) % self.buffer.len()
    }
}

/// Moves the ranges that are still to be sent to the front, in their order, and returns their
/// number. `are_present` returns whether a number of pages of a file, from an index on, are all
/// present at the host.
///
/// Such pages were put after their range was queued, and replaced the copies that the range was to
/// free. Sending the range would free the new copies. If only some of the pages of a range were put
/// again, the range is sent nevertheless.
pub fn retain_needed(
    ranges: &mut [FlushRange],
    are_present: impl Fn(&FileKey, u64, u32) -> bool,
) -> usize {
    let mut kept = 0;
    for at in 0..ranges.len() {
        let range = ranges[at];
        let pages = range.last.saturating_sub(range.first).saturating_add(1);
        // The pages of longer ranges would keep the map locked for long.
        let is_short = range.scope == FlushScope::Pages as u32 && pages <= MAX_PAGES.into();
        if !is_short || !are_present(&range.file, range.first, pages as u32) {
            ranges[kept] = range;
            kept += 1;
        }
    }
    kept
}

/// Extends a range of pages by one that follows it. Returns `false` if that is impossible.
fn extend(last: &mut FlushRange, next: &FlushRange) -> bool {
    let is_next = last.file == next.file
        && last.scope == FlushScope::Pages as u32
        && next.scope == FlushScope::Pages as u32
        && last.last.checked_add(1) == Some(next.first);
    if is_next {
        last.last = next.last;
    }
    is_next
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    fn pages(inode: u64, first: u64, last: u64) -> FlushRange {
        FlushRange {
            file: FileKey {
                inode,
                ..FileKey::default()
            },
            first,
            last,
            scope: FlushScope::Pages as u32,
            reserved: 0,
        }
    }

    fn queue(capacity: usize) -> FlushQueue<Vec<FlushRange>> {
        FlushQueue::new(vec![FlushRange::default(); capacity])
    }

    /// Takes up to `count` ranges, and returns their inodes and pages.
    fn take(queue: &mut FlushQueue<Vec<FlushRange>>, count: usize) -> Vec<(u64, u64, u64)> {
        let mut into = vec![FlushRange::default(); count];
        let got = queue.take(&mut into);
        let taken = into[..got].iter();
        taken
            .map(|range| (range.file.inode, range.first, range.last))
            .collect()
    }

    #[test]
    fn adjacent_ranges_of_a_file_are_merged() {
        let mut queue = queue(4);
        assert!(queue.push(pages(1, 0, 3)));
        assert!(!queue.push(pages(1, 4, 9)));
        assert!(queue.push(pages(2, 10, 11)));
        assert!(queue.push(pages(2, 13, u64::MAX)));
        assert!(queue.push(pages(2, 0, 0)));
        assert_eq!(
            take(&mut queue, 9),
            [(1, 0, 9), (2, 10, 11), (2, 13, u64::MAX), (2, 0, 0)]
        );
        assert!(queue.is_empty());
        let filesystem = FlushRange {
            scope: FlushScope::Filesystem as u32,
            ..pages(0, 0, 0)
        };
        assert!(queue.push(filesystem));
        assert!(queue.push(pages(0, 1, 1)));
        assert!(queue.push(filesystem));
        assert_eq!(queue.len(), 3);
    }

    #[test]
    fn a_full_queue_drops_ranges() {
        let mut queue = queue(2);
        assert!(queue.push(pages(1, 0, 0)));
        assert!(queue.push(pages(2, 0, 0)));
        assert!(!queue.push(pages(3, 0, 0)));
        // A range that follows the last one needs no place.
        assert!(!queue.push(pages(2, 1, 1)));
        assert_eq!(take(&mut queue, 9), [(1, 0, 0), (2, 0, 1)]);
    }

    /// The host continues a flush only if the next request begins with the same range.
    #[test]
    fn unfinished_ranges_stay_unchanged_and_go_first() {
        let mut queue = queue(4);
        queue.push(pages(1, 0, 3));
        queue.push(pages(2, 0, 3));
        assert_eq!(take(&mut queue, 9).len(), 2);
        queue.push(pages(3, 0, 3));
        queue.put_back([pages(1, 0, 3), pages(2, 0, 3)].into_iter());
        assert_eq!(take(&mut queue, 1), [(1, 0, 3)]);
        assert_eq!(take(&mut queue, 1), [(2, 0, 3)]);
        queue.put_back([pages(2, 0, 3)].into_iter());
        assert_eq!(take(&mut queue, 2), [(2, 0, 3), (3, 0, 3)]);
        // Without other ranges, the one that was put back is the last one.
        queue.put_back([pages(3, 0, 3)].into_iter());
        assert!(queue.push(pages(3, 4, 9)));
        assert!(!queue.push(pages(3, 10, 10)));
        assert_eq!(take(&mut queue, 9), [(3, 0, 3), (3, 4, 10)]);
    }

    #[test]
    fn a_full_queue_keeps_the_first_unfinished_ranges() {
        let mut queue = queue(3);
        (0..3).for_each(|inode| _ = queue.push(pages(inode, 0, 0)));
        assert_eq!(take(&mut queue, 2).len(), 2);
        queue.push(pages(7, 0, 0));
        queue.put_back([pages(0, 0, 0), pages(1, 0, 0)].into_iter());
        assert_eq!(take(&mut queue, 9), [(0, 0, 0), (2, 0, 0), (7, 0, 0)]);
        queue.push(pages(1, 0, 0));
        queue.put_back([pages(2, 0, 0)].into_iter());
        queue.clear();
        assert!(queue.push(pages(1, 1, 1)));
        assert_eq!(take(&mut queue, 9), [(1, 1, 1)]);
    }

    /// A page that changed, and was put again before the flush of its old copy was sent, is not
    /// freed.
    #[test]
    fn ranges_whose_pages_were_put_again_are_not_sent() {
        let filesystem = FlushRange {
            scope: FlushScope::Filesystem as u32,
            ..pages(1, 0, 0)
        };
        let limit = u64::from(MAX_PAGES);
        let mut ranges = [
            pages(1, 5, 5),
            pages(2, 5, 5),
            filesystem,
            pages(1, 0, limit - 1),
            pages(1, 0, limit),
            pages(2, 7, 8),
            pages(1, 0, u64::MAX),
        ];
        let kept = [ranges[1], filesystem, ranges[4], ranges[5], ranges[6]];
        // All pages of the first file are present.
        let count = retain_needed(&mut ranges, |file, _, _| file.inode == 1);
        assert_eq!(ranges[..count], kept);
        let asked = |file: &FileKey, index, pages| (file.inode, index, pages) == (2, 7, 2);
        assert_eq!(retain_needed(&mut ranges[..count], asked), 4);
        assert_eq!(retain_needed(&mut [], |_, _, _| true), 0);
    }
}
