// SPDX-License-Identifier: GPL-2.0-only

//! Frequencies of recent misses of pages: a count-min sketch of four-bit counters that are halved
//! over time.
//!
//! As in TinyLFU (Einziger et al., ACM ToS '17), with one change: counters are halved one word at a
//! time instead of all at once, so that each addition takes constant time.

/// Number of counters of a key.
const ROWS: usize = 4;

/// The largest value of a counter.
pub const MAX_COUNT: u8 = 15;

/// Each counter is halved once in this many additions for each page of the cache.
const PERIOD: u64 = 10;

/// Returns the number of words of a sketch for a pool of `pages` pages: four counters, which are
/// two bytes, for each page.
pub const fn words(pages: usize) -> usize {
    let words = pages.div_ceil(4).next_power_of_two();
    if words < 16 {
        16
    } else {
        words
    }
}

/// The sketch. `W` is memory for the counters, initially zero. Its length is rounded down to a
/// power of two.
#[derive(Clone, Debug)]
pub struct Sketch<W> {
    words: W,
    /// Number of additions since a word was halved.
    additions: u64,
    /// The next word to halve.
    cursor: usize,
}

impl<W: AsRef<[u64]> + AsMut<[u64]>> Sketch<W> {
    /// Creates an empty sketch.
    pub const fn new(words: W) -> Self {
        Self {
            words,
            additions: 0,
            cursor: 0,
        }
    }

    /// Returns an estimate of how often the key was added, 0 to [`MAX_COUNT`]. Apart from halving
    /// and saturation it is never too low.
    pub fn estimate(&self, hash: u64) -> u8 {
        let words = self.words.as_ref();
        match mask(words) {
            Some(mask) => least(words, &places(hash, mask)),
            None => 0,
        }
    }

    /// Counts a key. `capacity` is the size of the cache in pages.
    pub fn add(&mut self, hash: u64, capacity: u64) {
        let words = self.words.as_mut();
        let Some(mask) = mask(words) else {
            return;
        };
        let places = places(hash, mask);
        let least = least(words, &places);
        if least < MAX_COUNT {
            // Only the smallest counters are incremented, because other keys have raised the larger
            // ones.
            for (word, shift) in places {
                if (words[word] >> shift) as u8 & MAX_COUNT == least {
                    words[word] += 1 << shift;
                }
            }
        }
        self.additions += 1;
        let period = capacity.max(1).saturating_mul(PERIOD);
        if self.additions.saturating_mul(mask as u64 + 1) >= period {
            self.additions = 0;
            let word = &mut words[self.cursor & mask];
            *word = *word >> 1 & 0x7777_7777_7777_7777;
            self.cursor = self.cursor.wrapping_add(1);
        }
    }

    /// Returns the memory, which other policies use for fingerprints.
    pub(super) fn words(&self) -> &[u64] {
        self.words.as_ref()
    }

    pub(super) fn words_mut(&mut self) -> &mut [u64] {
        self.words.as_mut()
    }
}

/// Returns the number of words in use minus one, or `None` without memory.
pub(super) const fn mask(words: &[u64]) -> Option<usize> {
    match words.len() {
        0 => None,
        length => Some((1 << length.ilog2()) - 1),
    }
}

/// Returns the words and the bits of a key's counters, by double hashing over the words.
fn places(hash: u64, mask: usize) -> [(usize, u32); ROWS] {
    let step = (hash >> 32) as usize | 1;
    core::array::from_fn(|row| {
        let word = (hash as usize).wrapping_add(step.wrapping_mul(row)) & mask;
        (word, ((hash >> (48 + 4 * row)) as u32 & 15) * 4)
    })
}

/// Returns the smallest of a key's counters.
fn least(words: &[u64], places: &[(usize, u32); ROWS]) -> u8 {
    let counters = places.map(|(word, shift)| (words[word] >> shift) as u8 & MAX_COUNT);
    counters.into_iter().fold(MAX_COUNT, u8::min)
}
