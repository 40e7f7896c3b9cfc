// SPDX-License-Identifier: GPL-2.0-only

//! A file that the kernel swaps to.

use std::{
    ffi::CString,
    io,
    os::unix::{ffi::OsStrExt as _, fs::FileExt as _},
    path::Path,
    process::Command,
};

use memmap2::MmapMut;
use rustix::fs::OFlags;

use crate::files::{Aligned, open};

/// A swap file in use, which is given up when the value is dropped.
#[derive(Debug)]
pub(crate) struct SwapFile(CString);

impl SwapFile {
    /// Begins to use a file, which must have a [signature](sign) and no holes.
    pub(crate) fn start(path: &Path) -> io::Result<Self> {
        let file = Self(CString::new(path.as_os_str().as_bytes())?);
        // SAFETY: the name ends in a zero byte.
        succeeded(unsafe { libc::swapon(file.0.as_ptr(), 0) })?;
        Ok(file)
    }

    /// Gives it up. The kernel reads all that it swapped out.
    pub(crate) fn end(self) -> io::Result<()> {
        let ended = self.off();
        std::mem::forget(self);
        ended
    }

    fn off(&self) -> io::Result<()> {
        // SAFETY: the name ends in a zero byte.
        succeeded(unsafe { libc::swapoff(self.0.as_ptr()) })
    }
}

impl Drop for SwapFile {
    fn drop(&mut self) {
        // A file that remains keeps the filesystem from being unmounted, which is noticed.
        let _ = self.off();
    }
}

/// Writes the signature of a swap file, by which the kernel knows it.
pub(crate) fn sign(path: &Path) -> io::Result<()> {
    let made = Command::new("mkswap").arg(path).output()?;
    match made.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("mkswap: {made:?}"))),
    }
}

/// Makes the kernel swap out memory with this content.
pub(crate) fn push_out(content: &[u8]) -> io::Result<()> {
    let mut memory = MmapMut::map_anon(content.len())?;
    memory.copy_from_slice(content);
    let (start, len) = (memory.as_mut_ptr().cast(), content.len());
    // SAFETY: the memory is a mapping of its own.
    succeeded(unsafe { libc::madvise(start, len, libc::MADV_PAGEOUT) })
}

/// Returns the content of a file on the disk.
pub(crate) fn on_disk(path: &Path) -> io::Result<Vec<u8>> {
    let file = open(path, OFlags::RDONLY | OFlags::DIRECT)?;
    let mut room = Aligned::new();
    let mut bytes = Vec::new();
    loop {
        match file.read_at(room.buffer(), bytes.len() as u64)? {
            0 => return Ok(bytes),
            got => bytes.extend_from_slice(&room.buffer()[..got]),
        }
    }
}

fn succeeded(result: i32) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
