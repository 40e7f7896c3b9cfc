// SPDX-License-Identifier: GPL-2.0-only

//! Consecutive pages of a file, and the parts of chunks that they cover.

use super::chunk::CHUNK_PAGES;
use core::ops::RangeInclusive;
use ddabi::key::MAX_INDEX;

/// One or more consecutive pages, none beyond [`MAX_INDEX`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    first: u64,
    last: u64,
}

impl Span {
    /// Returns the part of `first..=last` that can exist.
    #[inline]
    pub(super) fn range(first: u64, last: u64) -> Option<Self> {
        let last = last.min(MAX_INDEX);
        (first <= last).then_some(Self { first, last })
    }

    /// Returns the part of the run that can exist.
    #[inline]
    pub(super) fn run(index: u64, pages: u32) -> Option<Self> {
        let more = u64::from(pages).checked_sub(1)?;
        Self::range(index, index.saturating_add(more))
    }

    /// Returns the number of pages.
    #[inline]
    pub(super) fn pages(self) -> u64 {
        self.last.saturating_sub(self.first).saturating_add(1)
    }

    /// Returns the numbers of the chunks that it touches.
    #[inline]
    pub(super) fn numbers(self) -> RangeInclusive<u64> {
        self.first / CHUNK_PAGES..=self.last / CHUNK_PAGES
    }

    /// Returns the bits of its pages in chunk `number`, or 0 if it does not touch the chunk.
    #[inline]
    pub(super) fn mask(self, number: u64) -> u128 {
        let numbers = self.numbers();
        if !numbers.contains(&number) {
            return 0;
        }
        let mut mask = u128::MAX;
        if number == *numbers.start() {
            mask &= u128::MAX << (self.first % CHUNK_PAGES);
        }
        if number == *numbers.end() {
            mask &= u128::MAX >> (CHUNK_PAGES - 1 - self.last % CHUNK_PAGES);
        }
        mask
    }
}

#[cfg(test)]
mod tests {
    use super::Span;
    use ddabi::key::MAX_INDEX;

    #[test]
    fn masks() {
        let span = Span::range(127, 256).unwrap();
        assert_eq!(span.numbers(), 0..=2);
        assert_eq!(
            [0, 1, 2, 3].map(|n| span.mask(n)),
            [1 << 127, u128::MAX, 1, 0]
        );
        assert_eq!(Span::run(5, 3).unwrap().mask(0), 0b1110_0000);
        assert_eq!(span.pages(), 130);
    }

    #[test]
    fn limits() {
        assert!(Span::run(3, 0).is_none());
        assert!(Span::range(4, 3).is_none());
        assert!(Span::range(MAX_INDEX + 1, u64::MAX).is_none());
        assert!(Span::run(u64::MAX, u32::MAX).is_none());
        assert_eq!(Span::run(MAX_INDEX, 9).unwrap().pages(), 1);
        assert_eq!(Span::range(0, u64::MAX).unwrap().pages(), MAX_INDEX + 1);
    }
}
