// SPDX-License-Identifier: GPL-2.0

//! All VMs, and who has to give when the tier is full.

use ddabi::request::Run;
use ddcore::partition::{Entity, collect, entitle, victim};
use ddcore::request::{Request, Runs};
use ddcore::sequence::Verdict;
use ddcore::store::Reason;

use crate::call::Sent;
use crate::vm::{POOLS, Vm};

const VMS: usize = 3;
/// Pages of an eviction.
const BATCH: u64 = 64;
/// Handles begin where the bits that a block shares are about to change.
const FIRST_HANDLE: u64 = (1 << 32) - 1000;

struct Seat {
    weight: u32,
    vm: Option<Vm>,
}

pub(crate) struct Tier {
    capacity: u64,
    seats: [Seat; VMS],
    sessions: u64,
    handle: u64,
    puts: u64,
}

impl Tier {
    pub(crate) fn new(capacity: u64) -> Self {
        Self {
            capacity,
            seats: std::array::from_fn(|_| Seat {
                weight: 100,
                vm: None,
            }),
            sessions: 0,
            handle: FIRST_HANDLE,
            puts: 0,
        }
    }

    fn seat(&mut self, vm: u8) -> &mut Seat {
        &mut self.seats[usize::from(vm) % VMS]
    }

    pub(crate) fn session(&mut self, vm: u8) -> u64 {
        self.seat(vm).vm.as_ref().map_or(0, |vm| vm.id)
    }

    /// The number a request carries.
    pub(crate) fn next_number(&mut self, vm: u8, sent: &Sent) -> u64 {
        let next = self.seat(vm).vm.as_ref().map_or(1, Vm::next_number);
        match sent {
            Sent::Numbered(number) => (next + u64::from(*number)).saturating_sub(1 << 15),
            _ => next,
        }
    }

    pub(crate) fn hello(&mut self, vm: u8) {
        self.sessions += 1;
        let session = self.sessions;
        self.seat(vm).vm = Some(Vm::new(session));
    }

    pub(crate) fn end(&mut self, vm: u8) {
        self.seat(vm).vm = None;
    }

    /// Whether a request is let in. After anything but a number that was overtaken, the VM has no
    /// session.
    pub(crate) fn enter(&mut self, vm: u8, session: u64, number: u64) -> bool {
        let seat = self.seat(vm);
        let Some(current) = seat.vm.as_mut().filter(|vm| vm.id == session) else {
            seat.vm = None;
            return false;
        };
        match current.judge(number) {
            Verdict::Accept => true,
            Verdict::Retry => false,
            Verdict::Stale => {
                seat.vm = None;
                false
            }
        }
    }

    pub(crate) fn carry_out(&mut self, at: u8, request: &Request<'_>) {
        if let Request::Put(runs) = request {
            return self.put(at, runs);
        }
        let now = self.now();
        let Some(vm) = self.seat(at).vm.as_mut() else {
            return;
        };
        match request {
            Request::Goodbye => self.end(at),
            Request::Get(runs) => {
                let runs: Vec<_> = runs.placed().collect();
                vm.take(&runs, Reason::Hit);
            }
            Request::Flush(ranges) => ranges.iter().for_each(|range| vm.flush(&range)),
            Request::PoolCreate(settings, _) => {
                if let Some(place) = vm.pools.iter().position(Option::is_none) {
                    vm.end_pool(place);
                    vm.pools[place] = Some(*settings);
                }
            }
            Request::PoolSet(pool, settings) => {
                let place = vm.pools.get_mut(*pool as usize);
                if let Some(place) = place.filter(|place| place.is_some()) {
                    *place = Some(*settings);
                    if !settings.is_on() {
                        vm.evict(*pool as usize, u64::MAX, now);
                    }
                }
            }
            Request::PoolDestroy(pool) if (*pool as usize) < POOLS => vm.end_pool(*pool as usize),
            Request::Migrate(file, pool) => {
                let place = vm.pools.get(*pool as usize);
                if place.is_some_and(Option::is_some) {
                    vm.migrate(file, *pool, now);
                }
            }
            _ => {}
        }
    }

    fn put(&mut self, at: u8, runs: &Runs<'_>) {
        let is_welcome = |tier: &mut Self, run: &Run| {
            let seat = tier.seat(at);
            seat.weight > 0 && seat.vm.as_ref().is_some_and(|vm| vm.is_welcome(run))
        };
        let (mut kept, mut refused, mut pages) = (Vec::new(), Vec::new(), 0);
        for run in runs.iter() {
            if is_welcome(self, &run) && self.make_room(pages + u64::from(run.pages)) {
                kept.push((run, pages as usize));
                pages += u64::from(run.pages);
            } else {
                refused.push((run, 0));
            }
        }
        self.puts += pages;
        let handles: Vec<u64> = (self.handle..).take(pages as usize).collect();
        self.handle += pages;
        let stamp = self.now();
        if let Some(vm) = self.seat(at).vm.as_mut() {
            vm.put(&kept, &handles, stamp);
            // A put that fails leaves no older copy behind.
            for run in refused {
                vm.take(&[run], Reason::Flush);
            }
        }
    }

    const fn now(&self) -> u64 {
        self.puts / 16
    }

    fn used(&self) -> u64 {
        self.seats
            .iter()
            .filter_map(|seat| seat.vm.as_ref())
            .map(Vm::used)
            .sum()
    }

    fn make_room(&mut self, pages: u64) -> bool {
        if pages > self.capacity {
            return false;
        }
        while self.used() + pages > self.capacity {
            if self.evict() == 0 {
                return false;
            }
        }
        true
    }

    /// Evicts a batch: Algorithm 1 among the VMs, then among the pools of the victim.
    fn evict(&mut self) -> u64 {
        let mut vms: Vec<Entity> = self.seats.iter().map(entity).collect();
        entitle(&mut vms, self.capacity);
        let total: u64 = vms.iter().map(|vm| vm.entitlement).sum();
        assert!(total <= self.capacity);
        let Some(at) = victim(&vms, BATCH) else {
            assert_eq!(self.used(), 0, "a session still has pages");
            return 0;
        };
        let now = self.now();
        let Some(vm) = self.seats[at].vm.as_mut() else {
            panic!("a VM without a session has nothing to give");
        };
        let mut pools = vm.entities();
        entitle(&mut pools, vms[at].entitlement.max(vms[at].used));
        let used = vm.used();
        let evicted = collect(&mut pools, BATCH, |pool, pages| vm.evict(pool, pages, now));
        assert_eq!(evicted, BATCH.min(used));
        evicted
    }

    pub(crate) fn set_capacity(&mut self, pages: u64) {
        self.capacity = pages;
        while self.used() > self.capacity && self.evict() > 0 {}
    }

    pub(crate) fn set_weight(&mut self, vm: u8, weight: u32) {
        self.seat(vm).weight = weight;
    }

    pub(crate) fn check(&self) {
        assert!(self.used() <= self.capacity);
        for vm in self.seats.iter().filter_map(|seat| seat.vm.as_ref()) {
            vm.check();
        }
    }
}

fn entity(seat: &Seat) -> Entity {
    Entity {
        weight: seat.weight,
        entitlement: 0,
        used: seat.vm.as_ref().map_or(0, Vm::used),
    }
}
