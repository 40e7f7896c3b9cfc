// SPDX-License-Identifier: GPL-2.0

//! The host: the engine that runs in the host module, `ddcore::host`, behind what the simulator
//! needs.
//!
//! Two things differ from the kernel. An index has one shard, for a simulated cache may have some
//! hundred pages, of which shards would be no samples. And the clocks that tell the ages of pages
//! go faster, for the same reason: by the capacity of the tier, not by 2 MiB.

use crate::page::Page;
use ddabi::answer::Eviction;
use ddabi::genl;
use ddabi::request::Run;
use ddcore::host::Session as _;
use ddcore::host::carried;
use ddcore::host::flush::Rest;
use ddcore::host::pressure::{Gauge, pressure};
use ddcore::host::room::{self, Parts, enforce_limit, make_room};
use ddcore::host::run::{discard, insert, take};
use ddcore::host::session::Ledger;
use ddcore::host::tier::Tier;
use ddcore::host::walk::{counted, empty};
use ddcore::partition::Entity;
use ddcore::policy::{CLASSES, Class, Order, Pressure};
use ddcore::store::{Batch, Hasher, Heap, List, Removed, Store};
use std::cell::{Cell, RefCell};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

/// How the tier is divided.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// By weights at both levels, with Algorithm 1.
    Weighted,
    /// Not at all: the oldest page of all leaves (the paper's *Global*).
    Global,
}

/// Names a pool: VM and pool of that VM.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct PoolId {
    /// Number of the VM.
    pub vm: usize,
    /// Number of its pool.
    pub pool: usize,
}

/// What a pool counted, in pages.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Held now.
    pub used: u64,
    /// Stored.
    pub puts: u64,
    /// Read back.
    pub hits: u64,
    /// Freed because their content was gone, their pool or their VM.
    pub flushes: u64,
    /// Freed for room.
    pub evictions: u64,
}

/// Of all indices: nothing here chooses keys that collide.
const HASHER: Hasher = Hasher::new(0);

/// Ticks of a clock in which as many pages are put as the tier holds.
const TICKS: u64 = 1 << 12;

/// A page of the host. There is nothing of it but its place in the index.
#[derive(Debug)]
struct Frame;

impl carried::Page for Frame {
    fn handle(&self) -> u64 {
        0
    }

    fn keep(self) {}
}

/// A clock that goes by puts.
#[derive(Debug)]
struct Clock {
    puts: Cell<u64>,
    /// Puts between two ticks.
    tick: u64,
}

impl Clock {
    const fn new(tick: u64) -> Self {
        Self {
            puts: Cell::new(0),
            tick,
        }
    }

    fn now(&self) -> u64 {
        self.puts.get() / self.tick
    }
}

#[derive(Debug)]
struct Pool {
    weight: u32,
    order: Order,
    gauge: Gauge<AtomicU64>,
}

/// A VM with its index and its pools.
#[derive(Debug)]
struct Vm {
    number: u32,
    weight: u32,
    index: RefCell<Store<Heap>>,
    ledger: Ledger<AtomicU64>,
    tier: Rc<Tier<AtomicU64>>,
    clock: Rc<Clock>,
    pools: Vec<Pool>,
}

impl ddcore::host::Session for Vm {
    type Storage = Heap;
    type Number = AtomicU64;
    type Page = Frame;

    const SHARD_BITS: u32 = 0;

    fn with<R>(&self, _shard: usize, work: impl FnOnce(&mut Store<Heap>) -> R) -> R {
        work(&mut self.index.borrow_mut())
    }

    fn with_room<R>(
        &self,
        _shard: usize,
        parts: usize,
        work: impl FnOnce(&mut Store<Heap>) -> R,
    ) -> Option<R> {
        let mut index = self.index.borrow_mut();
        index.supply(parts);
        Some(work(&mut index))
    }

    fn page(&self, removed: Removed) -> Option<Frame> {
        removed.into_handle();
        Some(Frame)
    }

    fn hasher(&self) -> &Hasher {
        &HASHER
    }

    fn ledger(&self) -> &Ledger<AtomicU64> {
        &self.ledger
    }

    fn release(&self, pages: u64) {
        self.tier.release(pages);
    }

    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn stamp(&self, pages: u64) -> u64 {
        self.clock.puts.set(self.clock.puts.get() + pages);
        self.clock.now()
    }

    fn pool_count(&self) -> u32 {
        self.pools.len() as u32
    }

    fn is_live(&self, pool: u32) -> bool {
        pool < self.pool_count()
    }

    fn share(&self, pool: u32) -> u32 {
        self.pools.get(pool as usize).map_or(0, |pool| pool.weight)
    }

    fn order(&self, pool: u32) -> Option<Order> {
        Some(self.pools.get(pool as usize)?.order)
    }

    fn gauge(&self, pool: u32) -> Option<&Gauge<AtomicU64>> {
        Some(&self.pools.get(pool as usize)?.gauge)
    }

    fn announce(&self, _notices: &[Eviction]) {}

