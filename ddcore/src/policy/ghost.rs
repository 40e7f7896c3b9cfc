// SPDX-License-Identifier: GPL-2.0-only

//! Fingerprints of pages that were seen before: 16 bits each, four in a word, the newest first.

use super::sketch::mask;

/// Bits of a fingerprint.
const BITS: u32 = 16;

/// Returns whether the page is among the four newest of its word, and makes it the newest. About
/// one page in 16 384 is mistaken for another.
pub fn seen(words: &mut [u64], hash: u64) -> bool {
    let Some(mask) = mask(words) else {
        return false;
    };
    let word = &mut words[hash as usize & mask];
    // Zero means an empty place.
    let print = (hash >> 48).max(1);
    let place = (0..4).find(|place| *word >> (place * BITS) & 0xffff == print);
    // The fingerprints that are newer than the old one move up by one place.
    let moved = match place {
        Some(3) | None => u64::MAX,
        Some(place) => (1 << ((place + 1) * BITS)) - 1,
    };
    *word = *word & !moved | (*word << BITS | print) & moved;
    place.is_some()
}
