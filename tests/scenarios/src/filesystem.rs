// SPDX-License-Identifier: GPL-2.0-only

//! Filesystems that scenarios use.

use anyhow::Result;
use ddlab::Guest;

/// A filesystem. Its disk and mount point have its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filesystem {
    pub(crate) name: &'static str,
    pub(crate) fstype: &'static str,
    /// Bytes of a block.
    pub(crate) block: u64,
    /// The command that makes it; the device is the last argument.
    pub(crate) make: &'static str,
}

pub(crate) const EXT4: Filesystem = Filesystem {
    name: "ext4",
    fstype: "ext4",
    block: 4096,
    make: "mke2fs -q -t ext4 -b 4096",
};
pub(crate) const EXT4_1K: Filesystem = Filesystem {
    name: "ext4-1k",
    fstype: "ext4",
    block: 1024,
    make: "mke2fs -q -t ext4 -b 1024",
};
pub(crate) const XFS: Filesystem = Filesystem {
    name: "xfs",
    fstype: "xfs",
    block: 4096,
    make: "mkfs.xfs -q",
};
pub(crate) const XFS_1K: Filesystem = Filesystem {
    name: "xfs-1k",
    block: 1024,
    make: "mkfs.xfs -q -b size=1k",
    ..XFS
};

impl Filesystem {
    /// Returns its mount point.
    pub(crate) fn path(&self) -> String {
        format!("/{}", self.name)
    }

    /// Makes it on a device.
    pub(crate) fn format(&self, guest: &Guest, device: &str) -> Result<()> {
        let argv = self.make.split(' ').chain([device]);
        guest.exec_ok(argv).map(drop)
    }
}
