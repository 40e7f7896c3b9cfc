// SPDX-License-Identifier: GPL-2.0-only

//! Changes of one file that some filesystems offer and others do not.

use std::{
    fs::File,
    io::{self, IoSlice, IoSliceMut},
    os::unix::fs::FileExt as _,
    path::Path,
};

use anyhow::{Context as _, Result};
use ddhelper::kind::Kind;
use rustix::{
    fs::{IFlags, OFlags, ioctl_getflags, ioctl_setflags},
    io::{Errno, ReadWriteFlags, preadv2, pwritev2},
};

use super::{
    Model,
    change::{forget, writer},
    looped::Loop,
    model::Alone,
    reader::SECTOR,
    worker::Worker,
};
use crate::{files::Aligned, ioctl, queue::Queue};

/// `RWF_ATOMIC`.
pub(crate) const ATOMIC: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x40);
/// `RWF_DONTCACHE`.
pub(super) const UNCACHED: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);
/// Number of generations that are used, which is small so that each comes again.
const GENERATIONS: u64 = 3;
/// Minimum file size for most of these.
pub(super) const STOCK: usize = 40 << 10;

/// Whether an operation was done; `false` if the files did not allow it at that moment.
pub(super) type Done = io::Result<bool>;

impl Worker<'_> {
    /// Executes the next operation.
    pub(super) fn special(&mut self, file: usize, models: &mut [Model]) -> Result<()> {
        let kind = self.operations.draw(&mut self.rng);
        let done = if kind.takes_two() {
            self.between(kind, file, models)
                .with_context(|| format!("before {kind:?} of {file}"))?
        } else {
            let path = self.path(file);
            let mut model = models[file].own()?;
            let stocked = self.stock(&path, &mut model);
            match stocked.with_context(|| format!("before {kind:?} of {file}"))? {
                true => self.alone(kind, &path, &mut model),
                false => Ok(false),
            }
        };
        match done {
            Ok(true) => {
                self.tally.changes += 1;
                *self.tally.done.entry(kind).or_default() += 1;
            }
            Ok(false) => self.operations.put_back(kind),
            Err(error) if is_not_offered(&error) => {
                *self.tally.not_offered.entry(kind).or_default() += 1;
            }
            Err(error) => {
                return Err(error).with_context(|| format!("{kind:?} of {file}"));
            }
        }
        Ok(())
    }

    fn alone(&mut self, kind: Kind, path: &Path, model: &mut Alone<'_>) -> Done {
        match kind {
            // A task that has queued some of its writes waits for the freeze of the filesystem
            // below the overlay before it queues the next, and the freeze waits for the queued
            // ones: neither ends, with and without the modules.
            Kind::Ring | Kind::RingDirect | Kind::Aio | Kind::AioDirect
                if self.arguments.overlay =>
            {
                Err(Errno::OPNOTSUPP.into())
            }
            Kind::Ring => self.queue(Queue::Ring, false, path, model),
            Kind::RingDirect => self.queue(Queue::Ring, true, path, model),
            Kind::Aio => self.queue(Queue::Aio, false, path, model),
            Kind::AioDirect => self.queue(Queue::Aio, true, path, model),
            Kind::Uncached => self.uncached(path, model),
            Kind::Atomic => self.atomic(path, model),
            Kind::Loop => self.through_loop(path, model),
            Kind::Journal => {
                let file = File::open(path)?;
                ioctl_setflags(&file, ioctl_getflags(&file)? ^ IFlags::JOURNALING)?;
                Ok(true)
            }
            Kind::Generation => {
                if self.rng.chance(70) {
                    forget(path)?;
                }
                // The result is below the number of generations.
                let generation = 1 + self.rng.below(GENERATIONS) as u32;
                ioctl::set_generation(&File::open(path)?, generation)?;
                Ok(true)
            }
            Kind::Verity => {
                // A block size is far below 4 GiB.
                ioctl::enable_verity(&File::open(path)?, self.arguments.block as u32)?;
                model.seal();
                Ok(true)
            }
            // `EXT4_IOC_SWAP_BOOT` sets other generations of both inodes, which seed the checksums
            // of extent blocks, and does not compute these again.
            Kind::Boot if self.arguments.metadata_csum => Err(Errno::OPNOTSUPP.into()),
            Kind::Boot => self.boot(path, model),
            // An overlay's files cannot be swapped to.
            Kind::Swap if self.arguments.overlay => Err(Errno::OPNOTSUPP.into()),
            Kind::Swap => self.swap(path, model),
            _ => Ok(false),
        }
    }

    /// Ensures that the file exists, can be changed, and is not too short.
    pub(super) fn stock(&mut self, path: &Path, model: &mut Alone<'_>) -> Result<bool> {
        if model.is_sealed() {
            return Ok(false);
        }
        if model.content().is_none() {
            self.create(path, model)?;
        }
        let end = model.len();
        if end < STOCK {
            let bytes = self.invent(model, end, STOCK - end);
            writer(path, OFlags::empty())
                .and_then(|file| file.write_all_at(bytes, end as u64))
                .with_context(|| format!("cannot extend {}", path.display()))?;
        }
        Ok(true)
    }

    /// Returns a range of whole units inside the file, at most as long as a buffer for direct I/O.
    fn units(&mut self, model: &Alone<'_>, unit: usize) -> (usize, usize) {
        let (offset, len) = self.range(model.len() - unit);
        let offset = offset - offset % unit;
        let room = (model.len() - offset) / unit * unit;
        (offset, len.next_multiple_of(unit).min(room).min(96 << 10))
    }

    fn queue(&mut self, queue: Queue, direct: bool, path: &Path, model: &mut Alone<'_>) -> Done {
        let unit = if self.rng.chance(70) { 4096 } else { SECTOR };
        let (offset, len) = self.units(model, unit);
        let mut room = Aligned::new();
        let bytes = &mut room.buffer()[..len];
        bytes.copy_from_slice(self.invent(model, offset, len));
        let flags = if direct {
            OFlags::DIRECT
        } else {
            OFlags::empty()
        };
        let file = writer(path, flags)?;
        if direct && self.rng.chance(60) {
            let beside = File::open(path)?;
            queue.write_beside_reader((&file, &beside), bytes, offset as u64, unit)?;
        } else {
            queue.write(&file, bytes, offset as u64, unit)?;
        }
        Ok(true)
    }

    /// Writes and reads with RWF_DONTCACHE.
    fn uncached(&mut self, path: &Path, model: &mut Alone<'_>) -> Done {
        let (offset, len) = self.range(model.len());
        let file = writer(path, OFlags::empty())?;
        // A refusal comes before any byte is written.
        let mut byte = [0];
        preadv2(&file, &mut [IoSliceMut::new(&mut byte)], 0, UNCACHED)?;
        let bytes = self.invent(model, offset, len);
        let done = pwritev2(&file, &[IoSlice::new(bytes)], offset as u64, UNCACHED)?;
        whole(done, len)
    }

    fn atomic(&mut self, path: &Path, model: &mut Alone<'_>) -> Done {
        // A single aligned block is the least that is offered.
        let block = self.arguments.block as usize;
        let offset = self.rng.below((model.len() / block) as u64) as usize * block;
        let file = writer(path, OFlags::DIRECT)?;
        let mut room = Aligned::new();
        let bytes = &mut room.buffer()[..block];
        let seed = self.rng.any();
        ddhelper::churn::fill(seed, offset as u64, bytes);
        let written = pwritev2(&file, &[IoSlice::new(bytes)], offset as u64, ATOMIC);
        if written == Err(Errno::INVAL) {
            // The filesystem reports it for a device that does not support it.
            return Err(Errno::OPNOTSUPP.into());
        }
        whole(written?, block)?;
        model.room(offset, block).copy_from_slice(bytes);
        Ok(true)
    }

    fn through_loop(&mut self, path: &Path, model: &mut Alone<'_>) -> Done {
        // The disk's sectors may be as large as the file's blocks.
        let (offset, len) = self.units(model, 4096);
        let Some(shown) = Loop::direct(path)? else {
            return Err(Errno::OPNOTSUPP.into());
        };
        let disk = shown.open()?;
        // No range is zeroed: the loop driver calls the file's `fallocate` without
        // `sb_start_write`, and ext4 warns if the filesystem is frozen at that time.
        let mut room = Aligned::new();
        let bytes = &mut room.buffer()[..len];
        bytes.copy_from_slice(self.invent(model, offset, len));
        disk.write_all_at(bytes, offset as u64)?;
        Ok(true)
    }

    /// Swaps content with the boot loader's inode, which no other task reads or writes.
    fn boot(&mut self, path: &Path, model: &mut Alone<'_>) -> Done {
        without_journal(path)?;
        // This lock is always taken last, so that there is no deadlock.
        let mut boot = self.boot.own().map_err(io::Error::other)?;
        ioctl::swap_boot(&writer(path, OFlags::empty())?)?;
        if boot.content().is_none() {
            boot.resize(0);
        }
        model.swap(&mut boot);
        Ok(true)
    }
}

/// Ends journalling of a file's data, which prevents swaps of extents.
pub(super) fn without_journal(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    match ioctl_getflags(&file) {
        Ok(flags) if flags.contains(IFlags::JOURNALING) => {
            Ok(ioctl_setflags(&file, flags - IFlags::JOURNALING)?)
        }
        _ => Ok(()),
    }
}

/// Returns whether a filesystem does not know an operation.
fn is_not_offered(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::OPNOTSUPP | Errno::NOTTY)
    )
}

fn whole(done: usize, wanted: usize) -> Done {
    match done == wanted {
        true => Ok(true),
        false => Err(io::Error::other(format!("{done} bytes, not {wanted}"))),
    }
}
