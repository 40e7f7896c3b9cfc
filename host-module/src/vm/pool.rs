// SPDX-License-Identifier: GPL-2.0-only

//! A pool with its settings and counters. Its pages, and the counters of each list of pages, are in
//! the shards of the session.

use crate::counters::{Counter, Latency};
use crate::ffi::queue::Mark;
use crate::number::Number;
use crate::ssd::log::Log;
use crate::ssd::writer::Spent;
use ddabi::name::Name;
use ddabi::policy::Policy;
use ddabi::pool::{PoolStats, SsdAdmit, Store};
use ddcore::host::pressure::Gauge;
use ddcore::host::put::Refusal;
use ddcore::index::List;
use ddcore::request::Settings;
use kernel::prelude::*;
use kernel::sync::atomic::{ordering::Relaxed, Atomic};
use kernel::sync::{new_spinlock, SpinLock};

/// A pool of a session. The slot of a destroyed pool is reused for a later one.
#[pin_data]
pub(crate) struct Pool {
    live: Atomic<bool>,
    /// The weights with which the tiers are divided. They follow from the settings, and each call
    /// reads them.
    share: Atomic<u32>,
    ssd_share: Atomic<u32>,
    weight: Atomic<u32>,
    /// Weight in the SSD tier, or [`SAME_WEIGHT`].
    ssd_weight: Atomic<u32>,
    store: Atomic<u32>,
    policy: Atomic<u32>,
    ssd_admit: Atomic<u32>,
    /// The state of the pool that answers report to the guest.
    pub(crate) gauge: Gauge<Number>,
    #[pin]
    name: SpinLock<Name>,
    /// The segments of its pages in the SSD tier.
    #[pin]
    pub(crate) log: Log,
    /// What it has spent of the write budgets of devices.
    pub(crate) spent: Spent,
    /// Whether its pages are to be freed or demoted in the background.
    pub(crate) emptying: Mark,
    refused_off: Counter,
    refused_unproven: Counter,
    refused_memory: Counter,
    refused_device: Counter,
    refused_fault: Counter,
    refused_absent: Counter,
    /// Pages that were evicted because they were not admitted to the SSD tier.
    pub(crate) evicted_unproven: Counter,
    pub(crate) gets: Counter,
    pub(crate) misses: Counter,
    pub(crate) hits_foreign: Counter,
    get_batches: Counter,
    put_batches: Counter,
    get_latency: Latency,
    put_latency: Latency,
    ssd_get_latency: Latency,
}

impl Pool {
    /// Creates a pool that is not live yet.
    pub(crate) fn new(log: impl PinInit<Log>) -> impl PinInit<Self> {
        pin_init!(Self {
            live: Atomic::new(false),
            share: Atomic::new(0),
            ssd_share: Atomic::new(0),
            weight: Atomic::new(0),
            ssd_weight: Atomic::new(0),
            store: Atomic::new(Store::None as u32),
            policy: Atomic::new(Policy::DEFAULT as u32),
            ssd_admit: Atomic::new(SsdAdmit::All as u32),
            gauge: Gauge::new(),
            name <- new_spinlock!(Name::DEFAULT, "Pool::name"),
            log <- log,
            spent: Spent::new(),
            emptying: Mark::new(),
            refused_off: Counter::new(),
            refused_unproven: Counter::new(),
            refused_memory: Counter::new(),
            refused_device: Counter::new(),
            refused_fault: Counter::new(),
            refused_absent: Counter::new(),
            evicted_unproven: Counter::new(),
            gets: Counter::new(),
            misses: Counter::new(),
            hits_foreign: Counter::new(),
            get_batches: Counter::new(),
            put_batches: Counter::new(),
            get_latency: Latency::new(),
            put_latency: Latency::new(),
            ssd_get_latency: Latency::new(),
        })
    }

    pub(crate) fn is_live(&self) -> bool {
        self.live.load(Relaxed)
    }

    /// Makes the pool live and resets its counters. The caller holds the session's control lock, as
    /// for [`Self::end`].
    pub(crate) fn begin(&self, settings: Settings, name: Name) {
        let counters = [
            &self.refused_off,
            &self.refused_unproven,
            &self.evicted_unproven,
            &self.refused_memory,
            &self.refused_device,
            &self.refused_fault,
            &self.refused_absent,
            &self.gets,
            &self.misses,
            &self.hits_foreign,
            &self.get_batches,
            &self.put_batches,
        ];
        for counter in counters {
            counter.set(0);
        }
        self.spent.reset();
        self.get_latency.reset();
        self.put_latency.reset();
        self.ssd_get_latency.reset();
        *self.name.lock() = name;
        self.set(settings);
        self.live.store(true, Relaxed);
    }

