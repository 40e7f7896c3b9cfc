// SPDX-License-Identifier: GPL-2.0

//! A registration of a guest, and the plain map of what the engine must have of it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use ddabi::answer::Eviction;
use ddabi::key::PageKey;
use ddabi::request::{CLASSES, Run};
use ddcore::clock::Clock;
use ddcore::host::flush::Rest;
use ddcore::host::list::{list, same_class};
use ddcore::host::notice::Notices;
use ddcore::host::pressure::Gauge;
use ddcore::host::session::Ledger;
use ddcore::host::tier::Tier;
use ddcore::host::walk::counted;
use ddcore::policy::Order;
use ddcore::request::{Range, Settings};
use ddcore::store::{Hasher, Heap, Removed, Store};

use crate::memory::{Frame, Memory};

/// Places for pools.
pub(crate) const POOLS: usize = 4;
/// Notices that are kept.
const NOTICES: usize = 4;

/// What a page is kept by: its list and its frame. In the middle of a put there may be several, the
/// oldest first.
type Copies = Vec<(u16, u64)>;

pub(crate) struct Pool {
    pub(crate) settings: Cell<Option<Settings>>,
    order: Cell<Option<Order>>,
    gauge: Gauge<AtomicU64>,
}

/// A session.
pub(crate) struct Session {
    pub(crate) id: u64,
    hasher: Hasher,
    shards: Vec<RefCell<Store<Heap>>>,
    ledger: Ledger<AtomicU64>,
    pub(crate) clock: Clock<AtomicU64>,
    tier: Rc<Tier<AtomicU64>>,
    memory: Rc<Memory>,
    pub(crate) pools: [Pool; POOLS],
    notices: RefCell<Notices<Vec<Eviction>>>,
    /// Pages announced, and pages told or lost.
    announced: Cell<u64>,
    told: Cell<u64>,
    rest: Cell<Option<Rest>>,
    /// Whether the index gets no more memory.
    is_short: Cell<bool>,
    /// Every page that is kept.
    pub(crate) model: RefCell<BTreeMap<PageKey, Copies>>,
}

impl Session {
    pub(crate) fn new(id: u64, tier: Rc<Tier<AtomicU64>>, memory: Rc<Memory>) -> Rc<Self> {
        let hasher = Hasher::new(id);
        let shard = |_| RefCell::new(Store::new(Heap::with_lists(POOLS * CLASSES), hasher));
        let session = Self {
            id,
            hasher,
            shards: (0..<Self as ddcore::host::Session>::SHARDS)
                .map(shard)
                .collect(),
            ledger: Ledger::new(),
            clock: Clock::new(),
            tier,
            memory,
            pools: std::array::from_fn(|_| Pool {
                settings: Cell::new(None),
                order: Cell::new(None),
                gauge: Gauge::new(),
            }),
            notices: RefCell::new(Notices::new(vec![Eviction::default(); NOTICES])),
            announced: Cell::new(0),
            told: Cell::new(0),
            rest: Cell::new(None),
            is_short: Cell::new(false),
            model: RefCell::default(),
        };
        session.set(0, Settings::DEFAULT);
        Rc::new(session)
    }

    pub(crate) fn set(&self, pool: usize, settings: Settings) {
        self.pools[pool].settings.set(Some(settings));
        self.pools[pool].order.set(Some(Order::of(settings.policy)));
    }

    /// Whether the index gets no more memory from now on.
    pub(crate) fn set_short(&self, is_short: bool) {
        self.is_short.set(is_short);
    }

    /// Forgets what was counted in the lists of a pool that is empty.
    pub(crate) fn reset(&self, pool: usize) {
        for shard in &self.shards {
            for class in 0..CLASSES as u8 {
                let number = usize::from(list(pool as u32, class));
                assert!(shard.borrow_mut().storage_mut().lists[number].reset());
            }
        }
    }

    /// A run's data was copied into frames: it may get into the index, behind what is there.
    pub(crate) fn expect(&self, run: &Run, frames: &[Option<Frame>]) {
        let mut model = self.model.borrow_mut();
        for (key, frame) in keys(run).zip(frames) {
            let number = frame.as_ref().expect("a frame for each page").number;
            let copy = (list(run.pool, run.class), number);
            model.entry(key).or_default().push(copy);
        }
    }

    /// A run was stored or refused. A page that is kept has one copy.
    pub(crate) fn settle(&self, run: &Run, frames: Option<Vec<u64>>, is_stored: bool) {
        let mut model = self.model.borrow_mut();
        for (at, key) in keys(run).enumerate() {
            let Some(copies) = model.get_mut(&key) else {
                continue;
            };
            if !is_stored {
                // Copies of earlier runs are gone; those of later ones may be there.
                let refused = frames.as_ref().map(|frames| frames[at]);
                copies.retain(|(_, frame)| Some(*frame) != refused);
            }
            if copies.is_empty() {
                model.remove(&key);
            }
        }
    }

    /// Nothing is kept of a run.
    pub(crate) fn assert_gone(&self, run: &Run) {
        let model = self.model.borrow();
        assert!(keys(run).all(|key| !model.contains_key(&key)));
    }

    /// Nothing is kept of a range.
    pub(crate) fn assert_flushed(&self, range: &Range) {
        let flushed = |key: &PageKey| match range {
            Range::Pages { file, first, last } => {
                key.file == *file && (*first..=*last).contains(&key.index)
            }
            Range::File(file) => key.file == *file,
            Range::Filesystem(number) => key.file.filesystem == *number,
            Range::All => true,
        };
        assert!(!self.model.borrow().keys().any(flushed));
    }