    fn take_rest(&self) -> Option<Rest> {
        None
    }

    fn leave_rest(&self, _rest: Rest) {}

    fn breathe(&self) {}

    fn is_dying(&self) -> bool {
        false
    }
}

impl room::Vm for Vm {
    type Session = Self;

    fn number(&self) -> u32 {
        self.number
    }

    fn share(&self) -> u32 {
        self.weight
    }

    fn session(&self) -> Option<impl Deref<Target = Self>> {
        Some(self)
    }
}

#[derive(Debug, Default)]
struct Roster {
    vms: Vec<Rc<Vm>>,
    entities: Vec<Entity>,
    pools: Vec<Entity>,
}

impl room::Roster for Roster {
    type Vm = Vm;
    type Ref = Rc<Vm>;

    fn parts(&mut self) -> Parts<'_, Rc<Vm>> {
        Parts {
            vms: &self.vms,
            entities: &mut self.entities,
            pools: &mut self.pools,
        }
    }
}

/// What the engine needs of a host.
#[derive(Debug)]
struct Engine {
    tier: Rc<Tier<AtomicU64>>,
    roster: RefCell<Roster>,
    /// Of all VMs, if the tier is not divided.
    clock: Rc<Clock>,
}

impl ddcore::host::Host for Engine {
    type Number = AtomicU64;
    type Page = Frame;
    type Stock = ();
    type Session = Vm;
    type Roster = Roster;

    fn tier(&self) -> &Tier<AtomicU64> {
        &self.tier
    }

    fn lock(&self) -> impl DerefMut<Target = Roster> {
        self.roster.borrow_mut()
    }

    fn try_lock(&self) -> Option<impl DerefMut<Target = Roster>> {
        self.roster.try_borrow_mut().ok()
    }

    fn stock(&self) -> &() {
        &()
    }

    fn allocate(&self, _pages: &mut [Option<Frame>], _below_floor: bool) -> usize {
        // Pages have no data.
        0
    }

    fn spare(&self) -> u64 {
        u64::MAX / 2
    }

    fn milliseconds(&self) -> u64 {
        0
    }

    fn evicted(&self, _pages: u64) {}

    fn breathe(&self) {}

    fn is_dying(&self) -> bool {
        false
    }

    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn batch_time(&self) -> u64 {
        (self.tier.batch() / self.clock.tick).max(1)
    }
}

/// The memory tier of a host.
#[derive(Debug)]
pub struct Host {
    engine: Engine,
    batch: Batch,
}

impl Host {
    /// A tier of `capacity` pages that evicts `batch` pages at a time.
    pub fn new(capacity: u64, batch: u64, mode: Mode) -> Self {
        let tier = Tier::new(capacity);
        tier.set_batch(u32::try_from(batch).unwrap_or(u32::MAX));
        tier.set_mode(match mode {
            Mode::Weighted => genl::Mode::Weighted,
            Mode::Global => genl::Mode::GlobalFifo,
        });
        Self {
            engine: Engine {
                tier: Rc::new(tier),
                roster: RefCell::default(),
                clock: Rc::new(Clock::new((capacity / TICKS).max(1))),
            },
            batch: Batch::new(),
        }
    }

    /// Adds a VM.
    pub fn add_vm(&mut self, weight: u32) -> usize {
        let clock = match self.engine.tier.mode() {
            genl::Mode::Weighted => Rc::new(Clock::new(self.engine.clock.tick)),
            genl::Mode::GlobalFifo => self.engine.clock.clone(),
        };
        let roster = self.engine.roster.get_mut();
        let number = roster.vms.len();
        roster.vms.push(Rc::new(Vm {
            number: number as u32,
            weight,
            index: RefCell::new(Store::new(Heap::default(), HASHER)),
            ledger: Ledger::new(),
            tier: self.engine.tier.clone(),
            clock,
            pools: Vec::new(),
        }));
        roster.entities.push(Entity::default());
        number
    }

    /// Adds a pool to a VM.
    pub fn add_pool(&mut self, vm: usize, weight: u32, order: Order) -> PoolId {
        let held = self.vm_mut(vm);
        let pool = held.pools.len();
        held.pools.push(Pool {
            weight,
            order,
            gauge: Gauge::new(),
        });
        let lists = &mut held.index.get_mut().storage_mut().lists;
        lists.resize(lists.len() + CLASSES, List::default());
        let scratch = &mut self.engine.roster.get_mut().pools;
        scratch.resize(scratch.len().max(pool + 1), Entity::default());
        PoolId { vm, pool }
    }

    fn vm(&self, vm: usize) -> Rc<Vm> {
        self.engine.roster.borrow().vms[vm].clone()
    }

    fn vm_mut(&mut self, vm: usize) -> &mut Vm {
        let vm = &mut self.engine.roster.get_mut().vms[vm];
        Rc::get_mut(vm).expect("no operation is under way")
    }

    /// Changes the capacity; pages above it leave at once.
    pub fn set_capacity(&mut self, pages: u64) {
        self.engine.tier.set_capacity(pages);
        enforce_limit(&self.engine);
    }