    /// Makes the pool not live. The caller is responsible for its pages.
    pub(crate) fn end(&self) {
        self.live.store(false, Relaxed);
        self.share.store(0, Relaxed);
        self.ssd_share.store(0, Relaxed);
        self.weight.store(0, Relaxed);
        self.ssd_weight.store(0, Relaxed);
    }

    pub(crate) fn settings(&self) -> Settings {
        let store = Store::from_raw(self.store.load(Relaxed)).unwrap_or(Store::None);
        Settings {
            weight: self.weight.load(Relaxed),
            ssd_weight: self.ssd_weight.load(Relaxed),
            store,
            policy: self.policy(),
            ssd_admit: self.ssd_admit(),
        }
    }

    /// Returns the counters of put calls: their number and their latency.
    pub(crate) fn put_counters(&self) -> (&Counter, &Latency) {
        (&self.put_batches, &self.put_latency)
    }

    /// Returns the counters of get calls: their number and their latency.
    pub(crate) fn get_counters(&self) -> (&Counter, &Latency) {
        (&self.get_batches, &self.get_latency)
    }

    /// Returns the counters of get calls that read pages of the SSD tier.
    pub(crate) fn ssd_get_counters(&self) -> (&Counter, &Latency) {
        (&self.get_batches, &self.ssd_get_latency)
    }

    /// Returns the weight with which the memory tier is divided.
    pub(crate) fn share(&self) -> u32 {
        self.share.load(Relaxed)
    }

    /// Returns the weight with which the SSD tier is divided.
    pub(crate) fn ssd_share(&self) -> u32 {
        self.ssd_share.load(Relaxed)
    }

    pub(crate) fn policy(&self) -> Policy {
        Policy::from_raw(self.policy.load(Relaxed)).unwrap_or_default()
    }

    /// Returns which pages go to the SSD tier.
    pub(crate) fn ssd_admit(&self) -> SsdAdmit {
        SsdAdmit::from_raw(self.ssd_admit.load(Relaxed)).unwrap_or_default()
    }

    pub(crate) fn set(&self, settings: Settings) {
        self.weight.store(settings.weight, Relaxed);
        self.ssd_weight.store(settings.ssd_weight, Relaxed);
        self.store.store(settings.store as u32, Relaxed);
        self.policy.store(settings.policy as u32, Relaxed);
        self.ssd_admit.store(settings.ssd_admit as u32, Relaxed);
        self.share.store(settings.share(), Relaxed);
        self.ssd_share.store(settings.ssd_share(), Relaxed);
    }

    pub(crate) fn name(&self) -> Name {
        *self.name.lock()
    }

    pub(crate) fn refuse(&self, why: Refusal, pages: u64) {
        let counter = match why {
            Refusal::Off => &self.refused_off,
            Refusal::Unproven => &self.refused_unproven,
            Refusal::Memory => &self.refused_memory,
            Refusal::Device => &self.refused_device,
            Refusal::Fault => &self.refused_fault,
            Refusal::Absent => &self.refused_absent,
        };
        counter.add(pages);
    }

    /// Returns the statistics. `memory` and `ssd` are the counters of the pool's lists in each
    /// tier.
    pub(crate) fn stats(&self, memory: &List, ssd: &List) -> PoolStats {
        let mut pages = *memory;
        pages.merge(ssd);
        PoolStats {
            weight: u64::from(self.settings().weight),
            entitlement: 0,
            ssd_entitlement: 0,
            used: pages.used,
            puts: pages.puts,
            put_refused_off: self.refused_off.get(),
            put_refused_memory: self.refused_memory.get(),
            put_refused_fault: self.refused_fault.get(),
            gets: self.gets.get(),
            hits: pages.hits + pages.hits_retained,
            misses: self.misses.get(),
            flushes: pages.flushes,
            evictions: pages.evictions,
            moved_in: pages.moved_in,
            moved_out: pages.moved_out,
            hits_foreign: self.hits_foreign.get(),
            get_batches: self.get_batches.get(),
            put_batches: self.put_batches.get(),
            get_latency: self.get_latency.snapshot(),
            put_latency: self.put_latency.snapshot(),
            put_refused_absent: self.refused_absent.get(),
            ssd_used: ssd.used,
            ssd_puts: ssd.puts,
            ssd_hits: ssd.hits + ssd.hits_retained,
            ssd_flushes: ssd.flushes,
            ssd_evictions: ssd.evictions,
            demoted: memory.relocated_out,
            promoted: memory.relocated_in,
            ssd_get_latency: self.ssd_get_latency.snapshot(),
            put_refused_unproven: self.refused_unproven.get(),
            evictions_unproven: self.evicted_unproven.get(),
            hits_retained: ssd.hits_retained,
            put_refused_device: self.refused_device.get(),
        }
    }
}
