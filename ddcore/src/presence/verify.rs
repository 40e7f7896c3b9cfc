// SPDX-License-Identifier: GPL-2.0-only

//! Verification of the invariants of a shard.

use super::chunk::ChunkSlot;
use super::file::FileSlot;
use super::shard::{count, Shard};
use super::slots::{Link, Slot, Slots};
use super::table::Table;

impl<F, C> Shard<F, C>
where
    F: Slots<Slot = FileSlot>,
    C: Slots<Slot = ChunkSlot>,
{
    /// Checks lists, chains and counters, in time proportional to the number of slots. This is for
    /// tests. The error describes the violated invariant.
    pub fn verify(&self) -> Result<(), &'static str> {
        self.files.verify(|file| file.chunks > 0)?;
        self.chunks.verify(|chunk| chunk.file != Link::NONE)?;
        let (mut present, mut going) = (0, 0);
        for chunk in (0..self.chunks.adopted()).filter_map(|slot| self.chunks.get(slot)) {
            present += count(chunk.bits.present());
            going += count(chunk.bits.going());
            ensure(
                chunk.bits.is_empty() == (chunk.file == Link::NONE),
                "an empty chunk is kept, or a free one has pages",
            )?;
        }
        ensure(present == self.present, "present pages are miscounted")?;
        ensure(
            going == self.going,
            "pages with a put in flight are miscounted",
        )?;
        let (mut chunks, mut outdated) = (0, 0);
        for owner in 0..self.files.adopted() {
            chunks += self.verify_file(owner)?;
            outdated += u32::from(self.files.get(owner).is_some_and(|file| file.outdated));
        }
        ensure(outdated == self.outdated, "outdated files are miscounted")?;
        ensure(chunks == self.chunks.used(), "a chunk is on no file's list")
    }

    /// Returns the number of chunks on the list of the file in slot `owner`.
    fn verify_file(&self, owner: u32) -> Result<u32, &'static str> {
        let file = self.files.get(owner).ok_or("a file is missing")?;
        let (mut at, mut before, mut chunks) = (file.first, Link::NONE, 0);
        while let Some(slot) = at.slot() {
            let chunk = self.chunks.get(slot).ok_or("a chunk is missing")?;
            ensure(
                chunk.file == Link::to(owner),
                "a chunk is on another file's list",
            )?;
            ensure(
                chunk.before == before,
                "a file's list is not linked backwards",
            )?;
            let found = self.find_chunk(owner, chunk.number);
            ensure(found == Some(slot), "a chunk is not found")?;
            chunks += 1;
            ensure(
                chunks <= file.chunks,
                "a file's list is longer than counted",
            )?;
            (before, at) = (at, chunk.after);
        }
        ensure(
            chunks == file.chunks,
            "a file's list is shorter than counted",
        )?;
        Ok(chunks)
    }
}

impl<S: Slots> Table<S> {
    /// Checks that each slot is on the free list or in its chain.
    fn verify(&self, is_used: impl Fn(&S::Slot) -> bool) -> Result<(), &'static str> {
        let (mut used, mut free) = (0, 0);
        for bucket in 0..self.adopted() {
            let chain = self.get(bucket).ok_or("a slot is missing")?;
            let mut at = chain.links().bucket;
            while let Some(slot) = at.slot() {
                let entry = self.get(slot).ok_or("a chain leaves the table")?;
                ensure(is_used(entry), "a free slot is in a chain")?;
                ensure(
                    self.bucket(entry.identity()) == bucket,
                    "an entry is in a wrong chain",
                )?;
                used += 1;
                ensure(used <= self.adopted(), "a chain is endless")?;
                at = entry.links().next;
            }
        }
        let mut at = self.free();
        while let Some(slot) = at.slot() {
            let entry = self.get(slot).ok_or("the free list leaves the table")?;
            ensure(!is_used(entry), "a slot in use is on the free list")?;
            free += 1;
            ensure(free <= self.adopted(), "the free list is endless")?;
            at = entry.links().next;
        }
        ensure(used == self.used(), "entries are miscounted")?;
        ensure(used + free == self.adopted(), "a slot is lost")
    }
}

fn ensure(holds: bool, otherwise: &'static str) -> Result<(), &'static str> {
    if holds {
        Ok(())
    } else {
        Err(otherwise)
    }
}
