// SPDX-License-Identifier: GPL-2.0-only

//! Extents that move from one file to another, or are shared by both.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt as _,
    path::Path,
};

use anyhow::Result;
use ddhelper::kind::Kind;
use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
};

use super::{
    Model,
    change::{forget, sync, writer},
    model::{Alone, two},
    special::{Done, without_journal},
    worker::Worker,
};
use crate::ioctl::{self, TO_END};

/// Two files: their paths, the open files, and their models.
struct Pair<'a, 'm> {
    paths: [&'a Path; 2],
    files: [File; 2],
    one: &'a mut Alone<'m>,
    other: &'a mut Alone<'m>,
}

impl Worker<'_> {
    /// Executes an operation that needs two files.
    pub(super) fn between(&mut self, kind: Kind, one: usize, models: &mut [Model]) -> Result<Done> {
        let other = self.another(one, models.len());
        let paths = (self.path(one), self.path(other));
        let (mut first, mut second) = two(models, one, other)?;
        if !self.stock(&paths.0, &mut first)? || !self.stock(&paths.1, &mut second)? {
            return Ok(Ok(false));
        }
        let open = |path: &Path| writer(path, OFlags::empty());
        let mut pair = Pair {
            files: [open(&paths.0)?, open(&paths.1)?],
            paths: [&paths.0, &paths.1],
            one: &mut first,
            other: &mut second,
        };
        // Both files' pages are put, as far as the host stores them.
        if self.rng.chance(60) {
            pair.paths.into_iter().try_for_each(give_away)?;
        }
        Ok(match kind {
            Kind::Exchange => self.exchange(&mut pair),
            Kind::Commit => self.commit(&mut pair),
            Kind::SwapExtents => pair.swap_extents(),
            Kind::MoveExtents => self.move_extents(&mut pair),
            Kind::Dedupe => self.dedupe(&mut pair),
            Kind::CloneRange => self.clone_range(&mut pair),
            _ => Ok(false),
        })
    }

