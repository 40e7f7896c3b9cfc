// SPDX-License-Identifier: GPL-2.0-only

//! Confinement of indices that a guest chooses.
//!
//! A processor speculates past a comparison of an index with its bound, and loads from an
//! address that depends on the index leave traces in its caches (Spectre, variant 1). Indices are
//! therefore not only compared with their bound but also confined to it by arithmetic, which is not
//! speculated. The kernel's `array_index_nospec` does the same.

use core::hint::black_box;
use core::ops::Range;

/// Returns `index` if it is below `size`, which is not zero, and zero otherwise, without a branch.
#[inline]
pub fn confine(index: usize, size: usize) -> usize {
    // Prevents the compiler from removing the code because of earlier comparisons.
    let index = black_box(index);
    // The sign bit is clear in both terms if the index is within its bound.
    let outside = index | (size - 1).wrapping_sub(index);
    index & !(outside as isize >> (isize::BITS - 1)) as usize
}

/// Returns the range `first..first + len`, confined to `0..size`.
#[inline]
pub fn part(first: usize, len: usize, size: usize) -> Range<usize> {
    let first = confine(first, size + 1);
    first..first + confine(len, size - first + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_index_within_its_bound_is_unchanged(size in 1usize..1 << 40, index: usize) {
            let index = index % size;
            prop_assert_eq!(confine(index, size), index);
        }

        #[test]
        fn results_are_within_the_bound(size in 1usize..1 << 40, index: usize) {
            prop_assert_eq!(confine(index, size), if index < size { index } else { 0 });
        }

        #[test]
        fn parts_lie_inside(first: usize, len: usize, size in 0usize..1 << 20) {
            let part = part(first, len, size);
            prop_assert!(part.start <= part.end && part.end <= size);
        }
    }

    #[test]
    fn bounds_are_exact() {
        assert_eq!(confine(1023, 1024), 1023);
        assert_eq!(confine(1024, 1024), 0);
        assert_eq!(confine(usize::MAX, 1024), 0);
        assert_eq!(confine(0, 1), 0);
        assert_eq!(part(1000, 24, 1024), 1000..1024);
        assert_eq!(part(1024, 0, 1024), 1024..1024);
        assert_eq!(part(1000, 25, 1024), 1000..1000);
    }
}
