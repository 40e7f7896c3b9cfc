// SPDX-License-Identifier: GPL-2.0

//! Copies the host holds in vain. Telling it frees its memory earlier and is never needed for
//! correctness, so what does not fit is forgotten (invariant 2).

use crate::ffi::worker::Worker;
use crate::lock::{new_irq_lock, IrqLock};
use crate::memory::quietly;
use ddabi::key::FileKey;
use ddabi::request::{FlushRange, FlushScope};
use kernel::prelude::*;

/// Ranges that wait at a time.
const MAX_RANGES: usize = 512;

/// Ranges waiting to be sent.
#[pin_data]
pub(crate) struct Flushes {
    #[pin]
    waiting: IrqLock<KVec<FlushRange>>,
}

impl Flushes {
    /// None waiting.
    pub(crate) fn new() -> Result<impl PinInit<Self>> {
        let waiting = KVec::with_capacity(MAX_RANGES, quietly())?;
        Ok(pin_init!(Self { waiting <- new_irq_lock!(waiting, "Flushes::waiting") }))
    }

    fn push(&self, range: FlushRange) {
        let half = self.waiting.with(|waiting| {
            if let Some(last) = waiting.last_mut() {
                // Neighbours, as reclaim and truncation bring them.
                if last.file == range.file
                    && last.scope == range.scope
                    && last.scope == FlushScope::Pages as u32
                    && last.last.checked_add(1) == Some(range.first)
                {
                    last.last = range.last;
                    return false;
                }
            }
            let _ = waiting.push_within_capacity(range);
            waiting.len() == MAX_RANGES / 2
        });
        if half {
            Worker::hurry();
        }
    }

    /// Pages `first..=last` of a file are held in vain. Any context.
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

    /// All pages of a filesystem are held in vain.
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

    /// Takes up to `into.len()` ranges and returns their number.
    pub(crate) fn take(&self, into: &mut [FlushRange]) -> usize {
        self.waiting.with(|waiting| {
            let count = waiting.len().min(into.len());
            for place in &mut into[..count] {
                if let Some(range) = waiting.pop() {
                    *place = range;
                }
            }
            count
        })
    }

    /// Has ranges wait again that the host has not finished with: they are the next that are sent.
    pub(crate) fn put_back(&self, ranges: impl Iterator<Item = FlushRange>) {
        self.waiting.with(|waiting| {
            for range in ranges {
                let _ = waiting.push_within_capacity(range);
            }
        });
    }

    /// Forgets all: the host has nothing any more.
    pub(crate) fn clear(&self) {
        self.waiting.with(KVec::clear);
    }
}
