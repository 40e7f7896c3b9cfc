// SPDX-License-Identifier: GPL-2.0-only

//! The host: `ddcore::host`, the engine of the host module, with a simple owner.
//!
//! It differs from the host module in two points. An index has only one shard, because a simulated
//! cache may have only some hundred pages, so that its shards would not be representative samples.
//! For the same reason the clocks that determine the ages of pages are faster: a tick is a fraction
//! of the tier's capacity instead of 2 MiB of puts.

mod counts;
mod frame;
mod owner;
mod reader;

pub use counts::{Counts, SsdTraffic};
pub use ddcore::host::session::TierKind;

use crate::page::Page;
use ddabi::genl;
use ddabi::request::{MAX_RUNS, Run};
use ddcore::host::carried::{self, Carried};
use ddcore::host::get::{Frames, load};
use ddcore::host::heap::{self, Device, Session, Tier};
use ddcore::host::list::SSD_CLASS;
use ddcore::host::pressure::pressure;
use ddcore::host::promotion::is_promotion_due;
use ddcore::host::room::{make_room, refill};
use ddcore::host::run::{discard, insert};
use ddcore::host::segments::reclaim;
use ddcore::host::standing::{Standing, settle};
use ddcore::host::walk::empty;
use ddcore::host::{Origin, Session as _};
use ddcore::index::Hasher;
use ddcore::policy::{Class, Order, Pressure};
use frame::Frame;
use owner::{Clock, Engine, Registration, Vm};
use reader::Reader;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// The division of the tier.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// By weights at both levels, with Algorithm 1.
    Weighted,
    /// The tier is not divided, and the oldest page of all VMs is evicted (the paper's *Global*).
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

/// The hasher of all indices. It needs no secret, because no workload chooses colliding keys.
const HASHER: Hasher = Hasher::new(0);

/// Number of ticks in which the number of pages put equals the capacity of the tier.
const TICKS: u64 = 1 << 12;

