// SPDX-License-Identifier: GPL-2.0-only

//! Ways to read a range of a file.

use std::{
    fs::File,
    io::{self, IoSliceMut, Read as _},
    os::unix::fs::FileExt as _,
    path::Path,
};

use anyhow::{Context as _, Result, ensure};
use memmap2::MmapOptions;
use rustix::{
    fs::OFlags,
    io::{preadv, preadv2},
    pipe::{SpliceFlags, pipe, splice},
};
use serde::Serialize;

use super::special::UNCACHED;
use crate::files::{self, Aligned};

/// Maximum number of bytes that fit into a pipe, at any position in a page.
pub(super) const PIPE: usize = 15 * 4096;
/// Unit of direct reads.
pub(super) const SECTOR: usize = 512;

/// A method of reading.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Way {
    /// pread.
    Call,
    /// preadv into several pieces.
    Vector,
    /// From a mapping.
    Mapping,
    /// Past the page cache.
    Direct,
    /// Through a pipe.
    Splice,
    /// pread whose pages leave the cache immediately.
    Uncached,
}

impl Way {
    /// The ways as often as they are used: most files are read by calls.
    pub(super) const SHARES: [Self; 20] = {
        use Way::{Call, Direct, Mapping, Splice, Uncached, Vector};
        [
            Call, Call, Call, Call, Call, Call, Call, Call, Call, Call, Vector, Vector, Vector,
            Mapping, Mapping, Mapping, Mapping, Direct, Uncached, Splice,
        ]
    };

    /// Returns the range that this way reads instead of a range inside a file of length `end`.
    pub(super) fn fit(self, offset: usize, len: usize, end: usize) -> (usize, usize) {
        match self {
            Self::Direct => {
                let start = offset - offset % SECTOR;
                (
                    start,
                    (offset + len).next_multiple_of(SECTOR).min(end) - start,
                )
            }
            Self::Splice => (offset, len.min(PIPE)),
            _ => (offset, len),
        }
    }
}

/// Opens a file for reading, past the page cache if the way requires it.
pub(super) fn open(path: &Path, way: Way) -> io::Result<File> {
    let flags = match way {
        Way::Direct => OFlags::DIRECT,
        _ => OFlags::empty(),
    };
    files::open(path, OFlags::RDONLY | flags)
}

/// Reads a range that [`Way::fit`] returned.
pub(super) fn read(file: &File, way: Way, offset: usize, len: usize) -> Result<Vec<u8>> {
    let mut content = vec![0; len];
    let at = offset as u64;
    match way {
        Way::Call => file.read_exact_at(&mut content, at)?,
        Way::Vector => {
            let (one, rest) = content.split_at_mut(len / 3);
            let (two, three) = rest.split_at_mut(rest.len() / 2);
            let mut pieces = [one, two, three].map(IoSliceMut::new);
            let got = preadv(file, &mut pieces, at)?;
            ensure!(got == len, "preadv gave {got} of {len} bytes at {at}");
        }
        Way::Mapping => {
            // SAFETY: A thread that cuts the file short waits for its model's lock.
            let map = unsafe { MmapOptions::new().offset(at).len(len).map(file)? };
            content.copy_from_slice(&map);
        }
        Way::Uncached => {
            let got = preadv2(file, &mut [IoSliceMut::new(&mut content)], at, UNCACHED)
                .map_err(io::Error::from)?;
            ensure!(got == len, "preadv2 gave {got} of {len} bytes at {at}");
        }
        Way::Direct => {
            let mut room = Aligned::new();
            let mut done = 0;
            while done < len {
                let got = file.read_at(room.buffer(), at + done as u64)?;
                ensure!(got > 0, "the file ends too early, at {}", offset + done);
                let part = got.min(len - done);
                content[done..done + part].copy_from_slice(&room.buffer()[..part]);
                done += part;
            }
        }
        Way::Splice => {
            let (reader, writer) = pipe()?;
            let mut from = at;
            let mut left = len;
            while left > 0 {
                let got = splice(
                    file,
                    Some(&mut from),
                    &writer,
                    None,
                    left,
                    SpliceFlags::empty(),
                )?;
                ensure!(got > 0, "the file ends too early, at {from}");
                left -= got;
            }
            drop(writer);
            File::from(reader)
                .read_exact(&mut content)
                .context("the pipe")?;
        }
    }
    Ok(content)
}
