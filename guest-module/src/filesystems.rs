// SPDX-License-Identifier: GPL-2.0-only

//! Mounted filesystems: the table that maps a superblock to the number of the filesystem in keys. A
//! number is never reused, so that pages of an unmounted filesystem are never found.

use crate::lock::{new_irq_lock, IrqLock};
use kernel::prelude::*;
use kernel::sync::atomic::{
    ordering::{Acquire, Relaxed, Release},
    Atomic,
};

/// Maximum number of filesystems whose files are cached at a time. Files of further filesystems are
/// not cached.
const MAX_FILESYSTEMS: usize = 64;

/// A mounted filesystem.
struct Entry {
    /// The address of the superblock, or 0 if the entry is free.
    superblock: Atomic<usize>,
    /// The number of the filesystem, or 0 while it is being unmounted.
    number: Atomic<u32>,
}

impl Entry {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "only the initial value of each entry"
    )]
    const FREE: Self = Self {
        superblock: Atomic::new(0),
        number: Atomic::new(0),
    };
}

/// All filesystems with cached files. Reads of the table are lock-free.
#[pin_data]
pub(crate) struct Filesystems {
    entries: [Entry; MAX_FILESYSTEMS],
    /// Number of filesystems that were unmounted since the last [`Filesystems::take_gone`].
    gone: Atomic<u32>,
    /// The number that was assigned last. Its lock serialises changes of the table.
    #[pin]
    newest: IrqLock<u32>,
}

impl Filesystems {
    /// Returns an empty table.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            entries: [const { Entry::FREE }; MAX_FILESYSTEMS],
            gone: Atomic::new(0),
            newest <- new_irq_lock!(0, "Filesystems::newest"),
        })
    }

    fn entry(&self, superblock: usize) -> Option<&Entry> {
        self.entries
            .iter()
            .find(|entry| entry.superblock.load(Acquire) == superblock)
    }

    /// Returns the number of a filesystem that is cached and not being unmounted. Any context.
    pub(crate) fn find(&self, superblock: usize) -> Option<u32> {
        let number = self.entry(superblock)?.number.load(Relaxed);
        (number != 0).then_some(number)
    }

    /// Returns the number of a filesystem, which is added if it is new and `cacheable`. One of its
    /// files must be being read, so that the filesystem cannot be unmounted.
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

    /// Returns how many filesystems were unmounted since the last call.
    pub(crate) fn take_gone(&self) -> u32 {
        self.gone.xchg(0, Relaxed)
    }

    /// Returns whether no mounted filesystem has this number. The result for a number that was
    /// assigned does not change back after the filesystem is removed, because numbers are not
    /// reused.
    pub(crate) fn is_gone(&self, number: u32) -> bool {
        let mut entries = self.entries.iter();
        entries.all(|entry| entry.number.load(Relaxed) != number)
    }

    /// Frees the entry of a filesystem that was unmounted: another superblock may get its address.
    pub(crate) fn end_unmount(&self, superblock: usize) {
        self.newest.with(|_| {
            if let Some(entry) = self.entry(superblock) {
                entry.number.store(0, Relaxed);
                entry.superblock.store(0, Release);
            }
        });
    }

    /// Removes all filesystems, because the hooks no longer report unmounts.
    pub(crate) fn clear(&self) {
        self.newest.with(|_| {
            for entry in &self.entries {
                entry.number.store(0, Relaxed);
                entry.superblock.store(0, Release);
            }
        });
    }
}
