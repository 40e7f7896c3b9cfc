// SPDX-License-Identifier: GPL-2.0-only

//! A seeded series of file operations, which is executed in a guest and replayed on bytes outside
//! of it.
//!
//! A [`Plan`] determines a [`Script`] of [`Step`]s, which is the same wherever it is made. The
//! guest executes the steps on a filesystem and reports the results of its reads ([`ReadResult`]).
//! A [`Replay`] executes them on a [`Model`] and reports the pages that were wrong.

mod bytes;
mod lengths;
mod model;
mod read_result;
mod replay;
mod script;
mod step;

use serde::{Deserialize, Serialize};

pub use bytes::{Random, fill};
pub use model::Model;
pub use read_result::{ReadResult, digests};
pub use replay::{Replay, WrongPage};
pub use script::Script;
pub use step::{By, Seek, Shift, Step};

/// Size of a page, the unit in which reads are judged.
pub const PAGE: usize = 4096;

/// The parameters of a script.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Plan {
    /// Seed. Equal seeds give equal steps.
    pub seed: u64,
    /// Number of steps before the final reads.
    pub steps: u32,
    /// Maximum number of files. Each step uses one or two of them.
    pub files: u32,
    /// Maximum size of a file in bytes.
    pub longest: u64,
    /// Bytes of a block of the filesystem.
    pub block: u64,
    /// Whether steps may change the unmounted filesystem with `debugfs` (ext4).
    pub offline: bool,
}

#[cfg(test)]
mod tests;
