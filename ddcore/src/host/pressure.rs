// SPDX-License-Identifier: GPL-2.0

//! How pools stand, for guests to decide what is worth a put: what a pool may hold, whether it is
//! full, and which of its classes would give.
//!
//! Capacities take time in proportion to VMs and pools. So they are read now and then, for all
//! pools of a session together, and answers repeat what was read last.

use super::evict::entities;
use super::list::victim;
use super::room::{entitle, Host, Parts, Roster, Vm};
use super::session::Session;
use crate::number::Number;
use crate::partition;
use crate::policy::pressure::{capacities, capacity, is_full};
use crate::policy::Order;
use crate::store::BLOCK_PAGES;
use ddabi::answer::PoolPressure;
use ddabi::genl::Mode;
use ddabi::request::Run;

/// After this time gauges are read again, however little happened.
const AGE_NS: u64 = 100_000_000;

/// Gauges are read again when this part of an eviction batch came or was asked for.
const BATCH_SHARE: u64 = 4;

/// More pages than an eviction batch has.
const ENOUGH: u64 = u32::MAX as u64;

/// What was last read of a pool.
#[derive(Debug)]
pub struct Gauge<N> {
    capacity: N,
    held: N,
}

impl<N: Number> Gauge<N> {
    /// Makes the gauge of a pool that was not looked at yet.
    pub fn new() -> Self {
        Self {
            capacity: N::new(0),
            held: N::new(0),
        }
    }
}

impl<N: Number> Default for Gauge<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// When the gauges of a session were last read.
#[derive(Debug)]
pub(super) struct Reading<N> {
    /// The time of the last reading, in nanoseconds.
    at: N,
    /// Pages that came or were asked for since.
    moved: N,
}

impl<N: Number> Reading<N> {
    /// Makes the state before the first reading.
    pub(super) fn new() -> Self {
        Self {
            at: N::new(0),
            moved: N::new(ENOUGH),
        }
    }

    /// Makes the next answer read the gauges again.
    pub(super) fn expire(&self) {
        self.moved.swap(ENOUGH);
    }

    /// Returns whether it is time to read them. The caller that gets `true` must do so; concurrent
    /// callers usually get `false`.
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

/// Returns how the pool of a run stands. `pages` were put or asked for by the call, at `now` in
/// nanoseconds.
#[inline(never)]
pub fn pressure<H: Host>(
    (host, session, vm): (&H, &H::Session, u32),
    run: &Run,
    pages: u64,
    now: u64,
) -> PoolPressure {
    let (Some(gauge), Some(order)) = (session.gauge(run.pool), session.order(run.pool)) else {
        return PoolPressure::default();
    };
    if !session.is_live(run.pool) {
        return PoolPressure::default();
    }
    let tier = host.tier();
    let batch = tier.batch();
    // With many pools it takes longer, and is done less often.
    let enough = (batch / BATCH_SHARE).max(u64::from(session.pool_count()));
    let reading = &session.ledger().reading;
    if reading.is_due(now, pages, enough) && !read_gauges((host, session, vm)) {
        reading.expire();
    }
    let tier_is_full = is_full(tier.used(), tier.limit(), batch);
    let (capacity, full) = match tier.mode() {
        Mode::Weighted => {
            let capacity = gauge.capacity.load();
            let full = is_full(gauge.held.load(), capacity, batch);
            (capacity, tier_is_full && full)
        }
        // There are no shares: age alone decides which pages are evicted.
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

/// Returns the class of a run's pool that would give, by what one of the shards holds; the runs of
/// a scan look at the shards in turn.
fn floor<S: Session>(session: &S, run: &Run, order: Order) -> u8 {
    let now = session.now();
    let turn = run.index as usize / BLOCK_PAGES;
    let class = session.with(turn % S::SHARDS, |store| {
        victim(store, run.pool, order, now)
    });
    class.unwrap_or(0)
}

/// Reads the gauges of all pools of a session. Returns `false` if an eviction is under way.
fn read_gauges<H: Host>((host, session, vm): (&H, &H::Session, u32)) -> bool {
    let Some(mut roster) = host.try_lock() else {
        return false;
    };
    let batch = host.tier().batch();
    host.recover();
    entitle(&mut *roster, host.tier().limit());
    let Parts {
        vms,
        entities: entitled,
        pools,
    } = roster.parts();
    let at = vms.iter().position(|one| one.number() == vm);
    let pages = at.map_or(0, |at| capacity(entitled, at, batch));
    let pools = entities(session, pools);
    partition::entitle(pools, pages);
    for ((number, capacity), pool) in (0..).zip(capacities(pools, batch)).zip(pools.iter()) {
        if let Some(gauge) = session.gauge(number) {
            gauge.capacity.swap(capacity);
            gauge.held.swap(pool.used);
        }
    }
    true
}
