// SPDX-License-Identifier: GPL-2.0-only

//! Admission of one pool, which decides whether folios are put. [`ddcore::policy`] decides, and
//! [`ddcore::curve`] measures the hits that the pool would have with other sizes; this file adds a
//! lock and memory.
//!
//! Hooks ask with interrupts off and `i_pages` locked, so that deciding neither sleeps nor
//! allocates. Memory is allocated when the pool is opened or its policy changes.

use crate::lock::{new_irq_lock, IrqLock};
use crate::memory::gfp_nowarn;
use ddabi::answer::PoolPressure;
use ddabi::counters::{AdmissionCounters, CurvePoint};
use ddabi::key::{FileKey, PageKey};
use ddabi::pool::SsdAdmit;
use ddcore::curve::{Curve, Slot};
use ddcore::policy::shadow::Cell;
use ddcore::policy::{
    sketch, Admission, Class, Names, PageName, Policy, Pressure, Refusal, Verdict,
};
use ddcore::request::Settings;
use kernel::prelude::*;
use kernel::sync::atomic::{ordering::Relaxed, Atomic};

/// Nanoseconds after which the reported pressure of a pool is outdated. Only answers to puts report
/// it, so that a pool without puts receives no reports.
const FRESH_NS: u64 = 1_000_000_000;
/// Largest capacity of a pool in pages. It keeps products within 64 bits.
const MAX_CAPACITY: u64 = 1 << 36;
/// Number of cells of the small caches of the policy `adaptive`.
const CELLS: usize = 3 * 4096;
/// Number of slots of a curve. With this number its error is about 2 %.
const SLOTS: usize = 2048;
/// If the budget does not allow the full size, the size divided by this is tried.
const FALLBACK_DIVISOR: usize = 4;

/// Memory that `ddcore` works on.
struct Memory<T>(KVVec<T>);

impl<T: Copy + Default> Memory<T> {
    const fn empty() -> Self {
        Self(KVVec::new())
    }

    fn new(count: usize) -> Option<Self> {
        KVVec::from_elem(T::default(), count, gfp_nowarn())
            .ok()
            .map(Self)
    }
}

impl<T> AsRef<[T]> for Memory<T> {
    fn as_ref(&self) -> &[T] {
        &self.0
    }
}

impl<T> AsMut<[T]> for Memory<T> {
    fn as_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

type PolicyAdmission = Admission<Memory<u64>, Memory<Cell>>;
type PoolCurve = Curve<Memory<Slot>>;

/// The memory that the history of all pools may take together.
pub(crate) struct Budget {
    limit: u64,
    allocated: Atomic<u64>,
    /// Words of a sketch. They suffice for all pages of the VM, up to a limit.
    words: usize,
}

impl Budget {
    /// Returns a budget of `limit` bytes, for a VM with `memory` bytes.
    pub(crate) fn new(limit: u64, memory: u64) -> Self {
        const MAX_PAGES: u64 = 512 << 10;
        let pages = (memory / ddabi::PAGE_SIZE as u64).min(MAX_PAGES);
        Self {
            limit,
            allocated: Atomic::new(0),
            words: sketch::words(pages as usize),
        }
    }

    /// Allocates a block of `count` elements. The block is smaller or empty if the budget or memory
    /// is short. Sleeps.
    fn allocate<T: Copy + Default>(&self, count: usize) -> Memory<T> {
        for count in [count, count / FALLBACK_DIVISOR] {
            let bytes = (count * size_of::<T>()) as u64;
            if self.allocated.fetch_add(bytes, Relaxed) + bytes <= self.limit {
                if let Some(block) = Memory::new(count) {
                    return block;
                }
            }
            self.allocated.fetch_sub(bytes, Relaxed);
        }
        Memory::empty()
    }

    fn release(&self, bytes: usize) {
        self.allocated.fetch_sub(bytes as u64, Relaxed);
    }
}

/// The settings of a pool that its admission depends on.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) struct Rule {
    policy: Policy,
    /// Whether pages that left before are marked by their class, because only they go to SSDs.
    proves: bool,
}

impl Rule {
    /// The rule of a slot without a pool.
    const NONE: Self = Self {
        policy: Policy::Fifo,
        proves: false,
    };

    /// Returns the rule that the settings of a pool give.
    pub(crate) fn of(settings: &Settings) -> Self {
        Self {
            policy: settings.policy,
            proves: settings.ssd_share() > 0 && settings.ssd_admit != SsdAdmit::All,
        }
    }
}

/// The history of a pool, which is data about pages that the pool does not have.
struct History {
    admission: PolicyAdmission,
    rule: Rule,
    /// Bytes of the admission's memory.
    bytes: usize,
    /// The hits that the pool would have with other sizes; `None` in a slot without a pool.
    curve: Option<PoolCurve>,
    /// Bytes of the curve's memory.
    curve_bytes: usize,
}

