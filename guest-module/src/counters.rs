// SPDX-License-Identifier: GPL-2.0

//! What the module counts: one atomic cell for each field of [`GuestCounters`].

use ddabi::counters::GuestCounters;
use ddabi::pool::{histogram_bucket, HISTOGRAM_BUCKETS};
use kernel::sync::atomic::{ordering::Relaxed, Atomic};
use kernel::time::{Instant, Monotonic};
use zerocopy::{FromBytes, IntoBytes};

const CELLS: usize = size_of::<GuestCounters>() / size_of::<u64>();

/// The counters.
pub(crate) struct Counters([Atomic<u64>; CELLS]);

/// Adds to a field of the counters: `count!(guest, put_stored, pages)`.
macro_rules! count {
    ($guest:expr, $field:ident, $by:expr) => {
        $guest.counters.add(
            core::mem::offset_of!(ddabi::counters::GuestCounters, $field) / size_of::<u64>(),
            u64::from($by),
        )
    };
    ($guest:expr, $field:ident) => {
        $crate::counters::count!($guest, $field, 1u32)
    };
}
pub(crate) use count;

impl Counters {
    /// All zero.
    pub(crate) fn new() -> Self {
        Self([const { Atomic::new(0) }; CELLS])
    }

    /// Adds to a cell; use [`count!`].
    pub(crate) fn add(&self, cell: usize, by: u64) {
        if by > 0 {
            self.0[cell].fetch_add(by, Relaxed);
        }
    }

    /// Counts a get call that began at `start`.
    pub(crate) fn got(&self, start: Instant<Monotonic>) {
        self.took(core::mem::offset_of!(GuestCounters, get_latency), start);
    }

    /// Counts a put call that began at `start`.
    pub(crate) fn put(&self, start: Instant<Monotonic>) {
        self.took(core::mem::offset_of!(GuestCounters, put_latency), start);
    }

    fn took(&self, histogram: usize, start: Instant<Monotonic>) {
        let nanoseconds = start.elapsed().as_nanos().max(0) as u64;
        let bucket = histogram_bucket(nanoseconds);
        debug_assert!(bucket < HISTOGRAM_BUCKETS);
        self.add(histogram / size_of::<u64>() + bucket, 1);
    }

    /// The counters as they are now, gauges still zero.
    pub(crate) fn snapshot(&self) -> GuestCounters {
        let mut cells = [0u64; CELLS];
        for (copy, cell) in cells.iter_mut().zip(&self.0) {
            *copy = cell.load(Relaxed);
        }
        GuestCounters::read_from_bytes(cells.as_bytes()).unwrap_or_default()
    }
}
