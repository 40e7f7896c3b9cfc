// SPDX-License-Identifier: GPL-2.0-only

//! A host with several VMs that owns the engine, and the invariants that must hold after each call.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use ddabi::answer::Eviction;
use ddabi::genl::Mode;
use ddabi::pool::SsdAdmit;
use ddabi::request::Run;
use ddcore::host::Session as _;
use ddcore::host::cause::Cause;
use ddcore::host::evict::{Freed, evict_all};
use ddcore::host::heap::{self, Owner, Tier};
use ddcore::host::promotion::is_promotion_due;
use ddcore::host::relocate::{Promoted, demote, promote};
use ddcore::host::room::{self, Stock as _, give_back, refill, surplus};
use ddcore::host::segments::{evict_segment, reclaim};
use ddcore::host::standing::{Standing, settle};
use ddcore::host::walk::drain;
use ddcore::index::{Held, Removed};

use crate::memory::{Frame, Memory};
use crate::session::{POOLS, Session};
use crate::vm::Vm;

const VMS: usize = 3;
/// Pages of an eviction batch.
const BATCH: u32 = 64;
/// Maximum number of frames in the stock.
const STOCKED: usize = 100;

/// The state of the host outside of the engine.
pub(crate) struct World {
    pub(crate) memory: Rc<Memory>,
    vms: Vec<Arc<Vm>>,
    /// Time in milliseconds.
    time: Cell<u64>,
    sessions: Cell<u64>,
}

impl Owner for World {
    type Lock<T> = RefCell<T>;
    type Page = Frame;
    type Session = Session;
    type Vm = Vm;

    const SHARD_BITS: u32 = 2;

    fn page(session: &heap::Session<Self>, removed: Removed) -> Option<Frame> {
        session.own.page(removed)
    }

    fn share_page(session: &heap::Session<Self>, held: Held<'_>) -> Option<Frame> {
        Some(session.own.memory.share(held.handle()))
    }

    fn put_on_ssd(
        session: &heap::Session<Self>,
        run: &Run,
        pages: &mut [Option<Frame>],
        _counted: usize,
    ) -> Option<(usize, u64)> {
        session.own.place(run, pages)
    }

    fn read_from_ssd(
        session: &heap::Session<Self>,
        _run: &Run,
        pages: &mut [Option<Frame>],
    ) -> bool {
        session.own.memory.read(pages)
    }

    fn close_segment(session: &heap::Session<Self>, pool: u32, stamp: Option<u64>) {
        let mut device = session.own.memory.device.borrow_mut();
        device.close((session.own.id, pool), stamp);
    }

    fn places(session: &heap::Session<Self>, pool: u32) -> u64 {
        let device = session.own.memory.device.borrow();
        device.places_of((session.own.id, pool))
    }

    fn ssd_share(session: &heap::Session<Self>, pool: u32) -> u32 {
        session.own.ssd_share(pool)
    }

    fn ssd_admit(session: &heap::Session<Self>, pool: u32) -> SsdAdmit {
        session.own.ssd_admit(pool)
    }

    fn ssd_pages(host: &heap::Host<Self>) -> u64 {
        host.own.memory.device.borrow().places()
    }

    fn has_index_memory(session: &heap::Session<Self>) -> bool {
        !session.own.is_short.get()
    }

    fn announce(session: &heap::Session<Self>, notices: &[Eviction]) {
        session.own.announce(notices);
    }

    fn allocate(host: &heap::Host<Self>, pages: &mut [Option<Frame>], below_floor: bool) -> usize {
        // Pages for the SSD tier are buffered in memory that the host can spare.
        assert!(!below_floor || host.tier.used() <= host.tier.floor());
        host.own.memory.allocate(pages, below_floor)
    }

    fn spare(&self) -> u64 {
        self.memory.spare.get()
    }

    fn milliseconds(&self) -> u64 {
        self.time.get()
    }