impl History {
    const fn bytes(&self) -> usize {
        self.bytes + self.curve_bytes
    }
}

/// Maximum number of pages whose reads are recorded at a time.
const MAX_RECORDED: u32 = 128;

/// Returns an admission with the memory that its rule needs, and the size of that memory in bytes.
/// Sleeps.
fn admission(rule: Rule, budget: &Budget) -> (PolicyAdmission, usize) {
    let policy = rule.policy;
    let words = match policy {
        Policy::Adaptive | Policy::Tinylfu | Policy::S3 => budget.allocate(budget.words),
        Policy::Fifo | Policy::Workingset | Policy::Mru => Memory::empty(),
    };
    let cells = match policy {
        Policy::Adaptive => budget.allocate(CELLS),
        _ => Memory::empty(),
    };
    let mut bytes = size_of_val(words.as_ref()) + size_of_val(cells.as_ref());
    let mut admission = Admission::new(policy, words, cells);
    if rule.proves && policy != Policy::S3 {
        let proof = budget.allocate(budget.words);
        bytes += size_of_val(proof.as_ref());
        admission.prove(proof);
    }
    (admission, bytes)
}

/// The admission of one pool.
#[pin_data]
pub(crate) struct PoolAdmission {
    #[pin]
    history: IrqLock<History>,
    /// The last pressure that the host reported for the pool: pages << 3 | full << 2 | floor.
    pressure: Atomic<u64>,
    /// Time at which the host reported it, in nanoseconds of the caller's clock.
    pressure_at: Atomic<u64>,
    /// Number of pages that were offered.
    offered: Atomic<u64>,
    /// Number of pages that the policy refused.
    refused_policy: Atomic<u64>,
    /// Number of pages that were refused because puts of the pool are throttled.
    refused_throttle: Atomic<u64>,
}

impl PoolAdmission {
    /// Returns an admission without history, for a slot without a pool.
    pub(crate) fn new() -> impl PinInit<Self> {
        let history = History {
            admission: Admission::new(Policy::Fifo, Memory::empty(), Memory::empty()),
            rule: Rule::NONE,
            bytes: 0,
            curve: None,
            curve_bytes: 0,
        };
        pin_init!(Self {
            history <- new_irq_lock!(history, "PoolAdmission::history"),
            pressure: Atomic::new(0),
            pressure_at: Atomic::new(0),
            offered: Atomic::new(0),
            refused_policy: Atomic::new(0),
            refused_throttle: Atomic::new(0),
        })
    }

    /// Opens the admission for a pool, with fresh counters. Sleeps.
    pub(crate) fn open(&self, rule: Rule, budget: &Budget) {
        self.close(budget);
        for counter in [
            &self.pressure,
            &self.offered,
            &self.refused_policy,
            &self.refused_throttle,
        ] {
            counter.store(0, Relaxed);
        }
        self.replace(rule, budget);
        let slots = budget.allocate(SLOTS);
        let bytes = size_of_val(slots.as_ref());
        let curve = Curve::new(slots);
        self.history.with(|history| {
            history.curve = Some(curve);
            history.curve_bytes = bytes;
        });
    }

    /// Frees the memory, because the pool was removed. Sleeps.
    pub(crate) fn close(&self, budget: &Budget) {
        let mut curve = None;
        let bytes = self.history.with(|history| {
            curve = history.curve.take();
            core::mem::take(&mut history.curve_bytes)
        });
        drop(curve);
        budget.release(bytes);
        self.replace(Rule::NONE, budget);
    }

    /// Changes the rule. The history of the old one is dropped. Sleeps.
    pub(crate) fn set_rule(&self, rule: Rule, budget: &Budget) {
        if self.history.with(|history| history.rule) != rule {
            self.replace(rule, budget);
        }
    }

    fn replace(&self, rule: Rule, budget: &Budget) {
        // The old memory is freed first, so that the budget suffices for the new memory.
        let nothing = Admission::new(rule.policy, Memory::empty(), Memory::empty());
        self.exchange(nothing, (rule, 0), budget);
        let (admission, bytes) = admission(rule, budget);
        self.exchange(admission, (rule, bytes), budget);
    }

    fn exchange(
        &self,
        mut admission: PolicyAdmission,
        (rule, bytes): (Rule, usize),
        budget: &Budget,
    ) {
        let bytes = self.history.with(|history| {
            core::mem::swap(&mut history.admission, &mut admission);
            history.rule = rule;
            core::mem::replace(&mut history.bytes, bytes)
        });
        // Memory is freed without the lock.
        drop(admission);
        budget.release(bytes);
    }

