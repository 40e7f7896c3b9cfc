// SPDX-License-Identifier: GPL-2.0-only

//! Ways to change files.

use std::{
    fs::{self, File},
    io::{self, IoSlice, Write as _},
    os::unix::fs::FileExt as _,
    path::Path,
};

use anyhow::{Context as _, Result};
use ddhelper::churn::fill;
use memmap2::MmapOptions;
use rustix::{
    fs::{
        Advice, AtFlags, CWD, FallocateFlags, Mode, OFlags, RenameFlags, copy_file_range, fadvise,
        fallocate, ioctl_ficlone, linkat, openat, renameat_with,
    },
    io::{Errno, pwritev},
    pipe::{SpliceFlags, pipe, splice},
};

use super::{
    MAX_LEN, Model,
    model::{Alone, two},
    reader::{self, PIPE, SECTOR, Way},
    worker::Worker,
};
use crate::files::{Aligned, open};

impl Worker<'_> {
    /// Changes a file in some way, and possibly another one.
    pub(super) fn change(&mut self, file: usize, models: &mut [Model]) -> Result<()> {
        let path = self.path(file);
        if self.arguments.special && self.rng.chance(45) {
            return self.special(file, models);
        }
        let mut kind = self.rng.below(100);
        if kind >= 80 {
            return self.change_two(file, models);
        }
        let mut model = models[file].own()?;
        if model.content().is_none() {
            return self.create(&path, &mut model);
        }
        if model.is_sealed() {
            // The file can be deleted, renamed and dropped from the cache. Most are deleted, or all
            // files would end in this state.
            kind = self.rng.within(60, 79).max(66);
        }
        let (what, done) = match kind {
            0..40 => ("write", self.write(&path, &mut model)),
            40..48 => ("truncate", self.truncate(&path, &mut model)),
            48..66 => ("fallocate", self.allocate(&path, &mut model)),
            66..69 => ("replace", self.replace(&path, &mut model)),
            69..72 => ("relink", relink(&path)),
            72..76 => ("forget", forget(&path)),
            _ => {
                let done = File::open(&path).and_then(|file| sync(&file));
                ("sync", done)
            }
        };
        self.count(done, what, &path)
    }

    /// Returns another file.
    pub(super) fn another(&mut self, one: usize, count: usize) -> usize {
        (one + 1 + self.rng.below(count as u64 - 1) as usize) % count
    }

    /// Counts a change. A change that the filesystem does not offer had no effect.
    fn count(&mut self, done: io::Result<()>, what: &str, path: &Path) -> Result<()> {
        match done {
            Ok(()) => self.tally.changes += 1,
            Err(error) if Errno::from_io_error(&error) == Some(Errno::OPNOTSUPP) => {
                self.tally.refused += 1;
            }
            Err(error) => {
                return Err(error).with_context(|| format!("{what} of {}", path.display()));
            }
        }
        Ok(())
    }

    /// Fills the model of a range with new content, and returns it.
    pub(super) fn invent<'a>(
        &mut self,
        model: &'a mut Alone<'_>,
        offset: usize,
        len: usize,
    ) -> &'a [u8] {
        let seed = self.rng.any();
        let room = model.room(offset, len);
        fill(seed, offset as u64, room);
        room
    }

    pub(super) fn create(&mut self, path: &Path, model: &mut Alone<'_>) -> Result<()> {
        model.resize(0);
        let len = self.rng.below(200 << 10) as usize;
        if self.rng.chance(30) {
            // The file gets its name after its content was written.
            let dir = path.parent().context("a file is in a directory")?;
            let flags = OFlags::TMPFILE | OFlags::WRONLY;
            let file = openat(CWD, dir, flags, Mode::from_raw_mode(0o644));
            let file = File::from(file.context("cannot open a file without a name")?);
            file.write_all_at(self.invent(model, 0, len), 0)
                .context("cannot write a file without a name")?;
            let number = std::os::fd::AsRawFd::as_raw_fd(&file);
            let this = format!("/proc/self/fd/{number}");
            linkat(CWD, this, CWD, path, AtFlags::SYMLINK_FOLLOW)
                .context("cannot give a file its name")?;
        } else {
            let file = File::create_new(path).context("cannot create a file")?;
            file.write_all_at(self.invent(model, 0, len), 0)
                .context("cannot write a new file")?;
        }
        self.tally.changes += 1;
        Ok(())
    }

    fn write(&mut self, path: &Path, model: &mut Alone<'_>) -> io::Result<()> {
        let end = model.len();
        let (mut offset, mut len) = self.range(end.max(1));
        // Some ranges continue beyond the end, and some begin there.
        if self.rng.chance(10) {
            offset = end;
        }
        len = len.min(MAX_LEN - offset);
        if len == 0 {
            return Ok(());
        }
        match self.rng.below(12) {
            0..4 => writer(path, OFlags::empty())?
                .write_all_at(self.invent(model, offset, len), offset as u64),
            4 => {
                let file = writer(path, OFlags::DSYNC)?;
                let bytes = self.invent(model, offset, len);
                told_once(|| file.write_all_at(bytes, offset as u64))
            }
            5 => {
                let bytes = self.invent(model, offset, len);
                let (one, two) = bytes.split_at(len / 2);
                let pieces = [one, two].map(IoSlice::new);
                let file = writer(path, OFlags::empty())?;
                short(pwritev(file, &pieces, offset as u64)?, len)
            }
            6 => {
                let len = len.min(MAX_LEN - end);
                let bytes = self.invent(model, end, len);
                writer(path, OFlags::APPEND)?.write_all(bytes)
            }
            7 => {
                let len = len.min(PIPE);
                splice_in(path, self.invent(model, offset, len), offset as u64)
            }
            8..10 if offset < end => {
                let len = len.min(end - offset);
                let file = writer(path, OFlags::empty())?;
                // SAFETY: a worker that looks at the file or cuts it short waits for the lock.
                let mut map = unsafe {
                    let options = MmapOptions::new().offset(offset as u64).len(len).to_owned();
                    options.map_mut(&file)?
                };
                map.copy_from_slice(self.invent(model, offset, len));
                if self.rng.chance(30) {
                    told_once(|| map.flush())?;
                }
                Ok(())
            }
            _ => {
                let unit = if self.rng.chance(70) { 4096 } else { SECTOR };
                let offset = offset - offset % unit;
                let len = len.next_multiple_of(unit).min(MAX_LEN - offset);
                let mut room = Aligned::new();
                let len = len.min(room.buffer().len());
                let bytes = &mut room.buffer()[..len];
                bytes.copy_from_slice(self.invent(model, offset, len));
                writer(path, OFlags::DIRECT)?.write_all_at(bytes, offset as u64)
            }
        }
    }

    fn truncate(&mut self, path: &Path, model: &mut Alone<'_>) -> io::Result<()> {
        let end = model.len();
        let len = match self.rng.below(4) {
            0 => end.saturating_sub(self.rng.below(4096) as usize),
            1 => (end + self.rng.below(70_000) as usize).min(MAX_LEN),
            2 => self.rng.below(end as u64 + 1) as usize,
            _ => self.rng.below(400 << 10) as usize,
        };
        model.resize(len);
        writer(path, OFlags::empty())?.set_len(len as u64)
    }

    /// Calls fallocate in one of its modes.
    fn allocate(&mut self, path: &Path, model: &mut Alone<'_>) -> io::Result<()> {
        let end = model.len();
        let (offset, len) = self.range(end.max(1));
        let len = len.min(MAX_LEN - offset);
        let block = self.arguments.block as usize;
        // Operations that move the rest of a file need whole blocks.
        let first = offset - offset % block;
        let blocks = len.next_multiple_of(block);
        let alter = |flags, offset: usize, len: usize| -> io::Result<()> {
            let file = writer(path, OFlags::empty())?;
            Ok(fallocate(file, flags, offset as u64, len as u64)?)
        };
        let keep = FallocateFlags::KEEP_SIZE;
        match self.rng.below(12) {
            0 => {
                alter(FallocateFlags::empty(), offset, len)?;
                model.resize(end.max(offset + len));
            }
            1 => alter(keep, offset, len)?,
            2 if end > 0 => alter(FallocateFlags::UNSHARE_RANGE, offset, len.min(end - offset))?,
            3..6 => {
                alter(FallocateFlags::PUNCH_HOLE | keep, offset, len)?;
                let inside = len.min(end.saturating_sub(offset));
                model.room(offset, inside).fill(0);
            }
            6..8 => {
                alter(FallocateFlags::ZERO_RANGE, offset, len)?;
                model.room(offset, len).fill(0);
            }
            8 => {
                alter(FallocateFlags::ZERO_RANGE | keep, offset, len)?;
                let inside = len.min(end.saturating_sub(offset));
                model.room(offset, inside).fill(0);
            }
            9..11 if first + blocks < end => {
                alter(FallocateFlags::COLLAPSE_RANGE, first, blocks)?;
                model.collapse(first, blocks);
            }
            _ if first < end && end + blocks <= MAX_LEN => {
                alter(FallocateFlags::INSERT_RANGE, first, blocks)?;
                model.insert(first, blocks);
            }
            _ => {}
        }
        Ok(())
    }

    /// Deletes the file, compares it once more while it is open, and lets the next one have its
    /// inode.
    fn replace(&mut self, path: &Path, model: &mut Alone<'_>) -> io::Result<()> {
        let file = File::open(path)?;
        fs::remove_file(path)?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
        let content = model.content().unwrap_or_default();
        if !content.is_empty() {
            let (offset, len) = self.range(content.len());
            let got = reader::read(&file, Way::Call, offset, len).map_err(io::Error::other)?;
            let expected = &content[offset..offset + len];
            let name = format!("{} (deleted)", path.display());
            self.compare(&name, Way::Call, offset, expected, &got);
        }
        model.remove();
        Ok(())
    }

    /// Makes a change that needs another file: a copy, a clone, or a name.
    fn change_two(&mut self, one: usize, models: &mut [Model]) -> Result<()> {
        let other = self.another(one, models.len());
        let (mut from, mut to) = two(models, one, other)?;
        let (from, to) = (&mut from, &mut to);
        if from.content().is_none() || to.content().is_none() {
            return Ok(());
        }
        let paths = (self.path(one), self.path(other));
        let done = match self.rng.below(10) {
            0..2 => {
                let flags = RenameFlags::EXCHANGE;
                let done = renameat_with(CWD, &paths.0, CWD, &paths.1, flags);
                if done.is_ok() {
                    from.swap(to);
                }
                done.map_err(Into::into)
            }
            2 => {
                let done = fs::rename(&paths.0, &paths.1);
                if done.is_ok() {
                    from.swap(to);
                    from.remove();
                }
                done
            }
            // A range that ends inside a block can be cloned only to the end of a file.
            3.. if to.is_sealed() => Ok(()),
            3..5 if from.len() % self.arguments.block as usize == 0 || from.len() >= to.len() => {
                clone(&paths.0, &paths.1).map(|()| {
                    let bytes = from.content().unwrap_or_default();
                    to.room(0, bytes.len()).copy_from_slice(bytes);
                })
            }
            _ if from.len() > 0 => {
                let (mut offset, mut len) = self.range(from.len());
                if self.rng.chance(60) {
                    // Only whole blocks can be shared.
                    let block = self.arguments.block as usize;
                    offset -= offset % block;
                    len = len.next_multiple_of(block).min(from.len() - offset);
                }
                copy(&paths.0, &paths.1, offset as u64, len).map(|()| {
                    let bytes = &from.content().unwrap_or_default()[offset..offset + len];
                    to.room(offset, len).copy_from_slice(bytes);
                })
            }
            _ => Ok(()),
        };
        self.count(done, "copy, clone or rename", &paths.0)
    }
}

