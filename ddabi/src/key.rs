// SPDX-License-Identifier: GPL-2.0-only

//! Keys of files and pages.

use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Identity of a file inside one VM during one session.
///
/// It does not contain the pool, so that readers of all containers find the page.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    Eq,
    FromBytes,
    Hash,
    Immutable,
    IntoBytes,
    KnownLayout,
    Ord,
    PartialEq,
    PartialOrd,
)]
#[repr(C)]
pub struct FileKey {
    /// Inode number.
    pub inode: u64,
    /// Mount instance of the filesystem, chosen by the guest and never reused in a session.
    pub filesystem: u32,
    /// Inode generation, which guards against reuse of the inode number. It is not relied on alone,
    /// because the owner of a file can set it on some filesystems.
    pub generation: u32,
}

impl FileKey {
    /// Returns a hash of the file: a 64-bit finaliser over both words of the key.
    pub const fn hash(&self) -> u64 {
        let low = self.filesystem as u64 | (self.generation as u64) << 32;
        mix(mix(self.inode ^ 0x9e37_79b9_7f4a_7c15).wrapping_add(low))
    }

    /// Returns the inode without its generation, for keyed hashes in maps that contain pages of
    /// only one generation at a time.
    pub const fn inode_words(&self) -> [u64; 2] {
        [self.inode, self.filesystem as u64]
    }

    /// Returns whether both keys are of the same inode, possibly with different generations.
    pub const fn same_inode(&self, other: &Self) -> bool {
        self.inode == other.inode && self.filesystem == other.filesystem
    }
}

/// Mixes all bits of `word` into all bits of the result. The function is a bijection.
pub const fn mix(word: u64) -> u64 {
    let mut x = word;
    x ^= x >> 32;
    x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^= x >> 32;
    x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 32)
}

/// One page of a file.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    Eq,
    FromBytes,
    Hash,
    Immutable,
    IntoBytes,
    KnownLayout,
    Ord,
    PartialEq,
    PartialOrd,
)]
#[repr(C)]
pub struct PageKey {
    /// The file.
    pub file: FileKey,
    /// Page index inside the file, in units of [`crate::PAGE_SIZE`].
    pub index: u64,
}

/// The largest page index of a key, which allows files of 2^52 bytes.
pub const MAX_INDEX: u64 = (1 << 40) - 1;

const _: () = assert!(size_of::<FileKey>() == 16);
const _: () = assert!(size_of::<PageKey>() == 24);