    /// Changes the weight of a VM.
    pub fn set_vm_weight(&mut self, vm: usize, weight: u32) {
        self.vm_mut(vm).weight = weight;
    }

    /// Changes the weight of a pool.
    pub fn set_weight(&mut self, id: PoolId, weight: u32) {
        self.vm_mut(id.vm).pools[id.pool].weight = weight;
    }

    /// Ends a pool: its pages are freed and it stores no more.
    pub fn remove_pool(&mut self, id: PoolId) {
        self.set_weight(id, 0);
        empty(&*self.vm(id.vm), id.pool as u32);
    }

    /// Ends a VM and all its pools.
    pub fn remove_vm(&mut self, vm: usize) {
        self.set_vm_weight(vm, 0);
        let pools = self.vm(vm).pools.len();
        for pool in 0..pools {
            self.remove_pool(PoolId { vm, pool });
        }
    }

    /// Takes a page out. Returns whether it was there.
    pub fn take(&mut self, vm: usize, page: Page) -> bool {
        let vm = self.vm(vm);
        let run = std::iter::once((run(page), 0));
        let found = take(&*vm, &mut self.batch, run, |_, page| {
            page.into_handle();
        });
        vm.went(found);
        found > 0
    }

    /// Frees a page whose content is gone.
    pub fn flush(&mut self, vm: usize, page: Page) {
        let vm = self.vm(vm);
        discard(&*vm, &mut self.batch, &run(page));
    }

    /// Stores a page, making room for it if there is none. Pools without weight store nothing.
    pub fn put(&mut self, id: PoolId, page: Page, class: Class) -> bool {
        let vm = self.vm(id.vm);
        if vm.pools[id.pool].weight == 0 || make_room(&self.engine, 1) == 0 {
            return false;
        }
        let run = Run {
            pool: id.pool as u32,
            class: class.number() as u8,
            ..run(page)
        };
        let stamp = vm.stamp(1);
        let run = std::iter::once((run, 0));
        insert(&*vm, &mut self.batch, run, (&[0], stamp), |_| {}) > 0
    }

    /// What the guest is told about a pool. The kernel's gauges are up to a quarter of a batch old;
    /// these are read each time.
    pub fn pressure(&self, id: PoolId) -> Pressure {
        let vm = self.vm(id.vm);
        let run = Run {
            pool: id.pool as u32,
            ..Run::default()
        };
        let told = pressure((&self.engine, &*vm, vm.number), &run, u32::MAX.into(), 0);
        Pressure {
            capacity: told.capacity,
            full: told.full != 0,
            floor: Class::new(told.floor),
        }
    }

    /// What a pool counted.
    pub fn counts(&self, id: PoolId) -> Counts {
        let sum = counted(&*self.vm(id.vm), id.pool as u32);
        Counts {
            used: sum.used,
            puts: sum.puts,
            hits: sum.hits,
            flushes: sum.flushes,
            evictions: sum.evictions,
        }
    }

    /// Pages held in all.
    pub fn used(&self) -> u64 {
        self.engine.tier.used()
    }
}

/// A run of one page.
fn run(page: Page) -> Run {
    let key = page.key();
    Run {
        file: key.file,
        index: key.index,
        pages: 1,
        ..Run::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(host: &mut Host, id: PoolId, file: u32, pages: u32) {
        for index in 0..pages {
            assert!(host.put(id, Page::new(file, index), Class::LOWEST));
        }
    }

    #[test]
    fn shares_follow_weights_and_counts_add_up() {
        let mut host = Host::new(1000, 10, Mode::Weighted);
        let vm = host.add_vm(100);
        let one = host.add_pool(vm, 75, Order::Aged);
        let two = host.add_pool(vm, 25, Order::Aged);
        fill(&mut host, one, 1, 3000);
        assert_eq!(host.counts(one).used, host.used());
        for file in 2..6 {
            fill(&mut host, two, file, 1000);
            fill(&mut host, one, file + 10, 1000);
        }
        for (id, share) in [(one, 750), (two, 250)] {
            let counts = host.counts(id);
            assert!(counts.used.abs_diff(share) <= 20, "{counts:?}");
            assert_eq!(counts.used, counts.puts - counts.evictions);
        }
        assert!(host.used() <= 1000);
    }

    #[test]
    fn the_oldest_of_all_leaves_in_global_mode() {
        let mut host = Host::new(100, 10, Mode::Global);
        let vm = host.add_vm(100);
        let one = host.add_pool(vm, 99, Order::Aged);
        let two = host.add_pool(vm, 1, Order::Aged);
        fill(&mut host, one, 1, 100);
        fill(&mut host, two, 2, 90);
        assert_eq!(host.counts(one).used, 10);
        assert!(!host.take(vm, Page::new(1, 0)));
        assert!(host.take(vm, Page::new(1, 99)));
        host.flush(vm, Page::new(2, 0));
        assert_eq!(host.used(), 98);
    }
}