pub(super) fn writer(path: &Path, flags: OFlags) -> io::Result<File> {
    open(path, OFlags::RDWR | flags)
}

fn short(done: usize, wanted: usize) -> io::Result<()> {
    match done == wanted {
        true => Ok(()),
        false => Err(io::Error::other(format!("{done} bytes, not {wanted}"))),
    }
}

fn splice_in(path: &Path, bytes: &[u8], offset: u64) -> io::Result<()> {
    let (reader, writing) = pipe()?;
    File::from(writing).write_all(bytes)?;
    let file = writer(path, OFlags::empty())?;
    let mut at = offset;
    let mut left = bytes.len();
    while left > 0 {
        let done = splice(
            &reader,
            None,
            &file,
            Some(&mut at),
            left,
            SpliceFlags::empty(),
        )?;
        short(done.min(1), 1)?;
        left -= done;
    }
    Ok(())
}

/// Gives the file a second name, removes the first one, and restores it.
fn relink(path: &Path) -> io::Result<()> {
    let link = path.with_extension("link");
    fs::hard_link(path, &link)?;
    fs::remove_file(path)?;
    fs::rename(&link, path)
}

/// Writes a file back.
pub(super) fn sync(file: &File) -> io::Result<()> {
    told_once(|| file.sync_all())
}

