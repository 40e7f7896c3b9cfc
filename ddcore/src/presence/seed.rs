// SPDX-License-Identifier: GPL-2.0-only

//! Keyed hash of files (by inode) and chunks (by number).

/// The key of the hash, which must be random.
///
/// A task that writes files chooses offsets and knows inode numbers, and could choose files and
/// offsets that collide. If the seed were only added to a word before a public mixing function,
/// there would be pairs of words that collide for every seed. For SipHash-1-3, which the kernel
/// uses for its own tables, no such pairs are known.
#[derive(Clone, Copy)]
pub struct Seed([u64; 2]);

impl Seed {
    /// Creates a seed of two random numbers.
    pub const fn new(random: [u64; 2]) -> Self {
        Self(random)
    }

    /// Returns SipHash-1-3 of two words. The length is not hashed, because it is always the same.
    #[inline]
    pub const fn hash(&self, words: [u64; 2]) -> u64 {
        let [low, high] = self.0;
        let mut state = [
            low ^ 0x736f_6d65_7073_6575,
            high ^ 0x646f_7261_6e64_6f6d,
            low ^ 0x6c79_6765_6e65_7261,
            high ^ 0x7465_6462_7974_6573,
        ];
        state = absorb(state, words[0]);
        state = absorb(state, words[1]);
        state[2] ^= 0xff;
        let [a, b, c, d] = round(round(round(state)));
        a ^ b ^ c ^ d
    }
}

#[inline]
const fn absorb(mut state: [u64; 4], word: u64) -> [u64; 4] {
    state[3] ^= word;
    state = round(state);
    state[0] ^= word;
    state
}

#[inline]
const fn round([mut a, mut b, mut c, mut d]: [u64; 4]) -> [u64; 4] {
    a = a.wrapping_add(b);
    b = b.rotate_left(13) ^ a;
    a = a.rotate_left(32);
    c = c.wrapping_add(d);
    d = d.rotate_left(16) ^ c;
    a = a.wrapping_add(d);
    d = d.rotate_left(21) ^ a;
    c = c.wrapping_add(b);
    b = b.rotate_left(17) ^ c;
    c = c.rotate_left(32);
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::Seed;

    #[test]
    fn each_bit_of_seed_and_words_changes_half_of_the_hash() {
        let bits = |seed: [u64; 2], words| Seed::new(seed).hash(words);
        let (seed, words) = ([3, 5], [7, 9]);
        let whole = bits(seed, words);
        for at in 0..128_usize {
            let flip = |mut pair: [u64; 2]| {
                pair[at / 64] ^= 1 << (at % 64);
                pair
            };
            for other in [bits(flip(seed), words), bits(seed, flip(words))] {
                let changed = (whole ^ other).count_ones();
                assert!((12..=52).contains(&changed), "bit {at}: {changed}");
            }
        }
    }
}
