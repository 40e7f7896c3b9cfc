// SPDX-License-Identifier: GPL-2.0-only

//! A container of a simulated VM.

use crate::host::PoolId;
use crate::page::{Page, PageMap};
use crate::pagecache::PageCache;
use crate::parameters::{UNIT_PAGES, UNITS_PER_MIB};
use crate::workload::{ANONYMOUS, Step, Workload};
use ddabi::counters::{AdmissionCounters, CurvePoint};
use ddcore::curve::{Curve, Slot};
use ddcore::policy::shadow::Cell;
use ddcore::policy::{Admission, Policy, sketch};
use std::collections::VecDeque;

/// Cells of the default policy's small caches, for pools of some hundred thousand units.
const CELLS: usize = 3 * 2048;

/// Slots of a curve, as in the guest module.
const SLOTS: usize = 2048;

/// Parameters of a container.
pub struct Container {
    /// Number of its VM.
    pub vm: usize,
    /// Limit of its page cache in MiB.
    pub limit_mib: u64,
    /// Weight of its pool.
    pub weight: u32,
    /// Policy of its pool.
    pub policy: Policy,
    /// Number of processors that it may use.
    pub processors: usize,
    /// Number of threads.
    pub threads: usize,
    /// Start time in seconds.
    pub start_s: u64,
    /// The workload that its threads execute.
    pub workload: Box<dyn Workload>,
}

/// Work done by a container.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Number of operations.
    pub operations: u64,
    /// Bytes read and written by the application.
    pub bytes: u64,
    /// Sum of the latencies of all operations in nanoseconds, without intended waits.
    pub latency: u64,
    /// Units read from disk.
    pub disk_units: u64,
    /// Units read from the SSD tier.
    pub ssd_units: u64,
    /// Units that were not found in the page cache.
    pub missed_units: u64,
}

/// A container.
pub(super) struct Running {
    pub(super) pool: PoolId,
    pub(super) cache: PageCache,
    pub(super) admission: Admission<Vec<u64>, Vec<Cell>>,
    pub(super) processors: Vec<u64>,
    pub(super) workload: Box<dyn Workload>,
    pub(super) work: Work,
    pub(super) threads: Vec<Thread>,
    pub(super) curve: Option<Curve<Vec<Slot>>>,
    /// Time in nanoseconds to compute a unit that is in neither cache, if it is computed instead of
    /// being read from disk.
    pub(super) recovery: Option<u64>,
    /// Units protected from reclaim for other containers (`memory.low`).
    pub(super) protected: usize,
    /// Units of process memory that are swapped out.
    pub(super) swapped: PageMap<()>,
}

/// A thread of a container.
#[derive(Default)]
pub(super) struct Thread {
    /// Steps of the current operation that are still to be executed.
    pub(super) steps: VecDeque<Step>,
    /// Time at which the operation began, or 0.
    pub(super) began: u64,
}

impl Running {
    /// Creates a container that has done no work yet.
    pub(super) fn new(pool: PoolId, container: Container) -> Self {
        let cells = match container.policy {
            Policy::Adaptive => CELLS,
            _ => 0,
        };
        Self {
            pool,
            cache: PageCache::new((container.limit_mib * UNITS_PER_MIB) as usize),
            admission: Admission::new(
                container.policy,
                vec![0; sketch::words(1 << 18)],
                vec![Cell::default(); cells],
            ),
            processors: vec![0; container.processors],
            workload: container.workload,
            work: Work::default(),
            threads: (0..container.threads).map(|_| Thread::default()).collect(),
            curve: None,
            recovery: None,
            protected: 0,
            swapped: PageMap::default(),
        }
    }

    /// Starts sampling the curve.
    pub(super) fn sample_curve(&mut self) {
        self.curve = Some(Curve::new(vec![Slot::default(); SLOTS]));
    }

    /// Returns what the guest module would have sampled, in pages, or `None` if the curve is not
    /// sampled.
    pub(super) fn sampled(&self) -> Option<(AdmissionCounters, Vec<CurvePoint>)> {
        let curve = self.curve.as_ref()?;
        let admission = AdmissionCounters {
            reads: curve.reads() * UNIT_PAGES,
            curve_error_permille: curve.error_permille().into(),
            ..AdmissionCounters::default()
        };
        let points = curve.points().map(|point| CurvePoint {
            pages: point.pages * UNIT_PAGES,
            hits: point.hits * UNIT_PAGES,
        });
        Some((admission, points.collect()))
    }

    /// Runs work on the processor that becomes free first, from a time on. If that is later
    /// than the present, because the thread first waits for the disk, the processor is occupied in
    /// the meantime too: no more threads of a container wait for the disk at a time than it has
    /// processors. The fitted parameters depend on this.
    pub(super) fn compute(&mut self, now: u64, time: u64) -> u64 {
        let Some(free) = self.processors.iter_mut().min() else {
            return now + time;
        };
        *free = now.max(*free) + time;
        *free
    }
}

/// Returns the page of a container's file. Containers of a VM have separate files.
pub(super) fn page_of(pool: PoolId, file: u32, index: u32) -> Page {
    Page::new(
        file & ANONYMOUS | (pool.pool as u32 + 1) << 24 | file & 0x00ff_ffff,
        index,
    )
}
