// SPDX-License-Identifier: GPL-2.0

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
    secret: u64,
}

impl Hasher {
    /// A hasher with a secret, random number.
    pub const fn new(secret: u64) -> Self {
        Self { secret }
    }

    /// The hash of a file: what the hashes of its blocks are made of.
    pub const fn file(&self, file: &FileKey) -> u64 {
        let low = file.filesystem as u64 | (file.generation as u64) << 32;
        mix(mix(file.inode ^ self.secret) ^ low)
    }
}

/// The hash of a group of two blocks, from the hash of its file: its upper half chooses the shard,
/// its lower half the bucket.
pub(super) const fn group_hash(file: u64, block: u32) -> u64 {
    mix(file.wrapping_add((block >> (GROUP_BITS - BLOCK_BITS)) as u64))
}

/// The hash of a block inside its shard, from the hash of its group.
pub(super) const fn in_group(group: u64, block: u32) -> u32 {
    group as u32 ^ ((block & 1) * ODD)
}

/// The hash of a block inside its shard, from the hash of its file.
pub(super) const fn block_hash(file: u64, block: u32) -> u32 {
    in_group(group_hash(file, block), block)
}

const _: () = assert!(GROUP_BITS == BLOCK_BITS + 1);
