// SPDX-License-Identifier: GPL-2.0

//! A host with some VMs around the engine, and what must be true of them after each call.

use std::cell::{Cell, RefCell, RefMut};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use ddabi::genl::Mode;
use ddcore::host::evict::evict_all;
use ddcore::host::room::{self, Parts, enforce_limit, give_back, surplus};
use ddcore::host::tier::Tier;
use ddcore::host::walk::drain;
use ddcore::partition::Entity;

use crate::memory::{Frame, Memory};
use crate::session::{POOLS, Session};
use crate::vm::Vm;

const VMS: usize = 3;
/// Pages of an eviction.
const BATCH: u32 = 64;
/// Frames that are kept in stock.
const STOCKED: usize = 100;

/// Frames in stock.
pub(crate) struct Stock(RefCell<Vec<Frame>>);

impl room::Stock<Frame> for Stock {
    fn len(&self) -> u64 {
        self.0.borrow().len() as u64
    }

    fn add(&self, pages: &mut [Option<Frame>]) {
        let mut stock = self.0.borrow_mut();
        let room = STOCKED - stock.len();
        stock.extend(pages.iter_mut().filter_map(Option::take).take(room));
    }

    fn take(&self, places: &mut [Option<Frame>]) -> usize {
        let mut stock = self.0.borrow_mut();
        let count = stock.len().min(places.len());
        for place in &mut places[..count] {
            *place = stock.pop();
        }
        count
    }

    fn give_back(&self, pages: u64) -> u64 {
        let mut stock = self.0.borrow_mut();
        let count = (stock.len() as u64).min(pages);
        let left = stock.len() - count as usize;
        stock.truncate(left);
        count
    }
}

pub(crate) struct Roster {
    vms: [Rc<Vm>; VMS],
    entities: [Entity; VMS],
    pools: [Entity; POOLS],
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

pub(crate) struct Host {
    pub(crate) tier: Rc<Tier<AtomicU64>>,
    pub(crate) memory: Rc<Memory>,
    vms: [Rc<Vm>; VMS],
    roster: RefCell<Roster>,
    stock: Stock,
    time: Cell<u64>,
    sessions: Cell<u64>,
}

impl ddcore::host::Host for Host {
    type Number = AtomicU64;
    type Page = Frame;
    type Stock = Stock;
    type Session = Session;
    type Roster = Roster;

    fn tier(&self) -> &Tier<AtomicU64> {
        &self.tier
    }

    fn lock(&self) -> impl DerefMut<Target = Roster> {
        self.roster.borrow_mut()
    }

    fn try_lock(&self) -> Option<impl DerefMut<Target = Roster>> {
        self.roster
            .try_borrow_mut()
            .ok()
            .map(|roster: RefMut<'_, _>| roster)
    }

    fn stock(&self) -> &Stock {
        &self.stock
    }

    fn allocate(&self, pages: &mut [Option<Frame>], below_floor: bool) -> usize {
        self.memory.allocate(pages, below_floor)
    }

    fn spare(&self) -> u64 {
        self.memory.spare.get()
    }

    fn milliseconds(&self) -> u64 {
        self.time.get()
    }

    fn evicted(&self, pages: u64) {
        assert!(pages <= self.tier.batch());
        assert!(pages > 0 || self.used() == 0, "a session still has pages");
    }

    fn breathe(&self) {}

    fn is_dying(&self) -> bool {
        false
    }
}

impl Host {
    pub(crate) fn new(capacity: u64) -> Self {
        let vms: [Rc<Vm>; VMS] = std::array::from_fn(|number| Rc::new(Vm::new(number as u32)));
        let tier = Tier::new(capacity);
        tier.set_batch(BATCH);
        Self {
            tier: Rc::new(tier),
            memory: Memory::new(),
            roster: RefCell::new(Roster {
                vms: vms.clone(),
                entities: [Entity::default(); VMS],
                pools: [Entity::default(); POOLS],
            }),
            vms,
            stock: Stock(RefCell::default()),
            time: Cell::new(0),
            sessions: Cell::new(0),
        }
    }

    pub(crate) fn vm(&self, number: u8) -> &Vm {
        &self.vms[usize::from(number) % VMS]
    }

    /// A guest registers.
    pub(crate) fn hello(&self, vm: u8) {
        self.sessions.set(self.sessions.get() + 1);
        let id = self.sessions.get();
        let session = Session::new(id, self.tier.clone(), self.memory.clone());
        if let Some(old) = self.vm(vm).begin(session) {
            drain(&*old);
        }
    }

    pub(crate) fn set_capacity(&self, pages: u64) {
        self.tier.set_capacity(pages);
        self.tier.set_floor(self.tier.floor().min(pages));
        enforce_limit(self);
        assert!(!self.tier.is_overfull());
    }

    pub(crate) fn set_floor(&self, pages: u64) {
        self.tier.set_floor(pages.min(self.tier.capacity()));
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        if mode == Mode::GlobalFifo {
            for session in self.vms.iter().filter_map(|vm| vm.current()) {
                self.tier.follow(&session.clock);
            }
        }
        self.tier.set_mode(mode);
    }

    pub(crate) fn flush_vm(&self, vm: u8) {
        if let Some(session) = self.vm(vm).current() {
            evict_all(&*session);
            assert!(session.model.borrow().is_empty());
        }
    }

    /// The host takes back what its memory pressure asks for.
    pub(crate) fn shrink(&self, pages: u64) {
        let (before, can) = (self.memory.used(), surplus(self));
        let given = give_back(self, &mut self.roster.borrow_mut(), pages);
        assert!(given <= pages && given <= can);
        assert_eq!(self.memory.used() as u64, before as u64 - given);
        // Evictions by age are to within a batch.
        if self.tier.mode() == Mode::Weighted {
            assert_eq!(given, pages.min(can));
        }
    }

    pub(crate) fn pass(&self, milliseconds: u64) {
        self.time.set(self.time.get() + milliseconds);
    }

    fn used(&self) -> u64 {
        let sessions = self.vms.iter().filter_map(|vm| vm.current());
        sessions
            .map(|session| session.model.borrow().len() as u64)
            .sum()
    }

    /// No page is lost, none is kept twice, and all books agree.
    pub(crate) fn check(&self) {
        for session in self.vms.iter().filter_map(|vm| vm.current()) {
            session.check();
            session.tell();
        }
        let used = self.used();
        assert_eq!(self.tier.used(), used);
        assert!(used <= self.tier.capacity());
        let stocked = self.stock.0.borrow().len() as u64;
        assert_eq!(self.memory.used() as u64, used + stocked);
    }
}

impl room::Vm for Vm {
    type Session = Session;

    fn number(&self) -> u32 {
        self.number
    }

    fn share(&self) -> u32 {
        self.weight.get()
    }

    fn session(&self) -> Option<impl Deref<Target = Session>> {
        self.current()
    }
}
