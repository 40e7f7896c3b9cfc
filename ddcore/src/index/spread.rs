// SPDX-License-Identifier: GPL-2.0-only

//! Linear hashing: the buckets of a hash table that grows by splitting one bucket and shrinks by
//! joining two, so that no operation rehashes more than a bucket.

/// The buckets among which hashes are spread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    buckets: u32,
    /// The power of two that is at least `buckets`, minus one.
    mask: u32,
}

impl Spread {
    /// Creates the state for a number of buckets.
    pub(super) const fn new(buckets: u32) -> Self {
        Self {
            buckets,
            mask: buckets.next_power_of_two() - 1,
        }
    }

    /// Returns the number of buckets.
    #[inline]
    pub(super) const fn buckets(&self) -> u32 {
        self.buckets
    }

    /// Returns the bucket of a hash.
    #[inline]
    pub(super) const fn bucket(&self, hash: u32) -> u32 {
        let bucket = hash & self.mask;
        if bucket < self.buckets {
            bucket
        } else {
            bucket & self.mask >> 1
        }
    }

    /// Returns the bucket that was split when the last one was added. There must be at least two.
    pub(super) const fn parent(&self) -> u32 {
        (self.buckets - 1) & self.mask >> 1
    }

    /// Returns the hash with which a walk continues after the bucket of `hash`, or 0 if it has
    /// visited all buckets.
    ///
    /// The walk counts with the bits of a hash in reverse order, and thus visits the two halves of
    /// a bucket in succession. If a bucket is split or joined between two steps, each hash in it
    /// was visited before, or is visited later, possibly again; none is left out.
    pub(super) const fn after(&self, hash: u32) -> u32 {
        let mask = if hash & self.mask < self.buckets {
            self.mask
        } else {
            self.mask >> 1
        };
        (hash | !mask).reverse_bits().wrapping_add(1).reverse_bits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitting_moves_hashes_only_between_parent_and_child() {
        for count in 1u32..200 {
            let (spread, next) = (Spread::new(count), Spread::new(count + 1));
            for hash in 0u32..5000 {
                let (before, after) = (spread.bucket(hash), next.bucket(hash));
                assert!(before < count && after <= count);
                assert!(before == after || (before == next.parent() && after == count));
            }
        }
    }

    /// However the number of buckets changes during a walk, the walk visits a bucket of each hash.
    #[test]
    fn a_walk_visits_each_hash() {
        for first in 1u32..40 {
            for step in -3i32..=3 {
                let mut missing: Vec<u32> = (0..1024).collect();
                let (mut at, mut count) = (0, first);
                loop {
                    let spread = Spread::new(count);
                    let bucket = spread.bucket(at);
                    missing.retain(|hash| spread.bucket(*hash) != bucket);
                    at = spread.after(at);
                    if at == 0 {
                        break;
                    }
                    count = count.saturating_add_signed(step).clamp(1, 300);
                }
                assert_eq!(missing, [0u32; 0], "from {first} by {step}");
            }
        }
    }
}
