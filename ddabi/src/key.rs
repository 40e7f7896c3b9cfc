// SPDX-License-Identifier: GPL-2.0

//! How a page of a file is named.

use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Identity of a file inside one VM, for as long as one session lasts.
///
/// It does not contain the pool: an object is found whichever container reads it.
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
    /// Inode generation: guards against reuse of the inode number. The owner of a file may set it
    /// on some filesystems, so that it alone decides nothing.
    pub generation: u32,
}

impl FileKey {
    /// A well mixed hash of the file (a 64-bit finaliser over both words).
    pub const fn hash(&self) -> u64 {
        let low = self.filesystem as u64 | (self.generation as u64) << 32;
        mix(mix(self.inode ^ 0x9e37_79b9_7f4a_7c15).wrapping_add(low))
    }

    /// A hash that is the same for all generations of an inode, for maps that keep the pages of
    /// one generation at a time.
    pub const fn inode_hash(&self) -> u64 {
        Self {
            generation: 0,
            ..*self
        }
        .hash()
    }

    /// Whether both name the same inode, if of different generations.
    pub const fn same_inode(&self, other: &Self) -> bool {
        self.inode == other.inode && self.filesystem == other.filesystem
    }
}

/// Mixes all bits of `word` into all bits of the result; a bijection.
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

/// Largest page index a key may have: files up to 2^52 pages' worth of bytes do not exist.
pub const MAX_INDEX: u64 = (1 << 40) - 1;

const _: () = assert!(size_of::<FileKey>() == 16);
const _: () = assert!(size_of::<PageKey>() == 24);
