// SPDX-License-Identifier: GPL-2.0-only

//! Hashes of keys, which select the shard and the bucket.

use ddabi::key::{mix, FileKey};

/// Pages of a file whose indices differ only in these low bits share a shard, so that a run of
/// pages needs few locks.
pub const GROUP_BITS: u32 = 5;

/// Pages whose indices differ only in these low bits belong to the same block.
pub const BLOCK_BITS: u32 = 4;

/// Distinguishes the odd block of a group from the even one. Any number with well mixed bits will
/// do.
const ODD: u32 = 0x9e37_79b9;

/// Distinguishes the groups of a file. Any odd number with well mixed bits will do.
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashes keys with a secret, so that a guest cannot choose colliding keys.
#[derive(Clone, Copy, Debug)]
pub struct Hasher {
    inode: u64,
    rest: u64,
    group: u64,
}

impl Hasher {
    /// Creates a hasher with a secret, random number.
    pub const fn new(secret: u64) -> Self {
        let inode = mix(secret ^ 0x9e37_79b9_7f4a_7c15);
        let rest = mix(inode ^ secret);
        Self {
            inode,
            rest,
            group: mix(rest ^ secret) | 1,
        }
    }

    /// Returns the hash of a file, from which the hashes of its blocks are computed.
    #[inline]
    pub const fn file(&self, file: &FileKey) -> u64 {
        let rest = file.filesystem as u64 | (file.generation as u64) << 32;
        fold(file.inode ^ self.inode, rest ^ self.rest)
    }

    /// Returns the hash of a group of two blocks, from the hash of its file. The upper half selects
    /// the shard, the lower half the bucket.
    #[inline]
    pub(super) const fn group(&self, file: u64, block: u32) -> u64 {
        let group = (block >> (GROUP_BITS - BLOCK_BITS)) as u64;
        // Without the multiplication the hashes of consecutive groups would be an arithmetic
        // progression, which with some secrets misses many buckets.
        fold(file ^ group.wrapping_mul(SCATTER), self.group)
    }

    /// Returns the hash of a block inside its shard, from the hash of its file.
    #[inline]
    pub(super) const fn block(&self, file: u64, block: u32) -> u32 {
        in_group(self.group(file, block), block)
    }
}

/// Multiplies two numbers and folds the product. An attacker who does not know one of the factors
/// cannot find values of the other one that collide.
#[inline]
const fn fold(one: u64, other: u64) -> u64 {
    let product = one as u128 * other as u128;
    // The middle bits are mixed best. They become the lower bits of the result.
    (product as u64 ^ (product >> 64) as u64).rotate_left(32)
}

/// Returns the hash of a block inside its shard, from the hash of its group.
#[inline]
pub(super) const fn in_group(group: u64, block: u32) -> u32 {
    group as u32 ^ ((block & 1) * ODD)
}

const _: () = assert!(GROUP_BITS == BLOCK_BITS + 1);
