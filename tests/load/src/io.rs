// SPDX-License-Identifier: GPL-2.0-only

//! File operations of a thread, counted.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::FileExt as _,
    path::Path,
};

use rand::{Rng as _, RngCore as _};
use rand_pcg::Pcg64Mcg;

use crate::profile::{KIB, MIB};

/// Size of one read or write call. The published 1 MiB would exceed the small memory limits of the
/// containers.
const CALL: u64 = 256 * KIB;
/// Length that is written to a long file before it is synced. A burst of dirty pages that fills a
/// container of a few MiB ends in the OOM killer, because reclaim does not wait for writeback
/// there.
const BURST: u64 = 2 * MIB;
/// Length at which a log starts again from the beginning.
const LOG_LEN: u64 = 4 * MIB;

/// The state of a thread's I/O: a buffer, its random numbers, and its counts.
#[derive(Debug)]
pub(crate) struct Io {
    pub(crate) rng: Pcg64Mcg,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    buffer: Vec<u8>,
}

impl Io {
    /// Returns the state of thread number `thread` of a run.
    pub(crate) fn new(seed: u64, thread: u64) -> Self {
        let state = u128::from(seed) << 64 | u128::from(thread);
        let mut rng = Pcg64Mcg::new(state);
        // The generator is advanced, because streams of neighbouring seeds are similar at first.
        for _ in 0..8 {
            rng.next_u64();
        }
        let mut buffer = vec![0; CALL as usize];
        rng.fill_bytes(&mut buffer);
        Self {
            rng,
            bytes_read: 0,
            bytes_written: 0,
            buffer,
        }
    }

    /// Reads a file from end to end.
    pub(crate) fn read_whole(&mut self, path: &Path) -> io::Result<()> {
        let mut file = File::open(path)?;
        loop {
            match file.read(&mut self.buffer)? {
                0 => return Ok(()),
                bytes => self.bytes_read += bytes as u64,
            }
        }
    }

    /// Reads at most `len` bytes at `offset`, and returns how many there were.
    pub(crate) fn read_at(&mut self, file: &File, offset: u64, len: u64) -> io::Result<u64> {
        let len = (len as usize).min(self.buffer.len());
        let bytes = file.read_at(&mut self.buffer[..len], offset)? as u64;
        self.bytes_read += bytes;
        Ok(bytes)
    }

    /// Creates a file of `len` bytes, which must not exist.
    pub(crate) fn create(&mut self, path: &Path, len: u64) -> io::Result<File> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        self.write(&mut file, len)?;
        Ok(file)
    }

    /// Opens a file at its end and appends a random number of bytes, at most `max_bytes`.
    pub(crate) fn append(&mut self, path: &Path, max_bytes: u64) -> io::Result<File> {
        let mut file = OpenOptions::new().append(true).open(path)?;
        let len = self.some(max_bytes);
        self.write(&mut file, len)?;
        Ok(file)
    }

    /// Adds an entry to a log, which starts again when it has become long.
    pub(crate) fn log(&mut self, path: &Path, max_bytes: u64) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        if file.metadata()?.len() > LOG_LEN {
            file.set_len(0)?;
        }
        let len = self.some(max_bytes);
        self.write(&mut file, len)
    }

    /// Deletes a file.
    pub(crate) fn delete(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    /// Returns a random length from 1 to `max_bytes`.
    pub(crate) fn some(&mut self, max_bytes: u64) -> u64 {
        self.rng.random_range(1..=max_bytes)
    }

    fn write(&mut self, file: &mut File, len: u64) -> io::Result<()> {
        let mut rest = len;
        while rest > 0 {
            let part = rest.min(self.buffer.len() as u64);
            file.write_all(&self.buffer[..part as usize])?;
            rest -= part;
            if rest > 0 && rest % BURST == 0 {
                file.sync_data()?;
            }
        }
        self.bytes_written += len;
        Ok(())
    }
}
