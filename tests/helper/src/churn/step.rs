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
    /// A new file in place of what was there.
    Create {
        /// The file.
        file: u32,
        /// Its length.
        len: u64,
        /// Seed of its content.
        seed: u64,
    },
    /// Write a range, maybe beyond the end.
    Write {
        /// The file.
        file: u32,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// Seed of the content.
        seed: u64,
        /// How. Direct writes are multiples of 512; mapped ones end inside.
        by: By,
        /// Whether it is forced to disk.
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
        /// What becomes of it.
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
    /// Take another file's name.
    Rename {
        /// The file.
        from: u32,
        /// The name; what had it is gone.
        to: u32,
    },
    /// Swap names.
    Exchange {
        /// One file.
        one: u32,
        /// The other.
        other: u32,
    },
    /// Delete; the inode is free for the next file.
    Unlink {
        /// The file.
        file: u32,
    },
    /// Write and read a file that has no name any more.
    Orphan {
        /// Its length.
        len: u64,
        /// Seed of its content.
        seed: u64,
    },
    /// Read the whole file and report what was seen.
    Read {
        /// The file.
        file: u32,
        /// How.
        by: By,
        /// In which order.
        seek: Seek,
    },
    /// Let the page cache forget the file.
    Forget {
        /// The file.
        file: u32,
    },
    /// Write 1, 2 or 3 to `drop_caches`.
    DropCaches {
        /// What to drop: pages, inodes, both.
        what: u8,
    },
    /// Write out everything.
    Sync,
    /// Unmount and mount again; a block may be overwritten in between.
    Remount {
        /// The file, the block in it, and the byte it is filled with. The
        /// block has been written before.
        touched: Option<(u32, u64, u8)>,
    },
}

impl Step {
    /// The files whose content may be another one afterwards.
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