    /// Records the pressure that the host reports for the pool. Any context.
    pub(crate) fn note_pressure(&self, pressure: &PoolPressure, now: u64) {
        let floor = Class::new(pressure.floor).number() as u64;
        let full = u64::from(pressure.full != 0);
        let word = pressure.capacity.min(MAX_CAPACITY) << 3 | full << 2 | floor;
        self.pressure.store(word, Relaxed);
        self.pressure_at.store(now, Relaxed);
    }

    fn pressure(&self, now: u64) -> Pressure {
        let word = self.pressure.load(Relaxed);
        let fresh = now.saturating_sub(self.pressure_at.load(Relaxed)) < FRESH_NS;
        Pressure {
            capacity: word >> 3,
            full: word & 4 != 0 && fresh,
            floor: Class::new(word as u8 & 3),
        }
    }

    /// Decides whether a folio of `pages` pages from `index` on, which reclaim removes, is put, and
    /// in which class. Any context.
    pub(crate) fn decide(
        &self,
        file: &FileKey,
        index: u64,
        pages: u32,
        refaulted: bool,
        now: u64,
    ) -> Verdict {
        let pressure = self.pressure(now);
        let first = PageName::of(&PageKey { file: *file, index });
        let verdict = self.history.with(|history| {
            let History {
                admission, curve, ..
            } = history;
            let names = Names::of(file).run(index, pages).inspect(|name| {
                if let Some(curve) = curve {
                    curve.left(name.page);
                }
            });
            let class = admission.leave(names, &pressure);
            admission.decide(&first, pages.into(), class, refaulted, &pressure)
        });
        let pages = u64::from(pages);
        self.offered.fetch_add(pages, Relaxed);
        match verdict {
            Verdict::Put(_) => {}
            Verdict::Refuse(Refusal::Policy) => {
                self.refused_policy.fetch_add(pages, Relaxed);
            }
            Verdict::Refuse(Refusal::Throttle) => {
                self.refused_throttle.fetch_add(pages, Relaxed);
            }
        }
        verdict
    }

    /// Records runs of pages that were read while they were not in the page cache: first page,
    /// number of pages, and whether the host returned them. Any context.
    pub(crate) fn record_reads(
        &self,
        file: &FileKey,
        runs: impl Iterator<Item = (u64, u32, bool)>,
    ) {
        let names = Names::of(file);
        let parts = runs.flat_map(|(index, pages, hit)| {
            let parts = (0..pages).step_by(MAX_RECORDED as usize);
            parts.map(move |at| {
                let rest = (pages - at).min(MAX_RECORDED);
                (index + u64::from(at), rest, hit)
            })
        });
        let mut parts = parts.peekable();
        while parts.peek().is_some() {
            // Each step holds the lock, with interrupts disabled.
            self.history.with(|history| {
                let mut recorded = 0;
                let fits = |recorded, pages| recorded + pages <= MAX_RECORDED;
                while let Some((index, pages, hit)) = parts.next_if(|part| fits(recorded, part.1)) {
                    recorded += pages;
                    for name in names.run(index, pages) {
                        history.admission.missed(&name, hit);
                        if let Some(curve) = &mut history.curve {
                            curve.read(name.page);
                        }
                    }
                }
            });
        }
    }

    /// Halves the counters of the curve, so that it follows the load.
    pub(crate) fn fade(&self) {
        self.history.with(|history| {
            if let Some(curve) = &mut history.curve {
                curve.fade();
            }
        });
    }

    /// Returns the counters of decisions so far.
    pub(crate) fn counters(&self) -> AdmissionCounters {
        let mut counters = AdmissionCounters {
            offered: self.offered.load(Relaxed),
            refused_policy: self.refused_policy.load(Relaxed),
            refused_throttle: self.refused_throttle.load(Relaxed),
            ..AdmissionCounters::default()
        };
        self.history.with(|history| {
            counters.way = history.admission.way() as u64;
            counters.throttle = history.admission.throttle().level().into();
            counters.history_bytes = history.bytes() as u64;
            if let Some(curve) = &history.curve {
                counters.reads = curve.reads();
                counters.curve_error_permille = curve.error_permille().into();
            }
        });
        counters
    }

    /// Writes those points of the curve that differ from the previous point, and returns their
    /// number.
    pub(crate) fn curve(&self, to: &mut [CurvePoint]) -> usize {
        let mut count = 0;
        self.history.with(|history| {
            let Some(curve) = &history.curve else { return };
            let mut hits = 0;
            for point in curve.points().filter(|point| {
                let differs = point.hits != hits;
                hits = point.hits;
                differs
            }) {
                if let Some(place) = to.get_mut(count) {
                    *place = CurvePoint {
                        pages: point.pages,
                        hits: point.hits,
                    };
                    count += 1;
                }
            }
        });
        count
    }
}
