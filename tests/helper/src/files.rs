// SPDX-License-Identifier: GPL-2.0-only

//! Execution of steps on files by system calls.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Result, ensure};
use ddhelper::churn::{By, PAGE, Seek, Shift, fill};
use memmap2::{Mmap, MmapOptions};
use rustix::fs::{
    Advice, CWD, FallocateFlags, Mode, OFlags, RenameFlags, copy_file_range, fadvise, fallocate,
    renameat_with,
};
use rustix::io::retry_on_intr;

/// Number of bytes read or written at a time.
const BLOCK: usize = 128 << 10;

/// The files of a churn, with numbers as names, in a directory.
#[derive(Debug)]
pub(crate) struct Tree(pub(crate) PathBuf);

impl Tree {
    /// Returns the path of a file.
    pub(crate) fn path(&self, file: u32) -> PathBuf {
        self.0.join(file.to_string())
    }

    pub(crate) fn create(&self, file: u32, len: u64, seed: u64) -> Result<()> {
        let new = File::create(self.path(file))?;
        write_at(&new, 0, len, seed)
    }

    pub(crate) fn write(
        &self,
        file: u32,
        offset: u64,
        len: u64,
        seed: u64,
        by: By,
    ) -> Result<File> {
        let file = open_by(&self.path(file), by)?;
        if by == By::Mapping {
            let size = usize::try_from(len)?;
            // SAFETY: no other task writes to the file or cuts it short.
            let mut map = unsafe { MmapOptions::new().offset(offset).len(size).map_mut(&file)? };
            fill(seed, offset, &mut map);
        } else {
            write_at(&file, offset, len, seed)?;
        }
        Ok(file)
    }

    pub(crate) fn truncate(&self, file: u32, len: u64) -> Result<()> {
        Ok(open_by(&self.path(file), By::Calls)?.set_len(len)?)
    }

    pub(crate) fn alter(&self, file: u32, offset: u64, len: u64, shift: Shift) -> Result<()> {
        let flags = match shift {
            Shift::Punch => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            Shift::Zero => FallocateFlags::ZERO_RANGE,
            Shift::Collapse => FallocateFlags::COLLAPSE_RANGE,
            Shift::Insert => FallocateFlags::INSERT_RANGE,
        };
        Ok(fallocate(
            open_by(&self.path(file), By::Calls)?,
            flags,
            offset,
            len,
        )?)
    }

    pub(crate) fn copy(&self, from: u32, to: u32, offset: u64, len: u64) -> Result<()> {
        let from = File::open(self.path(from))?;
        let to = open_by(&self.path(to), By::Calls)?;
        let (mut read, mut write) = (offset, offset);
        while write < offset + len {
            let left = usize::try_from(offset + len - write)?;
            let copied = copy_file_range(&from, Some(&mut read), &to, Some(&mut write), left)?;
            ensure!(copied > 0, "the source ends at {read}");
        }
        Ok(())
    }

    pub(crate) fn rename(&self, from: u32, to: u32, flags: RenameFlags) -> Result<()> {
        Ok(renameat_with(
            CWD,
            self.path(from),
            CWD,
            self.path(to),
            flags,
        )?)
    }

    pub(crate) fn unlink(&self, file: u32) -> Result<()> {
        Ok(fs::remove_file(self.path(file))?)
    }

    pub(crate) fn forget(&self, file: u32) -> Result<()> {
        forget(&File::open(self.path(file))?)
    }

    /// Returns the content of a file, or `None` if it does not exist.
    pub(crate) fn read(&self, file: u32, by: By, seek: Seek) -> Result<Option<Vec<u8>>> {
        match open_by(&self.path(file), by) {
            Ok(file) => content(&file, by, seek).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes to an open file after it was deleted, drops its pages, and returns the content that
    /// is read afterwards.
    pub(crate) fn orphan(&self, len: u64, seed: u64) -> Result<Vec<u8>> {
        let path = self.0.join("orphan");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)?;
        fs::remove_file(&path)?;
        write_at(&file, 0, len, seed)?;
        forget(&file)?;
        content(&file, By::Calls, Seek::Forward)
    }
}

/// Opens an existing file. `flags` are those of open(2), the access mode included.
pub(crate) fn open(path: impl AsRef<Path>, flags: OFlags) -> io::Result<File> {
    let (path, flags) = (path.as_ref(), flags | OFlags::CLOEXEC);
    Ok(retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))?.into())
}

fn open_by(path: &Path, by: By) -> io::Result<File> {
    let flags = match by {
        By::Direct => OFlags::RDWR | OFlags::DIRECT,
        By::Calls | By::Mapping => OFlags::RDWR,
    };
    open(path, flags)
}

/// Syncs dirty pages, so that they can be dropped.
fn forget(file: &File) -> Result<()> {
    file.sync_data()?;
    Ok(fadvise(file, 0, None, Advice::DontNeed)?)
}

fn write_at(file: &File, offset: u64, len: u64, seed: u64) -> Result<()> {
    let mut room = Aligned::new();
    let mut at = offset;
    while at < offset + len {
        let end = BLOCK.min(usize::try_from(offset + len - at)?);
        let part = &mut room.buffer()[..end];
        fill(seed, at, part);
        file.write_all_at(part, at)?;
        at += part.len() as u64;
    }
    Ok(())
}

fn content(file: &File, by: By, seek: Seek) -> Result<Vec<u8>> {
    let len = usize::try_from(file.metadata()?.len())?;
    let mut content = vec![0; len];
    match (by, seek) {
        (By::Mapping, _) if len > 0 => {
            // SAFETY: no other task writes to the file or cuts it short.
            content.copy_from_slice(&unsafe { Mmap::map(file)? });
        }
        (_, Seek::Backward) => {
            for (page, part) in content.chunks_mut(PAGE).enumerate().rev() {
                file.read_exact_at(part, (page * PAGE) as u64)?;
            }
        }
        (_, Seek::Forward) => {
            let mut room = Aligned::new();
            let mut at = 0;
            while at < len {
                let got = file.read_at(room.buffer(), at as u64)?;
                let end = at + got;
                ensure!(got > 0 && end <= len, "read {got} bytes at {at} of {len}");
                content[at..end].copy_from_slice(&room.buffer()[..got]);
                at = end;
            }
        }
    }
    Ok(content)
}

/// A block with the alignment that direct I/O needs.
pub(crate) struct Aligned(Vec<u8>);

impl Aligned {
    pub(crate) fn new() -> Self {
        Self(vec![0; BLOCK + PAGE])
    }

    pub(crate) fn buffer(&mut self) -> &mut [u8] {
        let start = self.0.as_ptr().align_offset(PAGE);
        &mut self.0[start..start + BLOCK]
    }
}
