// SPDX-License-Identifier: GPL-2.0-only

//! Page ranges that the guest no longer needs and the host can free.
//!
//! The bits of these pages in the map are cleared already, so that flushes are never needed for
//! correctness (invariant 2).

use crate::ffi::worker::Worker;
use crate::lock::{new_irq_lock, IrqLock};
use crate::memory::gfp_nowarn;
use ddabi::key::FileKey;
use ddabi::request::{FlushRange, FlushScope};
use ddcore::flush_queue::FlushQueue;
use kernel::prelude::*;
use kernel::sync::atomic::{ordering::Relaxed, Atomic};

/// Maximum number of ranges that wait to be sent.
const MAX_RANGES: usize = 512;

/// Ranges that wait to be sent to the host.
#[pin_data]
pub(crate) struct Flushes {
    #[pin]
    waiting: IrqLock<FlushQueue<KVec<FlushRange>>>,
    /// Number of ranges that were taken last, which the worker sends.
    taken: Atomic<u64>,
}

impl Flushes {
    /// Allocates an empty list. Sleeps.
    pub(crate) fn new() -> Result<impl PinInit<Self>> {
        let buffer = KVec::from_elem(FlushRange::default(), MAX_RANGES, gfp_nowarn())?;
        let waiting = FlushQueue::new(buffer);
        Ok(pin_init!(Self {
            waiting <- new_irq_lock!(waiting, "Flushes::waiting"),
            taken: Atomic::new(0),
        }))
    }

    fn push(&self, range: FlushRange) {
        let is_half_full = self
            .waiting
            .with(|waiting| waiting.push(range) && waiting.len() == MAX_RANGES / 2);
        if is_half_full {
            Worker::hurry();
        }
    }

    /// Queues pages `first..=last` of a file. Any context.
    pub(crate) fn push_pages(&self, file: FileKey, first: u64, last: u64) {
        let scope = FlushScope::Pages as u32;
        self.push(FlushRange {
            file,
            first,
            last,
            scope,
            reserved: 0,
        });
    }

    /// Queues all pages of a filesystem. Any context.
    pub(crate) fn push_filesystem(&self, filesystem: u32) {
        let file = FileKey {
            filesystem,
            ..FileKey::default()
        };
        let scope = FlushScope::Filesystem as u32;
        self.push(FlushRange {
            file,
            scope,
            ..FlushRange::default()
        });
    }

    /// Returns the number of ranges that wait or are being sent.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting
            .with(|waiting| waiting.len() as u64 + self.taken.load(Relaxed))
    }

    /// Moves up to `into.len()` ranges to `into` and returns their number. They count as waiting
    /// until [`Self::set_sent`]. Worker only.
    pub(crate) fn take(&self, into: &mut [FlushRange]) -> usize {
        self.waiting.with(|waiting| {
            let count = waiting.take(into);
            self.taken.store(count as u64, Relaxed);
            count
        })
    }

    /// Ends the sending of the ranges that were taken.
    pub(crate) fn set_sent(&self) {
        self.taken.store(0, Relaxed);
    }

    /// Queues ranges again that the host has not finished. They are sent before all others.
    pub(crate) fn put_back(&self, ranges: impl DoubleEndedIterator<Item = FlushRange> + Clone) {
        self.waiting.with(|waiting| waiting.put_back(ranges));
    }

    /// Drops all ranges, because the session is over and the host has no pages of it.
    pub(crate) fn clear(&self) {
        self.waiting.with(FlushQueue::clear);
    }
}