/// A host with its memory tier.
pub struct Host {
    engine: heap::Host<Engine>,
    carried: Box<Carried<Frame>>,
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
            device: Rc::new(RefCell::new(Device::new(0, 1))),
            moved: Rc::default(),
            time: Cell::new(0),
        };
        Self {
            engine: heap::Host::new(Arc::new(tier), 0, own),
            carried: Box::new(Carried::new()),
        }
    }

    /// Adds an SSD tier of `segments` segments of `size` pages, which replaces the existing one.
    ///
    /// # Panics
    ///
    /// If the SSD tier has pages.
    pub fn set_ssd(&mut self, segments: u32, size: u32) {
        let mut device = self.engine.own.device.borrow_mut();
        assert_eq!(device.live(), 0, "the SSD tier has pages");
        *device = Device::new(segments, size.max(1));
    }

    /// Sets the number of pages that are kept free and the number of free pages above which pages
    /// are promoted. Each may be [`genl::AUTOMATIC`].
    pub fn set_thresholds(&mut self, keep_free: u64, promote_free: u64) {
        self.engine.tier.set_reserve(keep_free);
        self.engine.tier.set_vacancy(promote_free);
    }

    /// Sets the time in nanoseconds, which determines when pages are promoted.
    pub fn set_time(&mut self, nanoseconds: u64) {
        self.engine.own.time.set(nanoseconds);
    }

    /// Adds a VM with the same weight in both tiers. Returns its number.
    pub fn add_vm(&mut self, weight: u32) -> usize {
        let common = &self.engine.own.clock;
        let clock = match self.engine.tier.mode() {
            genl::Mode::Weighted => Rc::new(Clock::new(common.tick)),
            genl::Mode::GlobalFifo => common.clone(),
        };
        let number = self.engine.vm_list.get_mut().vms().len();
        let own = Registration {
            clock,
            device: self.engine.own.device.clone(),
            moved: self.engine.own.moved.clone(),
            number: number as u64,
            ssd_weight: Cell::new(weight),
            ssd_weights: RefCell::default(),
        };
        let session = Session::new(self.engine.tier.clone(), HASHER, own);
        self.engine.add_vm(Vm {
            number: number as u32,
            share: weight,
            session,
            standing: Standing::new(),
        });
        number
    }

    /// Adds a pool to a VM. Returns its ID.
    pub fn add_pool(&mut self, vm: usize, weight: u32, order: Order) -> PoolId {
        let session = &mut self.vm_mut(vm).session;
        let number = session.add_pool();
        session.set_pool(number, weight, order);
        session.own.ssd_weights.get_mut().push(0);
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

    /// Sets the weight of a VM in the SSD tier.
    pub fn set_vm_ssd_weight(&mut self, vm: usize, weight: u32) {
        self.vm(vm).session.own.ssd_weight.set(weight);
    }

    /// Sets the weight of a pool in the SSD tier. Until then it is 0, so that the pool keeps no
    /// pages there. A pool without weight in the memory tier puts its pages into the SSD tier.
    pub fn set_ssd_weight(&mut self, id: PoolId, weight: u32) {
        let vm = self.vm(id.vm);
        vm.session.own.ssd_weights.borrow_mut()[id.pool] = weight;
        if weight == 0 {
            let pool = (id.vm as u64, id.pool as u32);
            self.engine.own.device.borrow_mut().close(pool, None);
        }
    }

    /// Ends a pool: frees its pages and refuses further puts.
    pub fn remove_pool(&mut self, id: PoolId) {
        self.set_weight(id, 0);
        self.set_ssd_weight(id, 0);
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

    /// Removes a page from the store. Returns whether the host had it.
    pub fn take(&mut self, vm: usize, page: Page) -> bool {
        self.get(vm, page).is_some()
    }

    /// Removes a page from the store. Returns the tier that had it.
    pub fn get(&mut self, vm: usize, page: Page) -> Option<TierKind> {
        let vm = self.vm(vm);
        let mut reader = Reader::default();
        load(
            (&self.engine, &vm.session),
            std::iter::once((run(page), 0)),
            (&mut [Frames::Ready; MAX_RUNS], false),
            &mut self.carried,
            &mut reader,
        );
        self.promote();
        reader.tier
    }

    /// Promotes pages, if a promotion is due.
    fn promote(&mut self) {
        if is_promotion_due(&self.engine) {
            refill(&self.engine);
        }
    }

    /// Frees a page because its content has changed.
    pub fn flush(&mut self, vm: usize, page: Page) {
        let vm = self.vm(vm);
        discard(&vm.session, &mut self.carried.batch, &run(page));
    }

    /// Stores a page, after making room for it if necessary. Pools without weight store nothing.
    /// Returns whether the page was stored.
    pub fn put(&mut self, id: PoolId, page: Page, class: Class) -> bool {
        self.store(id, page, class).is_some()
    }

    /// Stores a page like [`Self::put`]. Returns the tier that has it.
    pub fn store(&mut self, id: PoolId, page: Page, class: Class) -> Option<TierKind> {
        let vm = self.vm(id.vm);
        let session = &vm.session;
        let pool = id.pool as u32;
        let (tier, is_stored) = match session.share(pool) > 0 {
            true => (TierKind::Memory, self.put_in_memory(&vm, id, page, class)),
            false => {
                let is_stored = vm.session.own.ssd_weight.get() > 0
                    && session.ssd_share(pool) > 0
                    && self.put_on_ssd(&vm, id, page);
                (TierKind::Ssd, is_stored)
            }
        };
        reclaim(&self.engine, &*self.engine.own.device);
        self.promote();
        is_stored.then_some(tier)
    }

    fn put_on_ssd(&mut self, vm: &Vm, id: PoolId, page: Page) -> bool {
        let session = &vm.session;
        let run = Run {
            pool: id.pool as u32,
            class: SSD_CLASS,
            ..run(page)
        };
        let mut pages = [Some(Frame(None))];
        let Some((_, stamp)) = session.put_on_ssd(&run, &mut pages, 1) else {
            // Discard any older copy of the page.
            discard(session, &mut self.carried.batch, &run);
            return false;
        };
        let handles = pages
            .each_ref()
            .map(|page| page.as_ref().map_or(0, carried::Page::handle));
        let run = std::iter::once((run, 0));
        insert(
            session,
            &mut self.carried.batch,
            run,
            (&handles, stamp),
            |_| {
                if let [page] = &mut pages
                    && let Some(page) = page.take()
                {
                    carried::Page::keep(page);
                }
            },
        ) > 0
    }

    fn put_in_memory(&mut self, vm: &Vm, id: PoolId, page: Page, class: Class) -> bool {
        let session = &vm.session;
        if make_room(&self.origin(vm), 1) == 0 {
            return false;
        }
        let run = Run {
            pool: id.pool as u32,
            class: class.number() as u8,
            ..run(page)
        };
        let stamp = session.stamp(1);
        let run = std::iter::once((run, 0));
        insert(session, &mut self.carried.batch, run, (&[0], stamp), |_| {}) > 0
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
