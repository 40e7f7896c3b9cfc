// SPDX-License-Identifier: GPL-2.0

//! Where a key belongs.

use ddabi::key::{mix, FileKey, PageKey};

/// Pages of a file whose indices differ only in these low bits share a shard, so that a run of
/// pages needs few locks.
pub const GROUP_BITS: u32 = 5;

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

    /// The shard of a page among `1 << bits`.
    pub const fn shard(&self, key: &PageKey, bits: u32) -> usize {
        let group = mix(key.index >> GROUP_BITS ^ !self.secret);
        let hash = mix(self.full(&key.file) ^ group);
        (hash >> 32) as usize & ((1 << bits) - 1)
    }

    /// The hash of a page inside its shard.
    pub(super) const fn page(&self, key: &PageKey) -> u32 {
        mix(self.full(&key.file).wrapping_add(key.index)) as u32
    }

    /// The hash of a file inside a shard.
    pub(super) const fn file(&self, file: &FileKey) -> u32 {
        self.full(file) as u32
    }

    const fn full(&self, file: &FileKey) -> u64 {
        let low = file.filesystem as u64 | (file.generation as u64) << 32;
        mix(mix(file.inode ^ self.secret) ^ low)
    }
}
