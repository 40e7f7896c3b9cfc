// SPDX-License-Identifier: GPL-2.0-only

//! Where a key belongs.

use ddabi::key::{mix, FileKey};

/// Pages of a file whose indices differ only in these low bits share a shard, so that a run of
/// pages needs few locks.
pub const GROUP_BITS: u32 = 5;

/// Pages whose indices differ only in these low bits make a block.
pub const BLOCK_BITS: u32 = 4;

/// Sets the odd block of a group apart from the even one: any number with well mixed bits.
const ODD: u32 = 0x9e37_79b9;

/// Hashes keys with a secret, so that a guest cannot choose keys that collide.
#[derive(Clone, Copy, Debug)]
pub struct Hasher {
    inode: u64,
    rest: u64,
    group: u64,
}

impl Hasher {
    /// A hasher with a secret, random number.
    pub const fn new(secret: u64) -> Self {
        let inode = mix(secret ^ 0x9e37_79b9_7f4a_7c15);
        let rest = mix(inode ^ secret);
        Self {
            inode,
            rest,
            // Odd, so that no two groups of a file are alike.
            group: mix(rest ^ secret) | 1,
        }
    }

    /// The hash of a file: what the hashes of its blocks are made of.
    #[inline]
    pub const fn file(&self, file: &FileKey) -> u64 {
        let rest = file.filesystem as u64 | (file.generation as u64) << 32;
        fold(file.inode ^ self.inode, rest ^ self.rest)
    }

    /// The hash of a group of two blocks, from the hash of its file: its upper half chooses the
    /// shard, its lower half the bucket.
    #[inline]
    pub(super) const fn group(&self, file: u64, block: u32) -> u64 {
        let group = (block >> (GROUP_BITS - BLOCK_BITS)) as u64;
        fold(file.wrapping_add(group), self.group)
    }

    /// The hash of a block inside its shard, from the hash of its file.
    #[inline]
    pub(super) const fn block(&self, file: u64, block: u32) -> u32 {
        in_group(self.group(file, block), block)
    }
}

/// One multiplication, of which all bits count. Without one of the factors it cannot be
/// told what collides.
#[inline]
const fn fold(one: u64, other: u64) -> u64 {
    let product = one as u128 * other as u128;
    // The upper bits of the lower half are mixed best: they become the lower bits.
    (product as u64 ^ (product >> 64) as u64).rotate_left(32)
}

/// The hash of a block inside its shard, from the hash of its group.
#[inline]
pub(super) const fn in_group(group: u64, block: u32) -> u32 {
    group as u32 ^ ((block & 1) * ODD)
}

const _: () = assert!(GROUP_BITS == BLOCK_BITS + 1);
