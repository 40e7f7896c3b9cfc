// SPDX-License-Identifier: GPL-2.0-only

//! The host: `ddcore::host`, the engine of the host module, with a simple owner.
//!
//! It differs from the kernel in two points. An index has one shard, because a simulated cache may
//! have only some hundred pages, and shards of it would not be representative samples. For the same
//! reason the clocks that determine the ages of pages are faster: their tick depends on the
//! capacity of the tier, and is not 2 MiB of puts.

use crate::page::Page;
use ddabi::answer::Eviction;
use ddabi::genl;
use ddabi::request::Run;
use ddcore::host::Origin;
use ddcore::host::Session as _;
use ddcore::host::carried;
use ddcore::host::heap::{self, Owner, Session, Tier};
use ddcore::host::pressure::pressure;
use ddcore::host::room::{make_room, refill};
use ddcore::host::run::{discard, insert, take};
use ddcore::host::session::TierKind;
use ddcore::host::standing::{Standing, settle};
use ddcore::host::walk::{counted, empty};
use ddcore::index::{Batch, Hasher, Removed};
use ddcore::policy::{Class, Order, Pressure};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// The division of the tier.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// By weights at both levels, with Algorithm 1.
    Weighted,
    /// None: the oldest page of all VMs is evicted (the paper's *Global*).
    Global,
}

/// Identifies a pool.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct PoolId {
    /// Number of the VM.
    pub vm: usize,
    /// Number of the pool in its VM.
    pub pool: usize,
}

/// Counters of a pool, in pages.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Pages held.
    pub used: u64,
    /// Pages stored.
    pub puts: u64,
    /// Pages read back.
    pub hits: u64,
    /// Pages freed because their content, their pool or their VM is gone.
    pub flushes: u64,
    /// Pages evicted.
    pub evictions: u64,
}

/// The hasher of all indices. It needs no secret, because no workload chooses colliding keys.
const HASHER: Hasher = Hasher::new(0);

/// Number of ticks in which as many pages are put as the tier holds.
const TICKS: u64 = 1 << 12;

/// A page of the host. It has no data, and exists only as an entry of the index.
#[derive(Debug)]
struct Frame;

impl carried::Page for Frame {
    fn handle(&self) -> u64 {
        0
    }

    fn keep(self) {}
}

/// A clock that is advanced by puts.
#[derive(Debug)]
struct Clock {
    puts: Cell<u64>,
    /// Pages put between two ticks.
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

/// The state of a host, as the owner of the engine.
struct Engine {
    /// The clock of all VMs while the tier is not divided.
    clock: Rc<Clock>,
}

impl Owner for Engine {
    type Lock<T> = RefCell<T>;
    type Page = Frame;
    type Session = Rc<Clock>;
    type Vm = Vm;

    const SHARD_BITS: u32 = 0;

    fn page(_session: &Session<Self>, removed: Removed) -> Option<Frame> {
        removed.into_handle();
        Some(Frame)
    }

    fn announce(_session: &Session<Self>, _notices: &[Eviction]) {}

    fn now(session: &Session<Self>) -> u64 {
        session.own.now()
    }

    fn stamp(session: &Session<Self>, pages: u64) -> u64 {
        let clock = &session.own;
        clock.puts.set(clock.puts.get() + pages);
        clock.now()
    }

    fn allocate(
        _host: &heap::Host<Self>,
        _pages: &mut [Option<Frame>],
        _below_floor: bool,
    ) -> usize {
        // Pages have no data.
        0
    }

    fn spare(&self) -> u64 {
        u64::MAX / 2
    }

    fn milliseconds(&self) -> u64 {
        0
    }

    fn common_time(host: &heap::Host<Self>) -> u64 {
        host.own.clock.now()
    }

    fn batch_time(host: &heap::Host<Self>) -> u64 {
        (host.tier.batch() / host.own.clock.tick).max(1)
    }
}

type Vm = heap::Vm<Engine>;

/// A host with its memory tier.
pub struct Host {
    engine: heap::Host<Engine>,
    batch: Batch,
}

impl fmt::Debug for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut host = formatter.debug_struct("Host");
        host.field("tier", &self.engine.tier)
            .finish_non_exhaustive()
    }
}

impl Host {
    /// Creates a host with a tier of `capacity` pages that evicts `batch` pages at a time.
    pub fn new(capacity: u64, batch: u64, mode: Mode) -> Self {
        let tier = Tier::new(capacity);
        tier.set_batch(u32::try_from(batch).unwrap_or(u32::MAX));
        tier.set_mode(match mode {
            Mode::Weighted => genl::Mode::Weighted,
            Mode::Global => genl::Mode::GlobalFifo,
        });
        let own = Engine {
            clock: Rc::new(Clock::new((capacity / TICKS).max(1))),
        };
        Self {
            engine: heap::Host::new(Arc::new(tier), 0, own),
            batch: Batch::new(),
        }
    }

