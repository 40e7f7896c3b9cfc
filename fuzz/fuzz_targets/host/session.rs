// SPDX-License-Identifier: GPL-2.0-only

//! A registration of a guest, and the plain map of its expected pages.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use ddabi::answer::Eviction;
use ddabi::key::PageKey;
use ddabi::pool::SsdAdmit;
use ddabi::request::Run;
use ddcore::host::Session as _;
use ddcore::host::heap::{self, Tier};
use ddcore::host::list::LISTS;
use ddcore::host::list::{is_ssd, list, same_class, ssd_list};
use ddcore::host::notice::Notices;
use ddcore::host::pressure::Gauge;
use ddcore::host::session::TierKind;
use ddcore::host::walk::counted;
use ddcore::index::{Hasher, PLACED, Removed};
use ddcore::policy::Order;
use ddcore::request::{Range, Settings};

use crate::host::World;
use crate::memory::{Frame, Memory};

/// Maximum number of pools.
pub(crate) const POOLS: usize = 4;
/// Maximum number of queued notices.
const NOTICES: usize = 4;

/// A copy of a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Kept {
    list: u16,
    /// Its frame or its place.
    number: u64,
    /// The frame in which it was put.
    data: u64,
}

/// The copies of a page, the oldest first. During a put there may be several.
type Copies = Vec<Kept>;

/// A registration, as the engine sees it.
pub(crate) type Registration = heap::Session<World>;

/// The part of a session that the engine does not see.
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) memory: Rc<Memory>,
    /// Weights of the pools in the SSD tier.
    ssd_weights: RefCell<[u32; POOLS]>,
    ssd_admits: RefCell<[SsdAdmit; POOLS]>,
    notices: RefCell<Notices<Vec<Eviction>>>,
    /// Number of evicted pages that were announced, and number of those that were reported or lost.
    announced: Cell<u64>,
    told: Cell<u64>,
    /// Whether there is no memory for the index.
    pub(crate) is_short: Cell<bool>,
    /// All stored pages.
    pub(crate) model: RefCell<BTreeMap<PageKey, Copies>>,
}

/// Creates a pool, or changes its settings.
pub(crate) fn set(session: &Registration, pool: u32, settings: Settings) {
    session.set_pool(pool, settings.share(), Order::of(settings.policy));
    session.own.set_ssd_share(pool, settings.ssd_share());
    session.own.ssd_admits.borrow_mut()[pool as usize] = settings.ssd_admit;
}