    /// Returns whole blocks inside both files: the offset in each, and the number of bytes.
    fn blocks(&mut self, pair: &Pair<'_, '_>) -> (usize, usize, usize) {
        let block = self.arguments.block as usize;
        let mut start = |model: &Alone<'_>| {
            let blocks = model.len() / block;
            self.rng.below(blocks as u64) as usize * block
        };
        let (offset, to) = (start(pair.one), start(pair.other));
        let limit = (pair.one.len() - offset).min(pair.other.len() - to) / block;
        let blocks = self.rng.within(1, limit.min(48) as u64) as usize;
        (offset, to, blocks * block)
    }

    fn exchange(&mut self, pair: &mut Pair<'_, '_>) -> Done {
        let (offset, to, len) = self.blocks(pair);
        let [one, other] = &pair.files;
        if self.rng.chance(40) {
            // The files swap their lengths, so that both ranges must begin at the same offset.
            let at = offset.min(to);
            let exchange = || ioctl::exchange((one, at as u64), (other, at as u64), 0, TO_END);
            match exchange() {
                // XFS refuses this if blocks are reserved, but not allocated, behind the end of the
                // shorter file. Truncation to the present length frees them.
                Err(error) if is_invalid(&error) => {
                    one.set_len(pair.one.len() as u64)?;
                    other.set_len(pair.other.len() as u64)?;
                    exchange()?;
                }
                done => done?,
            }
            pair.one.swap_tails(pair.other, at);
        } else {
            let at = (one, offset as u64);
            ioctl::exchange(at, (other, to as u64), len as u64, 0)?;
            swap(pair, offset, to, len);
        }
        Ok(true)
    }

    fn commit(&mut self, pair: &mut Pair<'_, '_>) -> Done {
        let (offset, to, len) = self.blocks(pair);
        let [one, other] = &pair.files;
        match ioctl::commit((one, offset as u64), (other, to as u64), len as u64) {
            // The clock changed the other file since its state was noted.
            Err(error) if is_busy(&error) => Ok(false),
            done => {
                done?;
                swap(pair, offset, to, len);
                Ok(true)
            }
        }
    }

    fn move_extents(&mut self, pair: &mut Pair<'_, '_>) -> Done {
        let block = self.arguments.block;
        let (offset, to, len) = self.blocks(pair);
        // Both offsets have the same position in a page.
        let to = to - to % 4096 + offset % 4096;
        let len = len.min((pair.other.len().saturating_sub(to)) / block as usize * block as usize);
        if len == 0 {
            return Ok(false);
        }
        pair.paths.into_iter().try_for_each(without_journal)?;
        // The operation skips holes, so that there must be none.
        for (model, file, at) in [
            (&mut *pair.one, &pair.files[0], offset),
            (&mut *pair.other, &pair.files[1], to),
        ] {
            file.write_all_at(self.invent(model, at, len), at as u64)?;
        }
        // Pages of the donor that are in the page cache would be old afterwards, with and without
        // the modules.
        flock(&self.quiet, FlockOperation::LockExclusive)?;
        pair.paths.into_iter().try_for_each(give_away)?;
        let [one, other] = &pair.files;
        let range = (offset as u64 / block, to as u64 / block, len as u64 / block);
        let (moved, done) = ioctl::move_extents(one, other, range);
        flock(&self.quiet, FlockOperation::Unlock)?;
        // The file keeps its bytes, in the donor's blocks. The donor gets the file's former blocks,
        // marked as unwritten. Blocks that were moved stay moved even if the rest failed.
        let moved = (moved * block) as usize;
        pair.other.room(to, moved).fill(0);
        match done {
            Err(error) if is_busy(&error) => Ok(moved > 0),
            done => done.map(|()| moved > 0),
        }
    }

    fn dedupe(&mut self, pair: &mut Pair<'_, '_>) -> Done {
        let (offset, to, len) = self.blocks(pair);
        let [one, other] = &pair.files;
        let alike = self.rng.chance(80);
        if alike {
            let bytes = &pair.one.content().unwrap_or_default()[offset..offset + len];
            other.write_all_at(bytes, to as u64)?;
            pair.other.room(to, len).copy_from_slice(bytes);
        }
        let shared = ioctl::dedupe((one, offset as u64), (other, to as u64), len as u64)?;
        // The content does not change either way.
        Ok(alike && shared == len as u64)
    }

    fn clone_range(&mut self, pair: &mut Pair<'_, '_>) -> Done {
        let (offset, to, len) = self.blocks(pair);
        let [one, other] = &pair.files;
        ioctl::clone_range(one, offset as u64, len as u64, (other, to as u64))?;
        let bytes = &pair.one.content().unwrap_or_default()[offset..offset + len];
        pair.other.room(to, len).copy_from_slice(bytes);
        Ok(true)
    }
}

impl Pair<'_, '_> {
    fn swap_extents(&mut self) -> Done {
        let len = self.one.len().min(self.other.len());
        for (model, file) in [
            (&mut *self.one, &self.files[0]),
            (&mut *self.other, &self.files[1]),
        ] {
            model.resize(len);
            // The files are written as a whole. With files that shared blocks, runs of this old
            // ioctl ended with a filesystem that had shut down; the reason is not known.
            file.set_len(0)?;
            file.write_all_at(model.content().unwrap_or_default(), 0)?;
            sync(file)?;
        }
        self.paths.into_iter().try_for_each(give_away)?;
        let [one, other] = &self.files;
        // The target must not have fewer extents.
        let done = match ioctl::swap_extents(one, other) {
            Err(error) if is_invalid(&error) => ioctl::swap_extents(other, one),
            done => done,
        };
        match done {
            // The clock changed one of them since the check.
            Err(error) if is_busy(&error) => Ok(false),
            done => {
                done?;
                self.one.swap(self.other);
                Ok(true)
            }
        }
    }
}

/// Reads a file and drops the pages, so that they are put.
fn give_away(path: &Path) -> io::Result<()> {
    forget(path)?;
    fs::read(path)?;
    forget(path)
}

fn is_busy(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::BUSY)
}

fn is_invalid(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::INVAL)
}

/// Swaps a range of two models.
fn swap(pair: &mut Pair<'_, '_>, offset: usize, to: usize, len: usize) {
    let bytes = pair.one.room(offset, len).to_vec();
    let there = pair.other.room(to, len);
    pair.one.room(offset, len).copy_from_slice(there);
    there.copy_from_slice(&bytes);
}