    /// The pages of a file have been moved to a pool, or stay where memory is missing.
    pub(crate) fn migrated(&self, moves: impl Fn(&PageKey) -> bool, pool: u32) {
        let mut model = self.model.borrow_mut();
        for (key, copies) in model.iter_mut().filter(|(key, _)| moves(key)) {
            let owner = self.owner(key).expect("it is still there");
            for (list, _) in copies {
                assert!(owner == *list || owner == same_class(*list, pool));
                *list = owner;
            }
        }
    }

    fn owner(&self, key: &PageKey) -> Option<u16> {
        let mut owners = self
            .shards
            .iter()
            .filter_map(|shard| shard.borrow().pool_of(key));
        let owner = owners.next();
        assert_eq!(owners.next(), None);
        owner
    }

    /// Everything that the engine counted agrees with the map.
    pub(crate) fn check(&self) {
        let model = self.model.borrow();
        let mut kept = [0u64; POOLS];
        for copies in model.values() {
            assert_eq!(copies.len(), 1, "a page has one copy");
            kept[usize::from(copies[0].0) / CLASSES] += 1;
        }
        for (pool, kept) in (0..).zip(kept) {
            let sum = counted(self, pool);
            assert_eq!(sum.used, kept);
            let gone = sum.hits + sum.flushes + sum.evictions + sum.moved_out;
            assert_eq!(sum.used + gone, sum.puts + sum.moved_in);
        }
        let used: u64 = self.shards.iter().map(|shard| shard.borrow().used()).sum();
        assert_eq!(used, model.len() as u64);
        assert_eq!(used, self.ledger.used());
        if model.len() < 64 {
            for (key, copies) in model.iter() {
                assert_eq!(self.owner(key), Some(copies[0].0));
            }
        }
    }

    /// Every evicted page is told or counted as lost.
    pub(crate) fn tell(&self) {
        let mut to = [Eviction::default(); NOTICES];
        let (count, lost) = self.notices.borrow_mut().take(&mut to);
        let told = to[..count].iter().map(|notice| u64::from(notice.pages));
        let told = told.sum::<u64>() + u64::from(lost);
        self.told.set(self.told.get() + told);
        assert_eq!(self.announced.get(), self.told.get());
    }
}

fn keys(run: &Run) -> impl Iterator<Item = PageKey> + use<> {
    let file = run.file;
    let indices = run.index..run.index + u64::from(run.pages);
    indices.map(move |index| PageKey { file, index })
}

impl ddcore::host::Session for Session {
    type Storage = Heap;
    type Number = AtomicU64;
    type Page = Frame;

    const SHARD_BITS: u32 = 2;

    fn with<R>(&self, shard: usize, work: impl FnOnce(&mut Store<Heap>) -> R) -> R {
        let mut store = self.shards[shard].borrow_mut();
        let result = work(&mut store);
        if store.is_slack() {
            store.trim_and_free(128);
        }
        result
    }

    fn with_room<R>(
        &self,
        shard: usize,
        parts: usize,
        work: impl FnOnce(&mut Store<Heap>) -> R,
    ) -> Option<R> {
        let mut store = self.shards[shard].borrow_mut();
        if self.is_short.get() && store.lack(parts).is_some() {
            return None;
        }
        store.supply(parts);
        Some(work(&mut store))
    }

    fn page(&self, removed: Removed) -> Option<Frame> {
        let (key, owner) = (*removed.key(), removed.pool());
        let number = removed.into_handle();
        let mut model = self.model.borrow_mut();
        let copies = model.get_mut(&key).expect("a page that is kept");
        let copy = copies.iter().position(|copy| *copy == (owner, number));
        copies.remove(copy.expect("a copy that was put"));
        if copies.is_empty() {
            model.remove(&key);
        }
        Some(self.memory.frame(number))
    }

    fn hasher(&self) -> &Hasher {
        &self.hasher
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
        self.tier.stamp(&self.clock, pages)
    }

    fn pool_count(&self) -> u32 {
        POOLS as u32
    }

    fn is_live(&self, pool: u32) -> bool {
        let pool = self.pools.get(pool as usize);
        pool.is_some_and(|pool| pool.settings.get().is_some())
    }

    fn share(&self, pool: u32) -> u32 {
        let settings = self
            .pools
            .get(pool as usize)
            .and_then(|pool| pool.settings.get());
        settings.map_or(0, |settings| settings.share())
    }

    fn order(&self, pool: u32) -> Option<Order> {
        self.pools.get(pool as usize)?.order.get()
    }

    fn gauge(&self, pool: u32) -> Option<&Gauge<AtomicU64>> {
        Some(&self.pools.get(pool as usize)?.gauge)
    }

    fn announce(&self, notices: &[Eviction]) {
        let pages = notices.iter().map(|notice| u64::from(notice.pages));
        self.announced
            .set(self.announced.get() + pages.sum::<u64>());
        self.notices.borrow_mut().add_all(notices);
    }

    fn take_rest(&self) -> Option<Rest> {
        self.rest.take()
    }

    fn leave_rest(&self, rest: Rest) {
        self.rest.set(Some(rest));
    }

    fn breathe(&self) {}

    fn is_dying(&self) -> bool {
        false
    }
}
