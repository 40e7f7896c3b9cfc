// SPDX-License-Identifier: GPL-2.0-only

//! What a file must hold.

use std::{
    fs::{File, OpenOptions},
    path::Path,
};

use anyhow::{Context as _, Result};
use memmap2::MmapMut;
use rustix::fs::{FlockOperation, flock};

use super::LONGEST;

/// Bytes before the content: the length, plus one; zero if the file is not there. Behind it,
/// whether the file is sealed.
const HEAD: usize = 4096;
/// Place of the seal.
const SEAL: usize = 8;

/// The content of a file as bytes, shared by all processes that map it.
#[derive(Debug)]
pub(super) struct Model {
    file: File,
    /// Beyond the file's length there are only zeros.
    map: MmapMut,
}

/// A model that no other worker changes.
#[derive(Debug)]
pub(super) struct Shared<'a>(&'a Model);

/// A model that no other worker looks at.
#[derive(Debug)]
pub(super) struct Alone<'a>(&'a mut Model);

impl Model {
    /// Makes the model of a file that is not there.
    pub(super) fn make(path: &Path) -> Result<()> {
        // Written, not only made long: its memory is taken here.
        std::fs::write(path, vec![0; HEAD + LONGEST])
            .with_context(|| format!("cannot make {}", path.display()))
    }

    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        // SAFETY: all processes that map it look at it under its lock only.
        let map = unsafe { MmapMut::map_mut(&file)? };
        Ok(Self { file, map })
    }

    /// Keeps others from changing the file.
    pub(super) fn share(&self) -> Result<Shared<'_>> {
        flock(&self.file, FlockOperation::LockShared)?;
        Ok(Shared(self))
    }

    /// Keeps others from the file.
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

/// Keeps others from two files. All take them in one order, so that no worker waits for one that it
/// keeps waiting.
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
    /// The content; none when the file is not there.
    pub(super) fn content(&self) -> Option<&[u8]> {
        self.0.content()
    }
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        // It was locked: this cannot fail.
        let _ = flock(&self.0.file, FlockOperation::Unlock);
    }
}

impl Alone<'_> {
    /// The content; none when the file is not there.
    pub(super) fn content(&self) -> Option<&[u8]> {
        self.0.content()
    }

    /// Its length; 0 when it is not there.
    pub(super) fn len(&self) -> usize {
        self.0.len().unwrap_or(0)
    }

    /// Gives the file a length; what it grows by is zero.
    pub(super) fn resize(&mut self, len: usize) {
        let old = self.len();
        if len < old {
            self.0.map[HEAD + len..HEAD + old].fill(0);
        }
        self.0.map[..8].copy_from_slice(&(len as u64 + 1).to_le_bytes());
    }

    /// The file is not there any more.
    pub(super) fn remove(&mut self) {
        self.resize(0);
        self.0.map[..=SEAL].fill(0);
    }

    /// The file cannot be changed any more.
    pub(super) fn seal(&mut self) {
        self.0.map[SEAL] = 1;
    }

    /// Whether it cannot be changed any more.
    pub(super) fn is_sealed(&self) -> bool {
        self.0.map[SEAL] != 0
    }

    /// A range of the file, which grows to have it.
    pub(super) fn room(&mut self, offset: usize, len: usize) -> &mut [u8] {
        if offset + len > self.len() {
            self.resize(offset + len);
        }
        &mut self.0.map[HEAD + offset..][..len]
    }

    /// Takes a range out of the file.
    pub(super) fn collapse(&mut self, offset: usize, len: usize) {
        let old = self.len();
        let content = &mut self.0.map[HEAD..][..old];
        content.copy_within(offset + len.., offset);
        self.resize(old - len);
    }

    /// Puts zeros between what is before and what is behind `offset`.
    pub(super) fn insert(&mut self, offset: usize, len: usize) {
        let old = self.len();
        self.resize(old + len);
        let content = &mut self.0.map[HEAD..][..old + len];
        content.copy_within(offset..old, offset + len);
        content[offset..offset + len].fill(0);
    }

    /// Swaps what is behind `offset` with what another one has there.
    pub(super) fn swap_tails(&mut self, other: &mut Alone<'_>, offset: usize) {
        let tail = |model: &Alone<'_>, start| model.content().unwrap_or_default()[start..].to_vec();
        let (mine, theirs) = (tail(self, offset), tail(other, offset));
        self.resize(offset);
        self.room(offset, theirs.len()).copy_from_slice(&theirs);
        other.resize(offset);
        other.room(offset, mine.len()).copy_from_slice(&mine);
    }

    /// Swaps what two models say.
    pub(super) fn swap(&mut self, other: &mut Alone<'_>) {
        self.0.map.swap_with_slice(&mut other.0.map);
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        // It was locked: this cannot fail.
        let _ = flock(&self.0.file, FlockOperation::Unlock);
    }
}
