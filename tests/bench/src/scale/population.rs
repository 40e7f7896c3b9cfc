// SPDX-License-Identifier: GPL-2.0-only

//! A tier that many VMs with many pools share, on the engine of the host module. Pages have no
//! data, and there are no guests: only the engine's decisions and counts are timed.

use std::{num::NonZeroU64, sync::Arc};

use ddabi::{answer::Eviction, key::FileKey, request::Run};
use ddcore::{
    host::{
        Origin, Session as _,
        heap::{self, Lock as _, Owner, Session, Tier, Vm},
        notice::Notices,
        pressure::pressure,
        room::make_room,
        run::{insert, take},
        session::TierKind,
        standing::{Standing, entitlement, settle},
        walk::{counted, drain},
    },
    index::{Batch, Hasher, Removed},
    policy::{Order, Policy},
};

use super::{course::Size, lock::Watched};
use crate::engine::Frame;

/// Number of pages of a call.
pub(super) const CALL: u16 = 32;

/// Weight of VMs and pools.
pub(super) const WEIGHT: u32 = 100;

/// Maximum number of queued notices of a VM.
const NOTICES: usize = 2048;

/// The owner of the engine.
pub(super) struct Scale;

impl Owner for Scale {
    type Lock<T> = Watched<T>;
    type Page = Frame;
    type Session = Watched<Notices<Vec<Eviction>>>;
    type Vm = Vm<Self>;

    /// The type of the host module.
    const SHARD_BITS: u32 = 3;

    #[inline]
    fn page(_session: &Session<Self>, removed: Removed) -> Option<Frame> {
        NonZeroU64::new(removed.into_handle()).map(Frame::new)
    }

    fn announce(session: &Session<Self>, notices: &[Eviction]) {
        session.own.lock().add_all(notices);
    }

    fn milliseconds(&self) -> u64 {
        0
    }
}

/// The VMs, their tier, and the memory of a call.
pub(super) struct Population {
    host: heap::Host<Scale>,
    vms: Vec<Arc<Vm<Scale>>>,
    batch: Batch,
    /// By VM and pool, the next page of each pool's file, and the end of its pages that were not
    /// got since the last put.
    next: Vec<Vec<[u64; 2]>>,
    /// Number of calls so far, which is the time of the gauges.
    calls: u64,
}

impl Population {
    /// Creates a tier that its VMs have filled.
    pub(super) fn new(size: Size) -> Self {
        let host = heap::Host::new(Arc::new(Tier::new(size.pages)), 0, Scale);
        let mut population = Self {
            host,
            vms: Vec::new(),
            batch: Batch::new(),
            next: Vec::new(),
            calls: 0,
        };
        for _ in 0..size.vms {
            population.register(size.pools);
        }
        let turns = size.pages / size.vms / size.pools / u64::from(CALL) + 1;
        for _ in 0..turns {
            for vm in 0..size.vms {
                for pool in 0..size.pools {
                    population.put(vm, pool);
                }
            }
        }
        population
    }

    /// Registers a VM with a number of pools.
    pub(super) fn register(&mut self, pools: u64) {
        let number = self.vms.len() as u64;
        let hasher = Hasher::new(0x5eed_5eed_5eed_5eed ^ number);
        let notices = Watched::new(Notices::new(vec![Eviction::default(); NOTICES]));
        let mut session = Session::new(self.host.tier.clone(), hasher, notices);
        for _ in 0..pools {
            let pool = session.add_pool();
            session.set_pool(pool, WEIGHT, Order::of(Policy::DEFAULT));
        }
        self.vms.push(self.host.add_vm(Vm {
            number: number as u32 + 1,
            share: WEIGHT,
            session,
            standing: Standing::new(),
        }));
        self.next.push(vec![[0; 2]; pools as usize]);
    }

    fn origin(&self, vm: u64) -> Origin<'_, heap::Host<Scale>> {
        let vm = &self.vms[vm as usize];
        Origin {
            host: &self.host,
            vm,
            session: &vm.session,
        }
    }

    /// Puts the next pages of a pool's file, as a call does, with the state of the pool that its
    /// answer reports. Returns the number of pages stored.
    pub(super) fn put(&mut self, vm: u64, pool: u64) -> usize {
        let [next, got] = &mut self.next[vm as usize][pool as usize];
        let run = run(pool, *next);
        *next += u64::from(CALL);
        *got = *next;
        self.calls += 1;
        let now = self.calls * 1000;
        let mut batch = std::mem::replace(&mut self.batch, Batch::new());
        let origin = self.origin(vm);
        let reserved = make_room(&origin, CALL.into());
        let mut stored = 0;
        if reserved == u64::from(CALL) {
            let stamp = origin.session.stamp(CALL.into());
            let handles = [1; CALL as usize];
            let runs = std::iter::once((run, 0));
            stored = insert(origin.session, &mut batch, runs, (&handles, stamp), |_| {});
        }
        self.host.tier.release(reserved - stored as u64);
        std::hint::black_box(pressure(&origin, &run, CALL.into(), now));
        self.batch = batch;
        stored
    }

    /// Takes the pages of a pool's last put that were not taken before, as a call does. Returns
    /// their number.
    pub(super) fn get(&mut self, vm: u64, pool: u64) -> usize {
        let [_, got] = &mut self.next[vm as usize][pool as usize];
        *got = got.saturating_sub(CALL.into());
        let run = run(pool, *got);
        self.calls += 1;
        let now = self.calls * 1000;
        let mut batch = std::mem::replace(&mut self.batch, Batch::new());
        let origin = self.origin(vm);
        let runs = std::iter::once((run, 0));
        let found = take(origin.session, &mut batch, runs, |_, page| {
            page.into_handle();
        });
        origin.session.sub_used(&found);
        std::hint::black_box(pressure(&origin, &run, CALL.into(), now));
        self.batch = batch;
        found.total()
    }

    /// Collects the statistics of a pool, as its guest asks for them.
    pub(super) fn statistics(&self, vm: u64, pool: u64) {
        let vm = &self.vms[vm as usize];
        let pages = entitlement(&self.host.tier, &**vm);
        std::hint::black_box((counted(&vm.session, pool as u32, TierKind::Memory), pages));
    }

    /// Publishes the standing of a VM, as a change of its weight does.
    pub(super) fn settle(&self, vm: u64) {
        settle(&self.host.tier, &*self.vms[vm as usize]);
    }

    /// Frees all pages of a VM, as when it dies. Returns their number.
    pub(super) fn drain(&self, vm: u64) -> u64 {
        let session = &self.vms[vm as usize].session;
        drain(session, 0..session.shards())
    }
}

fn run(pool: u64, index: u64) -> Run {
    Run {
        file: FileKey {
            inode: pool + 1,
            ..FileKey::default()
        },
        pool: pool as u32,
        index,
        pages: CALL,
        ..Run::default()
    }
}
