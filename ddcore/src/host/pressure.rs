// SPDX-License-Identifier: GPL-2.0-only

//! State of pools, which guests use for admission: the number of pages that a pool may have,
//! whether it is full, and the class from which a page would be evicted.
//!
//! The time to compute capacities is proportional to the number of pools of the VM. They are
//! therefore computed at intervals, for all pools of a session at once, and answers report the last
//! values.

use super::evict::entities;
use super::list::victim;
use super::room::{Host, Origin};
use super::session::Session;
use super::standing;
use crate::index::BLOCK_PAGES;
use crate::number::Number;
use crate::partition::{self, Sums};
use crate::policy::pressure::is_full;
use crate::policy::Order;
use ddabi::answer::PoolPressure;
use ddabi::genl::Mode;
use ddabi::request::Run;

/// Capacities are computed again after this time in nanoseconds.
const AGE_NS: u64 = 100_000_000;

/// Capacities are computed again when one part in this many of an eviction batch was put or
/// requested.
const BATCH_SHARE: u64 = 4;

/// Minimum number of pages for each pool that are put or requested before capacities are computed
/// again, so that the cost per page does not grow with the number of pools.
const POOL_SHARE: u64 = 4;

/// A number that exceeds the size of any eviction batch.
const ENOUGH: u64 = u32::MAX as u64;

/// State of a pool.
#[derive(Debug)]
pub struct Gauge<N> {
    /// Number of pages that the pool may have, as it was computed last.
    capacity: N,
    /// Number of pages that the pool has in the memory tier.
    pub(super) held: N,
    /// Number of pages that the pool has in the SSD tier.
    pub(super) ssd: N,
}

impl<N: Number> Gauge<N> {
    /// Creates the gauge of a pool without pages, whose capacity has not been computed yet.
    pub fn new() -> Self {
        Self {
            capacity: N::new(0),
            held: N::new(0),
            ssd: N::new(0),
        }
    }

    /// Returns the number of pages that the pool holds in the memory tier.
    pub fn held(&self) -> u64 {
        self.held.load()
    }

    /// Returns the number of pages that the pool holds in the SSD tier.
    pub fn ssd(&self) -> u64 {
        self.ssd.load()
    }
}

impl<N: Number> Default for Gauge<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// The last time at which the gauges of a session were computed.
#[derive(Debug)]
pub(super) struct Reading<N> {
    /// The time in nanoseconds.
    at: N,
    /// The number of pages put or requested since then.
    moved: N,
}

impl<N: Number> Reading<N> {
    /// Creates the state before the first computation.
    pub(super) fn new() -> Self {
        Self {
            at: N::new(0),
            moved: N::new(ENOUGH),
        }
    }

    /// Makes the next answer compute the gauges again.
    pub(super) fn expire(&self) {
        self.moved.swap(ENOUGH);
    }

    /// Returns whether the gauges have to be computed again. A caller that gets `true` must do
    /// that; concurrent callers usually get `false`.
    fn is_due(&self, now: u64, pages: u64, enough: u64) -> bool {
        self.moved.add(pages);
        let due = self.moved.load() >= enough || now.saturating_sub(self.at.load()) >= AGE_NS;
        if due {
            self.moved.swap(0);
            self.at.swap(now);
        }
        due
    }
}

/// Returns the state of the pool of a run. `pages` is the number of pages of the call, and `now`
/// the time in nanoseconds.
#[inline(never)]
pub fn pressure<H: Host>(origin: &Origin<'_, H>, run: &Run, pages: u64, now: u64) -> PoolPressure {
    let (host, session) = (origin.host, origin.session);
    let (Some(gauge), Some(order)) = (session.gauge(run.pool), session.order(run.pool)) else {
        return PoolPressure::default();
    };
    if !session.is_live(run.pool) {
        return PoolPressure::default();
    }
    let tier = host.tier();
    let batch = tier.batch();
    let pools = u64::from(session.pool_count());
    let enough = (batch / BATCH_SHARE).max(POOL_SHARE * pools);
    let reading = &session.state().reading;
    if reading.is_due(now, pages, enough) && !read_gauges(origin) {
        reading.expire();
    }
    let tier_is_full = is_full(tier.used(), tier.limit(), batch);
    let (capacity, full) = match tier.mode() {
        Mode::Weighted => {
            let capacity = gauge.capacity.load();
            let full = is_full(gauge.held(), capacity, batch);
            (capacity, tier_is_full && full)
        }
        // In this mode pools have no parts of the tier, and victims are chosen only by age.
        Mode::GlobalFifo => (tier.limit(), tier_is_full),
    };
    let floor = match tier.mode() {
        Mode::Weighted if full => floor(session, run, order),
        _ => 0,
    };
    PoolPressure {
        capacity,
        pool: run.pool,
        known: 1,
        full: full.into(),
        floor,
        reserved: 0,
    }
}

/// Returns the class of a run's pool from which a page would be evicted, judged by the pages of one
/// shard. The shard depends on the index of the run, so that consecutive runs of a file use
/// different shards.
fn floor<S: Session>(session: &S, run: &Run, order: Order) -> u8 {
    let now = session.now();
    let turn = run.index as usize / BLOCK_PAGES;
    let class = session.with(turn % session.shards(), |index| {
        victim(index, run.pool, order, now)
    });
    class.unwrap_or(0)
}

/// Computes the capacities of all pools of a session. Returns `false` without doing so if another
/// task is choosing victims among the pools of the session.
fn read_gauges<H: Host>(origin: &Origin<'_, H>) -> bool {
    let Origin { host, vm, session } = *origin;
    let tier = host.tier();
    let batch = tier.batch();
    host.recover();
    let pages = standing::capacity(tier, vm, session.used());
    let read = session.try_with_entities(|pools| {
        let pools = entities(session, pools);
        partition::entitle(pools, pages);
        let all = Sums::of(pools, batch);
        for (number, pool) in (0..).zip(pools.iter()) {
            if let Some(gauge) = session.gauge(number) {
                let peers = all.without(&Sums::of_one(pool, batch));
                gauge.capacity.swap(partition::capacity(pool, &peers));
            }
        }
    });
    read.is_some()
}
