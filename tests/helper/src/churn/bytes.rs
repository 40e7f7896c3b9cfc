// SPDX-License-Identifier: GPL-2.0-only

//! Pseudo-random numbers and file content.

/// A random number generator. Equal seeds give equal numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    /// Returns any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number below `end`, or 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.any() % end.max(1)
    }

    /// Returns a number in `first..=last`.
    pub fn within(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// Returns `true` with a probability of `percent`.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Fills `buffer` with the content of `seed` from position `offset` on. All pages of all seeds
/// differ.
pub fn fill(seed: u64, offset: u64, buffer: &mut [u8]) {
    let mut at = offset;
    let mut rest = buffer;
    while !rest.is_empty() {
        let word = mix(seed ^ (at / 8).wrapping_mul(0xa076_1d64_78bd_642f)).to_le_bytes();
        // The result is below eight.
        let skip = (at % 8) as usize;
        let count = rest.len().min(8 - skip);
        let (now, later) = rest.split_at_mut(count);
        now.copy_from_slice(&word[skip..skip + count]);
        at += count as u64;
        rest = later;
    }
}

/// Spreads every bit of a number over all bits.
pub(super) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
