// SPDX-License-Identifier: GPL-2.0-only

//! Operations on files.

use serde::{Deserialize, Serialize};

/// The way in which bytes are read or written.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum By {
    /// Through the page cache.
    Calls,
    /// Through a shared mapping.
    Mapping,
    /// Past the page cache.
    Direct,
}

/// The order in which a file is read.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Seek {
    /// From start to end, with the kernel's readahead.
    Forward,
    /// Page by page from the end, without readahead.
    Backward,
}

/// A change of a range of a file without a write.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Shift {
    /// The range becomes a hole.
    Punch,
    /// The range becomes zeros.
    Zero,
    /// The range is removed, and the rest moves down.
    Collapse,
    /// A hole is inserted, and the rest moves up.
    Insert,
}

/// One step. Files are identified by numbers.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Step {
    /// Make a new file in place of the existing one.
    Create {
        /// The file.
        file: u32,
        /// Its length.
        len: u64,
        /// Seed of its content.
        seed: u64,
    },
    /// Write a range, possibly beyond the end.
    Write {
        /// The file.
        file: u32,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// Seed of the content.
        seed: u64,
        /// Way of writing. Direct writes are multiples of 512; mapped ones end inside.
        by: By,
        /// Whether the data is synced.
        sync: bool,
    },
    /// Change the length.
    Truncate {
        /// The file.
        file: u32,
        /// The new length.
        len: u64,
    },
    /// Change a range without writing.
    Alter {
        /// The file.
        file: u32,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// The change.
        shift: Shift,
    },
    /// Copy a range to the same place of another file; filesystems that can
    /// share blocks do.
    Copy {
        /// The source.
        from: u32,
        /// The destination.
        to: u32,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// Rename a file over another one.
    Rename {
        /// The file.
        from: u32,
        /// The new name, whose former file is deleted.
        to: u32,
    },
    /// Swap names.
    Exchange {
        /// One file.
        one: u32,
        /// The other.
        other: u32,
    },
    /// Delete; the next file can get the inode.
    Unlink {
        /// The file.
        file: u32,
    },
    /// Write and read a file that has no name.
    Orphan {
        /// Its length.
        len: u64,
        /// Seed of its content.
        seed: u64,
    },
    /// Read the whole file and report the result.
    Read {
        /// The file.
        file: u32,
        /// Way of reading.
        by: By,
        /// Order of reading.
        seek: Seek,
    },
    /// Drop the file from the page cache.
    Forget {
        /// The file.
        file: u32,
    },
    /// Write 1, 2 or 3 to `drop_caches`.
    DropCaches {
        /// Bits of `drop_caches`: pages, inodes, or both.
        what: u8,
    },
    /// Sync all files.
    Sync,
    /// Unmount and mount again; a block may be overwritten in between.
    Remount {
        /// The file, the block in it, and the byte with which it is filled. The block has been
        /// written before.
        touched: Option<(u32, u64, u8)>,
    },
}

impl Step {
    /// Returns the files whose content may differ afterwards.
    #[must_use]
    pub fn changed(&self) -> [Option<u32>; 2] {
        match *self {
            Self::Create { file, .. }
            | Self::Write { file, .. }
            | Self::Truncate { file, .. }
            | Self::Alter { file, .. }
            | Self::Unlink { file }
            | Self::Copy { to: file, .. }
            | Self::Remount {
                touched: Some((file, ..)),
            } => [Some(file), None],
            Self::Rename {
                from: one,
                to: other,
            }
            | Self::Exchange { one, other } => [Some(one), Some(other)],
            Self::Orphan { .. }
            | Self::Read { .. }
            | Self::Forget { .. }
            | Self::DropCaches { .. }
            | Self::Sync
            | Self::Remount { touched: None } => [None, None],
        }
    }
}