/// Does work that writes a file back, a second time if the first one ends with EIO. If a direct
/// write finds a dirty page in its range when it ends, it has written all data, but the kernel
/// makes the next `fsync`, `msync` or synchronous write return EIO (`dio_warn_stale_pagecache`).
/// One cause is that XFS writes shared blocks through the page cache although the write is direct.
/// The error is reported once and ignored here; if data was lost, the following reads detect it.
fn told_once(work: impl Fn() -> io::Result<()>) -> io::Result<()> {
    match work() {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::IO) => work(),
        done => done,
    }
}

pub(super) fn forget(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    sync(&file)?;
    Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
}

/// Shares all blocks of a file with another one.
fn clone(from: &Path, to: &Path) -> io::Result<()> {
    Ok(ioctl_ficlone(
        writer(to, OFlags::empty())?,
        File::open(from)?,
    )?)
}

fn copy(from: &Path, to: &Path, offset: u64, len: usize) -> io::Result<()> {
    let (from, to) = (File::open(from)?, writer(to, OFlags::empty())?);
    let (mut read, mut write) = (offset, offset);
    let mut left = len;
    while left > 0 {
        let done = copy_file_range(&from, Some(&mut read), &to, Some(&mut write), left)?;
        short(done.min(1), 1)?;
        left -= done;
    }
    Ok(())
}
