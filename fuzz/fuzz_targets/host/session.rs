// SPDX-License-Identifier: GPL-2.0-only

//! A registration of a guest, and the plain map of its expected pages.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use ddabi::answer::Eviction;
use ddabi::key::PageKey;
use ddabi::request::Run;
use ddcore::host::Session as _;
use ddcore::host::heap::{self, Tier};
use ddcore::host::list::LISTS;
use ddcore::host::list::{list, same_class};
use ddcore::host::notice::Notices;
use ddcore::host::pressure::Gauge;
use ddcore::host::session::TierKind;
use ddcore::host::walk::counted;
use ddcore::index::{Hasher, Removed};
use ddcore::policy::Order;
use ddcore::request::{Range, Settings};

use crate::host::World;
use crate::memory::{Frame, Memory};

/// Number of places for pools.
pub(crate) const POOLS: usize = 4;
/// Maximum number of queued notices.
const NOTICES: usize = 4;

/// The copies of a page: list and frame of each. In the middle of a put there may be several, the
/// oldest first.
type Copies = Vec<(u16, u64)>;

/// A registration, as the engine sees it.
pub(crate) type Registration = heap::Session<World>;

/// The part of a session that the engine does not see.
pub(crate) struct Session {
    pub(crate) id: u64,
    memory: Rc<Memory>,
    notices: RefCell<Notices<Vec<Eviction>>>,
    /// Evicted pages that were announced, and those that were reported or lost.
    announced: Cell<u64>,
    told: Cell<u64>,
    /// Whether there is no memory for the index.
    pub(crate) is_short: Cell<bool>,
    /// All pages that are kept.
    pub(crate) model: RefCell<BTreeMap<PageKey, Copies>>,
}

/// Creates a pool, or changes its settings.
pub(crate) fn set(session: &Registration, pool: u32, settings: Settings) {
    session.set_pool(pool, settings.share(), Order::of(settings.policy));
}

impl Session {
    /// Creates a registration with an empty default pool.
    pub(crate) fn begin(id: u64, tier: Arc<Tier>, memory: Rc<Memory>) -> Rc<Registration> {
        let own = Self {
            id,
            memory,
            notices: RefCell::new(Notices::new(vec![Eviction::default(); NOTICES])),
            announced: Cell::new(0),
            told: Cell::new(0),
            is_short: Cell::new(false),
            model: RefCell::default(),
        };
        let mut session = Registration::new(tier, Hasher::new(id), own);
        for _ in 0..POOLS {
            session.add_pool();
        }
        set(&session, 0, Settings::DEFAULT);
        Rc::new(session)
    }

    /// Adds a run whose data was copied into frames: its pages may be inserted, behind existing
    /// copies.
    pub(crate) fn expect(&self, run: &Run, frames: &[Option<Frame>]) {
        let mut model = self.model.borrow_mut();
        for (key, frame) in keys(run).zip(frames) {
            let number = frame.as_ref().expect("a frame for each page").number;
            let copy = (list(run.pool, run.class), number);
            model.entry(key).or_default().push(copy);
        }
    }

    /// Records that a run was stored or refused. Each page has at most one copy afterwards.
    pub(crate) fn settle(&self, run: &Run, frames: Option<Vec<u64>>, is_stored: bool) {
        let mut model = self.model.borrow_mut();
        for (at, key) in keys(run).enumerate() {
            let Some(copies) = model.get_mut(&key) else {
                continue;
            };
            if !is_stored {
                // Copies from earlier runs of the call are gone; those from later ones may exist.
                let refused = frames.as_ref().map(|frames| frames[at]);
                copies.retain(|(_, frame)| Some(*frame) != refused);
            }
            if copies.is_empty() {
                model.remove(&key);
            }
        }
    }

    /// Checks that no page of a run is kept.
    pub(crate) fn assert_gone(&self, run: &Run) {
        let model = self.model.borrow();
        assert!(keys(run).all(|key| !model.contains_key(&key)));
    }

    /// Checks that no page of a range is kept.
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

    /// Checks that the pages of a file were moved to a pool, or stayed where memory was missing.
    pub(crate) fn migrated(
        &self,
        whole: &Registration,
        moves: impl Fn(&PageKey) -> bool,
        pool: u32,
    ) {
        let mut model = self.model.borrow_mut();
        for (key, copies) in model.iter_mut().filter(|(key, _)| moves(key)) {
            let owner = owner(whole, key).expect("it is still there");
            for (list, _) in copies {
                assert!(owner == *list || owner == same_class(*list, pool));
                *list = owner;
            }
        }
    }

    /// Checks that the engine's counters agree with the map.
    pub(crate) fn check(&self, whole: &Registration) {
        let model = self.model.borrow();
        let mut kept = [0u64; POOLS];
        for copies in model.values() {
            assert_eq!(copies.len(), 1, "a page has one copy");
            kept[usize::from(copies[0].0) / LISTS] += 1;
        }
        for (pool, kept) in (0..).zip(kept) {
            let sum = counted(whole, pool, TierKind::Memory);
            assert_eq!(sum.used, kept);
            assert_eq!(whole.gauge(pool).map_or(0, Gauge::held), kept);
            let gone = sum.hits + sum.flushes + sum.evictions + sum.moved_out;
            assert_eq!(sum.used + gone, sum.puts + sum.moved_in);
        }
        let shards = 0..Registration::SHARDS;
        let used = shards.map(|shard| whole.with(shard, |store| store.used()));
        let used = used.sum::<u64>();
        assert_eq!(used, model.len() as u64);
        assert_eq!(used, whole.used());
        if model.len() < 64 {
            for (key, copies) in model.iter() {
                assert_eq!(owner(whole, key), Some(copies[0].0));
            }
        }
    }

    /// Checks that every evicted page was reported or counted as lost.
    pub(crate) fn tell(&self) {
        let mut to = [Eviction::default(); NOTICES];
        let (count, lost) = self.notices.borrow_mut().take(&mut to);
        let told = to[..count].iter().map(|notice| u64::from(notice.pages));
        let told = told.sum::<u64>() + u64::from(lost);
        self.told.set(self.told.get() + told);
        assert_eq!(self.announced.get(), self.told.get());
    }

    /// Turns an entry that left the index into its frame.
    pub(crate) fn page(&self, removed: Removed) -> Option<Frame> {
        let (key, owner) = (*removed.key(), removed.list());
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

    /// Queues eviction notices for the guest.
    pub(crate) fn announce(&self, notices: &[Eviction]) {
        let pages = notices.iter().map(|notice| u64::from(notice.pages));
        self.announced
            .set(self.announced.get() + pages.sum::<u64>());
        self.notices.borrow_mut().add_all(notices);
    }
}

/// Returns the list of a page.
fn owner(session: &Registration, key: &PageKey) -> Option<u16> {
    let shards = 0..Registration::SHARDS;
    let mut owners = shards.filter_map(|shard| session.with(shard, |index| index.list_of(key)));
    let owner = owners.next();
    assert_eq!(owners.next(), None);
    owner
}

fn keys(run: &Run) -> impl Iterator<Item = PageKey> + use<> {
    let file = run.file;
    let indices = run.index..run.index + u64::from(run.pages);
    indices.map(move |index| PageKey { file, index })
}
