// SPDX-License-Identifier: GPL-2.0-only

//! Reads of files by the agent.

use ddagent::protocol::{Read, ReadMode};

/// One read of a file by the agent.
#[derive(Clone, Debug)]
pub struct ReadSpec(pub(crate) Read);

impl ReadSpec {
    /// Returns a read of the whole file through the page cache in blocks of 1 MiB, with digest.
    pub fn new(path: impl Into<String>) -> Self {
        Self(Read {
            path: path.into(),
            offset: 0,
            len: None,
            block: 1 << 20,
            how: ReadMode::Buffered,
            digest: true,
            cgroup: None,
        })
    }

    /// Restricts the read to `len` bytes from `offset`.
    #[must_use]
    pub fn range(mut self, offset: u64, len: u64) -> Self {
        self.0.offset = offset;
        self.0.len = Some(len);
        self
    }

    /// Sets the size of each read, a multiple of 4096 for [`ReadMode::Direct`].
    #[must_use]
    pub fn block(mut self, bytes: usize) -> Self {
        self.0.block = bytes;
        self
    }

    /// Sets the way of reading.
    #[must_use]
    pub fn how(mut self, how: ReadMode) -> Self {
        self.0.how = how;
        self
    }

    /// Leaves the digest out, for reads whose time or traffic is measured.
    #[must_use]
    pub fn no_digest(mut self) -> Self {
        self.0.digest = false;
        self
    }

    /// Reads as a process of a cgroup, which is charged for the pages.
    #[must_use]
    pub fn cgroup(mut self, path: impl Into<String>) -> Self {
        self.0.cgroup = Some(path.into());
        self
    }
}
