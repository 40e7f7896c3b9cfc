// SPDX-License-Identifier: GPL-2.0-only

//! The expected content of a file.

use std::{
    fs::{File, OpenOptions},
    path::Path,
};

use anyhow::{Context as _, Result};
use memmap2::MmapMut;
use rustix::fs::{FlockOperation, flock};

use super::MAX_LEN;

/// Bytes before the content: the length plus one, or zero if the file does not exist, followed by
/// the seal.
const HEAD: usize = 4096;
/// Offset of the seal.
const SEAL: usize = 8;

/// The content of a file as bytes, shared by all processes that map it.
#[derive(Debug)]
pub(super) struct Model {
    file: File,
    /// Bytes beyond the file's length are zero.
    map: MmapMut,
}

/// A model that no other worker can change.
#[derive(Debug)]
pub(super) struct Shared<'a>(&'a Model);

/// A model that no other worker can read.
#[derive(Debug)]
pub(super) struct Alone<'a>(&'a mut Model);

impl Model {
    /// Makes the model of a file that does not exist.
    pub(super) fn make(path: &Path) -> Result<()> {
        // The file is written, and not only extended, so that its memory is allocated here.
        std::fs::write(path, vec![0; HEAD + MAX_LEN])
            .with_context(|| format!("cannot make {}", path.display()))
    }

    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        // SAFETY: all processes that map it look at it under its lock only.
        let map = unsafe { MmapMut::map_mut(&file)? };
        Ok(Self { file, map })
    }

    /// Prevents other workers from changing the file.
    pub(super) fn share(&self) -> Result<Shared<'_>> {
        flock(&self.file, FlockOperation::LockShared)?;
        Ok(Shared(self))
    }

    /// Prevents other workers from using the file.
    pub(super) fn own(&mut self) -> Result<Alone<'_>> {
        flock(&self.file, FlockOperation::LockExclusive)?;
        Ok(Alone(self))
    }

    fn len(&self) -> Option<usize> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.map[..8]);
        usize::try_from(u64::from_le_bytes(bytes))
            .ok()?
            .checked_sub(1)
    }

    fn content(&self) -> Option<&[u8]> {
        Some(&self.map[HEAD..HEAD + self.len()?])
    }
}

/// Prevents other workers from using two files. All workers lock in the same order, so that there
/// is no deadlock.
pub(super) fn two(
    models: &mut [Model],
    one: usize,
    other: usize,
) -> Result<(Alone<'_>, Alone<'_>)> {
    let (low, high) = models.split_at_mut(one.max(other));
    let (first, second) = (low[one.min(other)].own()?, high[0].own()?);
    Ok(match one < other {
        true => (first, second),
        false => (second, first),
    })
}

impl Shared<'_> {
    /// Returns the content, or `None` if the file does not exist.
    pub(super) fn content(&self) -> Option<&[u8]> {
        self.0.content()
    }
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        // The model is locked, so that this cannot fail.
        let _ = flock(&self.0.file, FlockOperation::Unlock);
    }
}

impl Alone<'_> {
    /// Returns the content, or `None` if the file does not exist.
    pub(super) fn content(&self) -> Option<&[u8]> {
        self.0.content()
    }

    /// Returns its length, which is 0 if it does not exist.
    pub(super) fn len(&self) -> usize {
        self.0.len().unwrap_or(0)
    }

    /// Sets the length of the file. Added bytes are zero.
    pub(super) fn resize(&mut self, len: usize) {
        let old = self.len();
        if len < old {
            self.0.map[HEAD + len..HEAD + old].fill(0);
        }
        self.0.map[..8].copy_from_slice(&(len as u64 + 1).to_le_bytes());
    }

    /// Records that the file was deleted.
    pub(super) fn remove(&mut self) {
        self.resize(0);
        self.0.map[..=SEAL].fill(0);
    }

    /// Records that the file cannot be changed any more.
    pub(super) fn seal(&mut self) {
        self.0.map[SEAL] = 1;
    }

    /// Returns whether the file cannot be changed any more.
    pub(super) fn is_sealed(&self) -> bool {
        self.0.map[SEAL] != 0
    }

    /// Returns a range of the file, which is extended if necessary.
    pub(super) fn room(&mut self, offset: usize, len: usize) -> &mut [u8] {
        if offset + len > self.len() {
            self.resize(offset + len);
        }
        &mut self.0.map[HEAD + offset..][..len]
    }

    /// Removes a range of the file.
    pub(super) fn collapse(&mut self, offset: usize, len: usize) {
        let old = self.len();
        let content = &mut self.0.map[HEAD..][..old];
        content.copy_within(offset + len.., offset);
        self.resize(old - len);
    }

    /// Inserts zeros at `offset`.
    pub(super) fn insert(&mut self, offset: usize, len: usize) {
        let old = self.len();
        self.resize(old + len);
        let content = &mut self.0.map[HEAD..][..old + len];
        content.copy_within(offset..old, offset + len);
        content[offset..offset + len].fill(0);
    }

    /// Swaps the content from `offset` on with that of another one.
    pub(super) fn swap_tails(&mut self, other: &mut Alone<'_>, offset: usize) {
        let tail = |model: &Alone<'_>, start| model.content().unwrap_or_default()[start..].to_vec();
        let (mine, theirs) = (tail(self, offset), tail(other, offset));
        self.resize(offset);
        self.room(offset, theirs.len()).copy_from_slice(&theirs);
        other.resize(offset);
        other.room(offset, mine.len()).copy_from_slice(&mine);
    }

    /// Swaps the content of two models.
    pub(super) fn swap(&mut self, other: &mut Alone<'_>) {
        self.0.map.swap_with_slice(&mut other.0.map);
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        // The model is locked, so that this cannot fail.
        let _ = flock(&self.0.file, FlockOperation::Unlock);
    }
}
