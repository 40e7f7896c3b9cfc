// SPDX-License-Identifier: GPL-2.0

//! Filesystem instances: from superblock to the number in our keys, never reused.

use crate::lock::{new_irq_lock, IrqLock};
use kernel::prelude::*;
use kernel::sync::atomic::{
    ordering::{Acquire, Relaxed, Release},
    Atomic,
};

/// Most filesystems cached at a time; further ones are left alone.
const MAX_FILESYSTEMS: usize = 64;

/// One mounted filesystem.
struct Entry {
    /// The superblock's address, 0 for a free entry.
    superblock: Atomic<usize>,
    /// Its number; 0 while it is being unmounted.
    number: Atomic<u32>,
}

/// All filesystems with cached files.
#[pin_data]
pub(crate) struct Filesystems {
    entries: [Entry; MAX_FILESYSTEMS],
    /// Numbers that were given up since [`Filesystems::take_gone`] was asked.
    gone: Atomic<u32>,
    /// Serialises changes; the number of the newest instance.
    #[pin]
    newest: IrqLock<u32>,
}

impl Filesystems {
    /// None yet.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            entries: [const { Entry { superblock: Atomic::new(0), number: Atomic::new(0) } }; MAX_FILESYSTEMS],
            gone: Atomic::new(0),
            newest <- new_irq_lock!(0, "Filesystems::newest"),
        })
    }

    fn entry(&self, superblock: usize) -> Option<&Entry> {
        self.entries
            .iter()
            .find(|entry| entry.superblock.load(Acquire) == superblock)
    }

    /// The number of a filesystem that is cached and not being unmounted. Any context.
    pub(crate) fn find(&self, superblock: usize) -> Option<u32> {
        let number = self.entry(superblock)?.number.load(Relaxed);
        (number != 0).then_some(number)
    }

    /// The number of a filesystem, a new one if it has none. It must have files being read, so
    /// that it cannot be gone already, and is added only if it is `cacheable`.
    pub(crate) fn find_or_add(
        &self,
        superblock: usize,
        cacheable: impl FnOnce() -> bool,
    ) -> Option<u32> {
        if let Some(number) = self.find(superblock) {
            return Some(number);
        }
        if !cacheable() {
            return None;
        }
        self.newest.with(|newest| {
            if let Some(entry) = self.entry(superblock) {
                let number = entry.number.load(Relaxed);
                return (number != 0).then_some(number);
            }
            let entry = self.entry(0)?;
            *newest = newest.checked_add(1)?;
            entry.number.store(*newest, Relaxed);
            entry.superblock.store(superblock, Release);
            Some(*newest)
        })
    }

    /// Marks a filesystem as unmounting, so that it is neither found nor added again. Returns its
    /// number.
    pub(crate) fn begin_unmount(&self, superblock: usize) -> Option<u32> {
        self.newest.with(|_| {
            let number = self.entry(superblock)?.number.xchg(0, Relaxed);
            if number != 0 {
                self.gone.fetch_add(1, Relaxed);
            }
            (number != 0).then_some(number)
        })
    }

    /// How many filesystems went since the last call.
    pub(crate) fn take_gone(&self) -> u32 {
        self.gone.xchg(0, Relaxed)
    }

    /// Whether this number is that of no filesystem. A number of which there are pages in the map
    /// was given out before: once it is gone, it stays so.
    pub(crate) fn is_gone(&self, number: u32) -> bool {
        let mut entries = self.entries.iter();
        entries.all(|entry| entry.number.load(Relaxed) != number)
    }

    /// Unmount is over: the address may come back as another filesystem.
    pub(crate) fn end_unmount(&self, superblock: usize) {
        self.newest.with(|_| {
            if let Some(entry) = self.entry(superblock) {
                entry.number.store(0, Relaxed);
                entry.superblock.store(0, Release);
            }
        });
    }

    /// Forgets all, when unmounts are not seen any more.
    pub(crate) fn clear(&self) {
        self.newest.with(|_| {
            for entry in &self.entries {
                entry.number.store(0, Relaxed);
                entry.superblock.store(0, Release);
            }
        });
    }
}