impl Session {
    /// Creates a registration with an empty default pool.
    pub(crate) fn begin(id: u64, tier: Arc<Tier>, memory: Rc<Memory>) -> Rc<Registration> {
        let own = Self {
            id,
            memory,
            ssd_weights: RefCell::default(),
            ssd_admits: RefCell::default(),
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

    /// Adds the pages of a run whose data was copied into frames. They follow the existing copies,
    /// because the engine may insert them from now on.
    pub(crate) fn expect(&self, run: &Run, frames: &[Option<Frame>]) {
        let mut model = self.model.borrow_mut();
        for (key, frame) in keys(run).zip(frames) {
            let number = frame.as_ref().expect("a frame for each page").number;
            self.memory.fill(number);
            let copy = Kept {
                list: list(run.pool, run.class),
                number,
                data: number,
            };
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
                // Copies from earlier runs of the call have been removed; copies from later runs
                // may exist, which may also have got the places of this one.
                let refused = frames.as_ref().map(|frames| frames[at]);
                copies.retain(|copy| {
                    Some(copy.data) != refused
                        || copy.number & PLACED != 0
                            && self.memory.is_live(copy.number)
                            && self.memory.data(copy.number) == copy.data
                });
            }
            if copies.is_empty() {
                model.remove(&key);
            }
        }
    }

    /// Returns the pages of a run that are stored.
    pub(crate) fn stored<'a>(&'a self, run: &Run) -> impl Iterator<Item = PageKey> + use<'a> {
        keys(run).filter(|key| self.model.borrow().contains_key(key))
    }

    /// Returns whether all pages of a run are in the SSD tier.
    pub(crate) fn is_on_ssd(&self, run: &Run) -> bool {
        let model = self.model.borrow();
        keys(run).all(|key| model.get(&key).is_some_and(|copies| is_ssd(copies[0].list)))
    }

    /// Checks that no page of a range is stored.
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

    /// Checks that the pages of a file were moved to a pool, or not moved because memory was not
    /// available.
    pub(crate) fn migrated(
        &self,
        whole: &Registration,
        moves: impl Fn(&PageKey) -> bool,
        pool: u32,
    ) {
        let mut model = self.model.borrow_mut();
        for (key, copies) in model.iter_mut().filter(|(key, _)| moves(key)) {
            let owner = owner(whole, key).expect("it is still there");
            for copy in copies {
                assert!(owner == copy.list || owner == same_class(copy.list, pool));
                copy.list = owner;
            }
        }
    }

    /// Checks that the engine's counters agree with the map.
    pub(crate) fn check(&self, whole: &Registration) {
        let model = self.model.borrow();
        let (mut kept, mut placed) = ([0u64; POOLS], [0u64; POOLS]);
        for copies in model.values() {
            assert_eq!(copies.len(), 1, "a page has one copy");
            let Kept { list, number, data } = copies[0];
            assert_eq!(is_ssd(list), number & PLACED != 0);
            assert_eq!(
                self.memory.data(number),
                data,
                "a page has the data that was put"
            );
            let count = match is_ssd(list) {
                false => &mut kept,
                true => &mut placed,
            };
            count[usize::from(list) / LISTS] += 1;
        }
        let device = self.memory.device.borrow();
        for (pool, (kept, placed)) in (0..).zip(kept.into_iter().zip(placed)) {
            let tiers = [TierKind::Memory, TierKind::Ssd];
            let [up, down] = tiers.map(|tier| counted(whole, pool, tier));
            assert_eq!((up.used, down.used), (kept, placed));
            assert_eq!(whole.gauge(pool).map_or(0, Gauge::held), kept);
            assert!(placed <= device.places_of((self.id, pool)));
            for sum in [&up, &down] {
                let gone = sum.hits + sum.flushes + sum.evictions + sum.moved_out;
                let came = sum.puts + sum.moved_in + sum.relocated_in;
                assert_eq!(sum.used + gone + sum.relocated_out, came);
            }
            assert_eq!(up.relocated_out, down.relocated_in);
            assert_eq!(up.relocated_in, down.relocated_out);
        }
        let shards = 0..whole.shards();
        let used = shards.map(|shard| whole.with(shard, |store| store.used()));
        let used = used.sum::<u64>();
        assert_eq!(used, model.len() as u64);
        assert_eq!(kept.iter().sum::<u64>(), whole.used());
        assert_eq!(placed.iter().sum::<u64>(), whole.state().ssd());
        if model.len() < 64 {
            for (key, copies) in model.iter() {
                assert_eq!(owner(whole, key), Some(copies[0].list));
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

    /// Returns the number of pages in the memory tier, and in the SSD tier.
    pub(crate) fn used(&self) -> (u64, u64) {
        let model = self.model.borrow();
        let placed = model
            .values()
            .flatten()
            .filter(|copy| is_ssd(copy.list))
            .count();
        ((model.len() - placed) as u64, placed as u64)
    }

    /// Returns the weight of a pool in the SSD tier.
    pub(crate) fn ssd_share(&self, pool: u32) -> u32 {
        let weights = self.ssd_weights.borrow();
        weights.get(pool as usize).copied().unwrap_or(0)
    }

    /// Returns which pages of a pool go to the SSD tier.
    pub(crate) fn ssd_admit(&self, pool: u32) -> SsdAdmit {
        let admits = self.ssd_admits.borrow();
        admits.get(pool as usize).copied().unwrap_or_default()
    }

    /// Sets the weight of a pool in the SSD tier.
    pub(crate) fn set_ssd_share(&self, pool: u32, weight: u32) {
        self.ssd_weights.borrow_mut()[pool as usize] = weight;
        if weight == 0 {
            self.memory.device.borrow_mut().close((self.id, pool), None);
        }
    }

    /// Moves pages to places of the device.
    pub(crate) fn place(&self, run: &Run, pages: &mut [Option<Frame>]) -> Option<(usize, u64)> {
        assert_eq!(usize::from(run.pages), pages.len());
        let names: Vec<PageKey> = keys(run).collect();
        self.memory
            .place((self.id, run.pool), pages, |at, old, new| {
                let mut model = self.model.borrow_mut();
                let copies = model.get_mut(&names[at]).expect("a page that is put");
                let copy = copies.iter_mut().find(|copy| copy.number == old);
                let copy = copy.expect("a copy that is put");
                (copy.list, copy.number) = (ssd_list(run.pool), new);
            })
    }

    /// Converts an entry that was removed from the index into the owner of its frame or its place.
    /// Unless the entry moves to the other tier, its page is removed from the map.
    pub(crate) fn page(&self, removed: Removed) -> Option<Frame> {
        let (key, owner) = (*removed.key(), removed.list());
        let number = removed.into_handle();
        let mut model = self.model.borrow_mut();
        let copies = model.get_mut(&key).expect("a page that is kept");
        let is_it = |copy: &Kept| (copy.list, copy.number) == (owner, number);
        let at = copies.iter().position(is_it).expect("a copy that was put");
        assert_eq!(self.memory.data(number), copies[at].data);
        let pool = (usize::from(owner) / LISTS) as u32;
        match self.memory.moved(number) {
            Some(next) => {
                copies[at].number = next;
                copies[at].list = match next & PLACED {
                    0 => list(pool, self.ssd_admit(pool).least_class()),
                    _ => ssd_list(pool),
                };
            }
            None => _ = copies.remove(at),
        }
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

/// Returns the number of the list that has a page.
fn owner(session: &Registration, key: &PageKey) -> Option<u16> {
    let shards = 0..session.shards();
    let mut owners = shards.filter_map(|shard| session.with(shard, |index| index.list_of(key)));
    let owner = owners.next();
    assert_eq!(owners.next(), None);
    owner
}

/// Returns the keys of the pages of a run.
pub(crate) fn keys(run: &Run) -> impl Iterator<Item = PageKey> + use<> {
    let file = run.file;
    let indices = run.index..run.index + u64::from(run.pages);
    indices.map(move |index| PageKey { file, index })
}