    fn evicted(host: &heap::Host<Self>, pages: &Freed) {
        assert!(pages.total() <= host.tier.batch());
        // Pages in the SSD tier have no memory that could be freed.
        assert!(
            pages.total() > 0 || host.own.used().0 == 0,
            "a session still has pages in memory"
        );
    }
}

impl World {
    fn sessions(&self) -> impl Iterator<Item = Rc<heap::Session<Self>>> {
        self.vms.iter().filter_map(|vm| vm.current())
    }

    fn used(&self) -> (u64, u64) {
        let used = self.sessions().map(|session| session.own.used());
        used.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

/// The engine with its VMs, and all operations other than calls.
pub(crate) struct Host {
    pub(crate) engine: heap::Host<World>,
}

impl Host {
    pub(crate) fn new(capacity: u64) -> Self {
        let tier = Tier::new(capacity);
        tier.set_batch(BATCH);
        let own = World {
            memory: Memory::new(),
            vms: Vec::new(),
            time: Cell::new(0),
            sessions: Cell::new(0),
        };
        let mut engine = heap::Host::new(Arc::new(tier), STOCKED, own);
        let vms = (0..VMS as u32).map(|number| engine.add_vm(Vm::new(number)));
        engine.own.vms = vms.collect();
        Self { engine }
    }

    pub(crate) fn vm(&self, number: u8) -> &Vm {
        &self.engine.own.vms[usize::from(number) % VMS]
    }

    /// Registers a guest.
    pub(crate) fn hello(&self, vm: u8) {
        let World {
            memory, sessions, ..
        } = &self.engine.own;
        sessions.set(sessions.get() + 1);
        let session = Session::begin(sessions.get(), self.engine.tier.clone(), memory.clone());
        if let Some(old) = self.vm(vm).begin(session) {
            drain(&*old, 0..old.shards());
        }
        self.settle(vm);
    }

    /// Publishes the changes of a VM.
    pub(crate) fn settle(&self, vm: u8) {
        settle(&self.engine.tier, self.vm(vm));
    }

    pub(crate) fn set_weight(&self, vm: u8, weight: u32) {
        self.vm(vm).weight.set(weight);
        self.settle(vm);
    }

    pub(crate) fn end(&self, vm: u8) {
        self.vm(vm).end();
        self.settle(vm);
    }

    pub(crate) fn set_capacity(&self, pages: u64) {
        let tier = &self.engine.tier;
        tier.set_capacity(pages);
        tier.set_floor(tier.floor().min(pages));
        refill(&self.engine);
        assert!(!tier.is_overfull());
    }

    pub(crate) fn set_floor(&self, pages: u64) {
        let tier = &self.engine.tier;
        tier.set_floor(pages.min(tier.capacity()));
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        if mode == Mode::GlobalFifo {
            for session in self.engine.own.sessions() {
                self.engine.tier.follow(&session.clock);
            }
        }
        self.engine.tier.set_mode(mode);
    }

    pub(crate) fn flush_vm(&self, vm: u8) {
        if let Some(session) = self.vm(vm).current() {
            evict_all(&*session, u64::MAX, Cause::Weight);
            assert!(session.own.model.borrow().is_empty());
        }
    }

    /// Moves pages of a pool to the SSD tier.
    pub(crate) fn demote(&self, vm: u8, pool: u8, pages: u64) {
        if let Some(session) = self.vm(vm).current() {
            let pool = u32::from(pool) % POOLS as u32;
            let before = session.own.used();
            let freed = demote(&*session, (pool, Cause::Put), pages, None::<&()>);
            assert!(freed.total() <= pages);
            let (memory, ssd) = session.own.used();
            assert_eq!(
                (memory + freed.total(), ssd),
                (before.0, before.1 + freed.demoted)
            );
        }
    }

    /// Moves pages of a pool to the memory tier, as many as fit.
    pub(crate) fn promote(&self, vm: u8, pool: u8, pages: u64) {
        let tier = &self.engine.tier;
        if let Some(session) = self.vm(vm).current().filter(|_| tier.reserve(pages)) {
            let pool = u32::from(pool) % POOLS as u32;
            let before = session.own.used();
            let Promoted { moved, lost } = promote(&*session, pool, pages, |_| None);
            assert!(moved + lost <= pages);
            tier.release(pages - moved);
            // Pages whose data was lost have been removed.
            let expected = (before.0 + moved, before.1 - moved - lost);
            assert_eq!(session.own.used(), expected);
            assert!(lost == 0 || self.engine.own.memory.damage.get() > 0);
        }
    }

    /// Evicts the segment that Algorithm 1 chooses.
    pub(crate) fn evict_segment(&self) {
        let device = &self.engine.own.memory.device;
        let (size, before) = (u64::from(device.borrow().size()), device.borrow().live());
        match evict_segment(&self.engine, size) {
            None => assert_eq!(before, 0),
            Some((stamp, evicted)) => {
                assert_eq!(device.borrow().live(), before - evicted);
                assert!(evicted <= size && (evicted > 0) == stamp.is_some());
            }
        }
    }

    /// Performs the background work of the host module: evicts segments, promotes pages, and ends
    /// the segments of sessions that have ended.
    pub(crate) fn tidy(&self) {
        let World {
            memory, sessions, ..
        } = &self.engine.own;
        let is_current = |id| {
            self.engine
                .own
                .sessions()
                .any(|session| session.own.id == id)
        };
        for id in (1..=sessions.get()).filter(|id| !is_current(*id)) {
            for pool in 0..POOLS as u32 {
                memory.device.borrow_mut().close((id, pool), None);
            }
        }
        reclaim(&self.engine, &memory.device);
        if is_promotion_due(&self.engine) {
            refill(&self.engine);
        }
    }

    /// Frees pages, as the shrinker does under memory pressure.
    pub(crate) fn shrink(&self, pages: u64) {
        let (engine, memory) = (&self.engine, &self.engine.own.memory);
        let (before, can) = (memory.used(), surplus(engine));
        let given = give_back(engine, pages, None);
        assert!(given <= pages && given <= can);
        assert_eq!(memory.used() as u64, before as u64 - given);
        // Evictions by age are only exact to within a batch.
        if engine.tier.mode() == Mode::Weighted {
            assert_eq!(given, pages.min(can));
        }
    }

    pub(crate) fn pass(&self, milliseconds: u64) {
        let time = &self.engine.own.time;
        time.set(time.get() + milliseconds);
    }

    /// Checks that no page is lost or stored twice, and that all accounts agree.
    pub(crate) fn check(&self) {
        let engine = &self.engine;
        for session in engine.own.sessions() {
            session.own.check(&session);
            session.own.tell();
        }
        let (used, ssd) = engine.own.used();
        assert_eq!(engine.tier.used(), used);
        assert_eq!(engine.own.memory.device.borrow().live(), ssd);
        let weights = engine.own.vms.iter().filter(|vm| vm.current().is_some());
        let weights: u64 = weights.map(|vm| u64::from(vm.weight.get())).sum();
        assert_eq!(engine.tier.standing().weight(), weights);
        assert!(used <= engine.tier.capacity());
        let stocked = engine.stock.len();
        assert_eq!(engine.own.memory.used() as u64, used + stocked);
    }
}

impl room::Vm for Vm {
    type Session = heap::Session<World>;

    fn number(&self) -> u32 {
        self.number
    }

    fn share(&self) -> u32 {
        self.weight.get()
    }

    fn ssd_share(&self) -> u32 {
        self.ssd_weight.get()
    }

    fn session(&self) -> Option<impl Deref<Target = heap::Session<World>>> {
        self.current()
    }

    fn standing(&self) -> &Standing<AtomicU64> {
        &self.standing
    }
}