    /// Adds a VM and returns its number.
    pub fn add_vm(&mut self, weight: u32) -> usize {
        let common = &self.engine.own.clock;
        let clock = match self.engine.tier.mode() {
            genl::Mode::Weighted => Rc::new(Clock::new(common.tick)),
            genl::Mode::GlobalFifo => common.clone(),
        };
        let session = Session::new(self.engine.tier.clone(), HASHER, clock);
        let number = self.engine.vm_list.get_mut().vms().len();
        self.engine.add_vm(Vm {
            number: number as u32,
            share: weight,
            session,
            standing: Standing::new(),
        });
        number
    }

    /// Adds a pool to a VM and returns its id.
    pub fn add_pool(&mut self, vm: usize, weight: u32, order: Order) -> PoolId {
        let session = &mut self.vm_mut(vm).session;
        let number = session.add_pool();
        session.set_pool(number, weight, order);
        let pool = number as usize;
        PoolId { vm, pool }
    }

    fn vm(&self, vm: usize) -> Arc<Vm> {
        self.engine.vm_list.borrow().vms()[vm].clone()
    }

    fn origin<'a>(&'a self, vm: &'a Vm) -> Origin<'a, heap::Host<Engine>> {
        Origin {
            host: &self.engine,
            vm,
            session: &vm.session,
        }
    }

    fn vm_mut(&mut self, vm: usize) -> &mut Vm {
        let vm = &mut self.engine.vm_list.get_mut().vms_mut()[vm];
        Arc::get_mut(vm).expect("no operation is under way")
    }

    /// Sets the capacity, and evicts pages beyond it.
    pub fn set_capacity(&mut self, pages: u64) {
        self.engine.tier.set_capacity(pages);
        refill(&self.engine);
    }

    /// Sets the weight of a VM.
    pub fn set_vm_weight(&mut self, vm: usize, weight: u32) {
        self.vm_mut(vm).share = weight;
        settle(&self.engine.tier, &*self.vm(vm));
    }

    /// Sets the weight of a pool.
    pub fn set_weight(&mut self, id: PoolId, weight: u32) {
        self.vm(id.vm).session.set_share(id.pool as u32, weight);
    }

    /// Ends a pool: frees its pages and stores no more.
    pub fn remove_pool(&mut self, id: PoolId) {
        self.set_weight(id, 0);
        empty(&self.vm(id.vm).session, id.pool as u32);
    }

    /// Ends a VM and all its pools.
    pub fn remove_vm(&mut self, vm: usize) {
        self.set_vm_weight(vm, 0);
        let pools = self.vm(vm).session.pool_count();
        for pool in 0..pools as usize {
            self.remove_pool(PoolId { vm, pool });
        }
    }

    /// Takes a page out. Returns whether the host had it.
    pub fn take(&mut self, vm: usize, page: Page) -> bool {
        let vm = self.vm(vm);
        let run = std::iter::once((run(page), 0));
        let found = take(&vm.session, &mut self.batch, run, |_, page| {
            page.into_handle();
        });
        vm.session.sub_used(&found);
        found.total() > 0
    }

    /// Frees a page because its content is gone.
    pub fn flush(&mut self, vm: usize, page: Page) {
        let vm = self.vm(vm);
        discard(&vm.session, &mut self.batch, &run(page));
    }

    /// Stores a page, after making room for it if necessary. Pools without weight store nothing.
    /// Returns whether the page was stored.
    pub fn put(&mut self, id: PoolId, page: Page, class: Class) -> bool {
        let vm = self.vm(id.vm);
        let session = &vm.session;
        let origin = self.origin(&vm);
        if session.share(id.pool as u32) == 0 || make_room(&origin, 1) == 0 {
            return false;
        }
        let run = Run {
            pool: id.pool as u32,
            class: class.number() as u8,
            ..run(page)
        };
        let stamp = session.stamp(1);
        let run = std::iter::once((run, 0));
        insert(session, &mut self.batch, run, (&[0], stamp), |_| {}) > 0
    }

    /// Returns the state of a pool, as reported to the guest. In the kernel it is up to a quarter
    /// of a batch old; here it is current.
    pub fn pressure(&self, id: PoolId) -> Pressure {
        let vm = self.vm(id.vm);
        let run = Run {
            pool: id.pool as u32,
            ..Run::default()
        };
        let told = pressure(&self.origin(&vm), &run, u32::MAX.into(), 0);
        Pressure {
            capacity: told.capacity,
            full: told.full != 0,
            floor: Class::new(told.floor),
        }
    }

    /// Returns the counters of a pool.
    pub fn counts(&self, id: PoolId) -> Counts {
        let sum = counted(&self.vm(id.vm).session, id.pool as u32, TierKind::Memory);
        Counts {
            used: sum.used,
            puts: sum.puts,
            hits: sum.hits,
            flushes: sum.flushes,
            evictions: sum.evictions,
        }
    }

    /// Returns the number of pages held.
    pub fn used(&self) -> u64 {
        self.engine.tier.used()
    }
}

/// Returns a run of one page.
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
