// SPDX-License-Identifier: GPL-2.0

//! How often pages were missed of late: a count-min sketch of four-bit counters that ages.
//!
//! As in TinyLFU (Einziger et al., ACM ToS '17), with one change: counters are not halved all at
//! once but a word at a time, so that no addition takes longer than another.

/// Counters of a key.
const ROWS: u32 = 4;

/// A counter's largest value.
pub const MOST: u8 = 15;

/// Additions, per page of the cache, in which every counter is halved once.
const PERIOD: u64 = 10;

/// Words of a sketch for a pool of this many pages: four counters, two bytes, for a page.
pub const fn words(pages: usize) -> usize {
    let words = pages.div_ceil(4).next_power_of_two();
    if words < 16 {
        16
    } else {
        words
    }
}

/// The sketch. `W` holds the counters, zeroed at first; of its length the largest power of two is
/// used.
#[derive(Clone, Debug)]
pub struct Sketch<W> {
    words: W,
    /// Additions since a word was aged.
    additions: u64,
    /// Next word to age.
    cursor: usize,
}

impl<W: AsRef<[u64]> + AsMut<[u64]>> Sketch<W> {
    /// An empty sketch.
    pub const fn new(words: W) -> Self {
        Self {
            words,
            additions: 0,
            cursor: 0,
        }
    }

    /// Estimates how often the key was added, never too low but for aging; 0 to [`MOST`].
    pub fn estimate(&self, hash: u64) -> u8 {
        let words = self.words.as_ref();
        let Some(mask) = mask(words) else {
            return 0;
        };
        (0..ROWS)
            .map(|row| {
                let (word, shift) = place(hash, row, mask);
                (words[word] >> shift) as u8 & MOST
            })
            .min()
            .unwrap_or(0)
    }

    /// Counts a key; `capacity` pages are what the cache holds.
    pub fn add(&mut self, hash: u64, capacity: u64) {
        let least = self.estimate(hash);
        let words = self.words.as_mut();
        let Some(mask) = mask(words) else {
            return;
        };
        if least < MOST {
            // Only the least counters rise: the others were raised by other keys.
            for row in 0..ROWS {
                let (word, shift) = place(hash, row, mask);
                if (words[word] >> shift) as u8 & MOST == least {
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

    /// The memory, to be used for something else.
    pub(super) fn words(&self) -> &[u64] {
        self.words.as_ref()
    }

    pub(super) fn words_mut(&mut self) -> &mut [u64] {
        self.words.as_mut()
    }
}

/// Number of words in use less one; `None` if there are none.
pub(super) const fn mask(words: &[u64]) -> Option<usize> {
    match words.len() {
        0 => None,
        length => Some((1 << length.ilog2()) - 1),
    }
}

/// Word and bit of a key's counter: a quarter of the hash each, and double hashing over the words.
const fn place(hash: u64, row: u32, mask: usize) -> (usize, u32) {
    let step = (hash >> 32) as usize | 1;
    let word = (hash as usize).wrapping_add(step.wrapping_mul(row as usize)) & mask;
    (word, ((hash >> (48 + 4 * row)) as u32 & 15) * 4)
}
