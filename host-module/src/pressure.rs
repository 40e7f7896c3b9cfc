// SPDX-License-Identifier: GPL-2.0

//! How pools stand, for guests to decide what is worth a put: what a pool may hold, whether it is
//! full, and which of its classes would give.
//!
//! Capacities take time in proportion to VMs and pools. So they are read now and then, for all
//! pools of a session together, and answers repeat what was read last.

use crate::counters::Counter;
use crate::host::Host;
use crate::lists;
use crate::session::Session;
use crate::shard::SHARDS;
use crate::vm::Vm;
use ddabi::answer::PoolPressure;
use ddabi::genl::Mode;
use ddabi::request::Run;
use ddcore::partition::entitle;
use ddcore::policy::pressure::{capacities, capacity, is_full};
use ddcore::store::BLOCK_PAGES;
use kernel::time::{Instant, Monotonic};

/// After this time gauges are read again, however little happened.
const AGE_NS: u64 = 100_000_000;

/// Gauges are read again when this part of an eviction batch came or was asked for.
const BATCH_SHARE: u64 = 4;

/// What was last read of a pool.
pub(crate) struct Gauge {
    capacity: Counter,
    held: Counter,
}

impl Gauge {
    pub(crate) const fn new() -> Self {
        Self {
            capacity: Counter::new(),
            held: Counter::new(),
        }
    }
}

/// When the gauges of a session were last read.
pub(crate) struct Reading {
    born: Instant<Monotonic>,
    /// Nanoseconds from `born`.
    at: Counter,
    /// Pages that came or were asked for since.
    moved: Counter,
}

impl Reading {
    /// Never.
    pub(crate) fn new() -> Self {
        let reading = Self {
            born: Instant::now(),
            at: Counter::new(),
            moved: Counter::new(),
        };
        reading.expire();
        reading
    }

    /// Has the next answer read the gauges again.
    pub(crate) fn expire(&self) {
        self.moved.set(u64::from(u32::MAX));
    }

    /// Returns whether it is time to read them. The caller that gets `true` must do so; concurrent
    /// callers get `false`.
    fn is_due(&self, now: Instant<Monotonic>, pages: u64, enough: u64) -> bool {
        self.moved.add(pages);
        let now = (now - self.born).as_nanos().max(0) as u64;
        let due = self.moved.get() >= enough || now.saturating_sub(self.at.get()) >= AGE_NS;
        if due {
            self.moved.set(0);
            self.at.set(now);
        }
        due
    }
}

impl Session {
    /// How the pool of a run stands. `pages` were put or asked for by the call, at `now`.
    #[inline(never)]
    pub(crate) fn pressure(
        &self,
        host: &Host,
        vm: &Vm,
        run: &Run,
        pages: u64,
        now: Instant<Monotonic>,
    ) -> PoolPressure {
        let Some(pool) = self.pool(run.pool) else {
            return PoolPressure::default();
        };
        let tier = &host.tier;
        let batch = u64::from(tier.batch());
        // With many pools it takes longer, and is done less often.
        let enough = (batch / BATCH_SHARE).max(u64::from(self.pool_count()));
        if self.reading.is_due(now, pages, enough) && !self.read_gauges(host, vm) {
            self.reading.expire();
        }
        let tier_is_full = is_full(tier.used(), tier.limit(), batch);
        let (capacity, full) = match tier.mode() {
            Mode::Weighted => {
                let capacity = pool.gauge.capacity.get();
                let full = is_full(pool.gauge.held.get(), capacity, batch);
                (capacity, tier_is_full && full)
            }
            // There are no shares: age alone decides which pages are evicted.
            Mode::GlobalFifo => (tier.limit(), tier_is_full),
        };
        let floor = if full && tier.mode() == Mode::Weighted {
            self.floor(run, pool.policy().order())
        } else {
            0
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

    /// The class of a run's pool that would give, as one of the shards has it; the runs of a scan
    /// look at all of them in turn.
    fn floor(&self, run: &Run, order: ddcore::policy::Order) -> u8 {
        let now = self.clock.now();
        let turn = run.index as usize / BLOCK_PAGES;
        let class = self.shards.get(turn % SHARDS).and_then(|shard| {
            shard.with(&self.tier, |store| {
                lists::victim(store, run.pool, order, now)
            })
        });
        class.unwrap_or(0) as u8
    }

    /// Reads the gauges of all pools; `false` if an eviction is under way.
    fn read_gauges(&self, host: &Host, vm: &Vm) -> bool {
        let Some(mut roster) = host.vms.try_lock() else {
            return false;
        };
        let batch = u64::from(host.tier.batch());
        host.tier.recover();
        roster.entitle(host.tier.limit());
        let at = roster.vms().iter().position(|one| one.number == vm.number);
        let pages = at.map_or(0, |at| capacity(roster.entities(), at, batch));
        let pools = roster.scratch();
        self.entities(pools);
        entitle(pools, pages);
        for (number, capacity) in (0..).zip(capacities(pools, batch)) {
            if let Some(pool) = self.place(number) {
                pool.gauge.capacity.set(capacity);
                let held = pools.get(number as usize).map_or(0, |pool| pool.used);
                pool.gauge.held.set(held);
            }
        }
        true
    }
}
