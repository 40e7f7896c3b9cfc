// SPDX-License-Identifier: GPL-2.0-only

//! A seeded series of file operations, executed in a guest and replayed on
//! bytes outside.
//!
//! A [`Plan`] stands for a [`Script`] of [`Step`]s, the same wherever it is
//! made. The guest does them on a filesystem and reports what its reads saw
//! ([`Seen`]); a [`Replay`] does them on a [`Model`] and says which pages were
//! not what they should have been.

mod bytes;
mod lengths;
mod model;
mod replay;
mod script;
mod seen;
mod step;

use serde::{Deserialize, Serialize};

pub use bytes::{Dice, fill};
pub use model::Model;
pub use replay::{Replay, Wrong};
pub use script::Script;
pub use seen::{Seen, digests};
pub use step::{By, Seek, Shift, Step};

/// Bytes of a page, in which reads are judged.
pub const PAGE: usize = 4096;

/// Everything a script follows from.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Plan {
    /// Equal seeds mean equal steps.
    pub seed: u64,
    /// Steps before the final reads.
    pub steps: u32,
    /// Files there can be; each step is about one or two of them.
    pub files: u32,
    /// Longest file in bytes.
    pub longest: u64,
    /// Bytes of a block of the filesystem.
    pub block: u64,
    /// Whether `debugfs` may change the unmounted filesystem (ext4).
    pub offline: bool,
}

#[cfg(test)]
mod tests;
