// SPDX-License-Identifier: GPL-2.0-only

//! A file as a disk: a loop device with direct I/O to it.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::fs::OFlags;

use crate::files::open;

/// A loop device above a file. It is removed when the value is dropped.
#[derive(Debug)]
pub(super) struct Loop(PathBuf);

impl Loop {
    /// Attaches a loop device to a file. Returns `None` if the file does not support direct I/O,
    /// for which the kernel would use buffered I/O.
    pub(super) fn direct(path: &Path) -> io::Result<Option<Self>> {
        let arguments = ["--find", "--show", "--direct-io=on"];
        let shown = Command::new("losetup").args(arguments).arg(path).output()?;
        if !shown.status.success() {
            let why = String::from_utf8_lossy(&shown.stderr).into_owned();
            return Err(io::Error::other(why));
        }
        let shown = Self(String::from_utf8_lossy(&shown.stdout).trim().into());
        Ok(shown.is_direct()?.then_some(shown))
    }

    fn is_direct(&self) -> io::Result<bool> {
        let name = self.0.file_name().unwrap_or_default();
        let setting = Path::new("/sys/block").join(name).join("loop/dio");
        Ok(fs::read_to_string(setting)?.trim() == "1")
    }

    /// Opens the disk for direct I/O.
    pub(super) fn open(&self) -> io::Result<File> {
        open(&self.0, OFlags::RDWR | OFlags::DIRECT)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // A device that remains keeps the filesystem from being unmounted, which is noticed.
        let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}
