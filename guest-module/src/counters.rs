// SPDX-License-Identifier: GPL-2.0-only

//! The module's counters: one cell for each field of [`GuestCounters`] on each CPU, because hooks
//! count on all CPUs at all times. Only the sum over all CPUs is meaningful.

use crate::memory::gfp_nowarn;
use ddabi::counters::GuestCounters;
use ddabi::pool::{histogram_bucket, HISTOGRAM_BUCKETS};
use kernel::cpu::{nr_cpu_ids, CpuId};
use kernel::prelude::*;
use kernel::sync::atomic::{ordering::Relaxed, Atomic};
use kernel::time::{Instant, Monotonic};
use zerocopy::{FromBytes, IntoBytes};

const CELLS: usize = size_of::<GuestCounters>() / size_of::<u64>();

/// The cells of each CPU. A task that migrates between finding its cells and adding to them adds to
/// the cells of another CPU, which is correct because the cells are atomic.
pub(crate) struct Counters(KVec<KBox<[Atomic<u64>; CELLS]>>);

/// Adds to a field of the counters: `count!(state, put_stored, pages)`.
macro_rules! count {
    ($state:expr, $field:ident, $by:expr) => {
        $state.counters().add(
            core::mem::offset_of!(ddabi::counters::GuestCounters, $field) / size_of::<u64>(),
            u64::from($by),
        )
    };
    ($state:expr, $field:ident) => {
        $crate::counters::count!($state, $field, 1u32)
    };
}
pub(crate) use count;

impl Counters {
    /// Allocates counters that are all zero. Sleeps.
    pub(crate) fn new() -> Result<Self> {
        let mut cpus = KVec::new();
        for _ in 0..nr_cpu_ids() {
            let cells = KBox::new([const { Atomic::new(0) }; CELLS], gfp_nowarn())?;
            cpus.push(cells, gfp_nowarn())?;
        }
        Ok(Self(cpus))
    }

    /// Adds `by` to a cell. Use [`count!`].
    pub(crate) fn add(&self, cell: usize, by: u64) {
        let cells = self.0.get(CpuId::current().as_u32() as usize);
        if let Some(cells) = cells.filter(|_| by > 0) {
            cells[cell].add(by, Relaxed);
        }
    }

    /// Adds a get call that began at `start` to the histogram of latencies.
    pub(crate) fn got(&self, start: Instant<Monotonic>) {
        self.took(core::mem::offset_of!(GuestCounters, get_latency), start);
    }

    /// Adds a put call that began at `start` to the histogram of latencies.
    pub(crate) fn put(&self, start: Instant<Monotonic>) {
        self.took(core::mem::offset_of!(GuestCounters, put_latency), start);
    }

    fn took(&self, histogram: usize, start: Instant<Monotonic>) {
        let nanoseconds = start.elapsed().as_nanos().max(0) as u64;
        let bucket = histogram_bucket(nanoseconds);
        debug_assert!(bucket < HISTOGRAM_BUCKETS);
        self.add(histogram / size_of::<u64>() + bucket, 1);
    }

    /// Returns the sums over all CPUs. Gauges are 0. The result is not a consistent snapshot.
    pub(crate) fn snapshot(&self) -> GuestCounters {
        let mut cells = [0u64; CELLS];
        for counted in &self.0 {
            for (sum, cell) in cells.iter_mut().zip(counted.iter()) {
                *sum += cell.load(Relaxed);
            }
        }
        GuestCounters::read_from_bytes(cells.as_bytes()).unwrap_or_default()
    }
}
