// SPDX-License-Identifier: GPL-2.0-only

//! Pages are moved between the tiers while pages are put, read and evicted, even in the middle of a
//! move. A reader must never get an older version of a page, and no page may be leaked or freed
//! twice.

use super::*;
use crate::host::carried::Carried;
use crate::host::cause::Cause;
use crate::host::evict::{evict, evict_ssd};
use crate::host::get::take;
use crate::host::heap::{self, Owner, Tier, Vm};
use crate::host::put::keep;
use crate::host::room::refill;
use crate::host::session::{Session as _, TierKind};
use crate::host::standing::Standing;
use crate::host::steps::Effort;
use crate::host::walk::{counted, drop_device, migrate};
use crate::index::{self, Hasher, Removed, PLACED};
use crate::policy::Order;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::iter;
use ddabi::answer::Eviction;
use ddabi::key::{FileKey, PageKey};
use proptest::prelude::*;

/// Places of a segment.
const SEGMENT: u64 = 8;

/// Frames and places with their version and the number of their owners, by handle.
#[derive(Default)]
struct Memory {
    held: BTreeMap<u64, (u64, u32)>,
    frames: u64,
    places: u64,
}

type Shared = Rc<RefCell<Memory>>;

/// An owner of a frame or a place.
struct Held(u64, Shared);

impl Held {
    /// Allocates a frame, or a place, for a version of a page. Frames are reused as soon as they
    /// are free.
    fn new(memory: &Shared, is_placed: bool, version: u64) -> Self {
        let mut inner = memory.borrow_mut();
        let handle = if is_placed {
            inner.places += 1;
            PLACED | inner.places
        } else {
            let frames = 1..=inner.frames + 1;
            let free = frames
                .into_iter()
                .find(|frame| !inner.held.contains_key(frame));
            inner.frames = inner.frames.max(free.unwrap());
            free.unwrap()
        };
        inner.held.insert(handle, (version, 1));
        Self(handle, memory.clone())
    }

    fn version(&self) -> u64 {
        self.1.borrow().held[&self.0].0
    }
}

impl Page for Held {
    fn handle(&self) -> u64 {
        self.0
    }

    fn keep(self) {
        core::mem::forget(self);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut inner = self.1.borrow_mut();
        let (_, owners) = inner.held.get_mut(&self.0).unwrap();
        *owners -= 1;
        if *owners == 0 {
            inner.held.remove(&self.0);
        }
    }
}

/// An event that concerns pages.
#[derive(Clone, Debug)]
enum Event {
    Put(u64, u16, u32, u8),
    Take(u64, u16),
    Evict(u32, u64),
    EvictSsd(u32, u64),
    Migrate(u32),
}

#[derive(Clone, Debug)]
enum Move {
    Demote(u32, u64, Vec<Event>),
    Promote(u32, u64, Vec<Event>),
    Other(Event),
    /// From now on the data of each page whose place is a multiple of this number is lost.
    Damage(u64),
    Admit(SsdAdmit),
}

/// The owner's state of the session.
struct Own {
    memory: Shared,
    model: RefCell<BTreeMap<u64, u64>>,
    version: RefCell<u64>,
    /// The events that happen while the pages of a move are copied.
    between: RefCell<Vec<Event>>,
    damage: RefCell<u64>,
    /// The data of pages with greater places than this one is lost.
    lost_beyond: Cell<u64>,
    /// Pages of each pool that were reported as evicted from a tier, and as moved to it.
    evicted: RefCell<[[u64; 2]; 2]>,
    moved: RefCell<[[u64; 2]; 2]>,
    /// Pages of which the guest has notices.
    announced: Cell<u32>,
    /// Pages of each pool that were reported as not admitted to the SSD tier.
    unproven: RefCell<[u64; 2]>,
    admit: Cell<SsdAdmit>,
}

struct World;

type Session = heap::Session<World>;

impl Owner for World {
    type Lock<T> = RefCell<T>;
    type Page = Held;
    type Session = Own;
    type Vm = Vm<Self>;

    const SHARD_BITS: u32 = 1;

    fn page(session: &Session, removed: Removed) -> Option<Held> {
        Some(Held(removed.into_handle(), session.own.memory.clone()))
    }

    fn share_page(session: &Session, held: index::Held<'_>) -> Option<Held> {
        let memory = &session.own.memory;
        memory.borrow_mut().held.get_mut(&held.handle())?.1 += 1;
        Some(Held(held.handle(), memory.clone()))
    }

    fn put_on_ssd(
        session: &Session,
        run: &Run,
        pages: &mut [Option<Held>],
        counted: usize,
    ) -> Option<(usize, u64)> {
        assert_eq!(counted, pages.len());
        assert_eq!(usize::from(run.pages), pages.len());
        let memory = &session.own.memory;
        // Only pages up to the end of a segment get places. The next call places the remaining
        // ones.
        let first = memory.borrow().places + 1;
        let count = pages.len().min((SEGMENT - first % SEGMENT) as usize);
        for page in &mut pages[..count] {
            let version = page.as_ref()?.version();
            *page = Some(Held::new(memory, true, version));
        }
        happen(session, session.own.between.take());
        Some((count, first / SEGMENT))
    }

    fn read_from_ssd(session: &Session, _run: &Run, pages: &mut [Option<Held>]) -> bool {
        let damage = *session.own.damage.borrow();
        for page in pages.iter_mut() {
            let is_lost = |page: &Held| {
                let place = page.0 & !PLACED;
                place.is_multiple_of(damage) || place > session.own.lost_beyond.get()
            };
            let version = page
                .as_ref()
                .filter(|page| !is_lost(page))
                .map(Held::version);
            *page = version.map(|version| Held::new(&session.own.memory, false, version));
        }
        happen(session, session.own.between.take());
        true
    }

    fn announce(session: &Session, notices: &[Eviction]) {
        let pages: u32 = notices.iter().map(|notice| notice.pages).sum();
        session.own.announced.update(|all| all + pages);
    }

    fn tell_evicted(session: &Session, pool: u32, tier: TierKind, pages: u64, _: Cause) {
        assert!(pages > 0);
        session.own.evicted.borrow_mut()[pool as usize][tier as usize] += pages;
    }

    fn ssd_admit(session: &Session, _pool: u32) -> SsdAdmit {
        session.own.admit.get()
    }

    fn tell_unproven(session: &Session, pool: u32, pages: u64) {
        assert!(pages > 0);
        session.own.unproven.borrow_mut()[pool as usize] += pages;
    }

    fn tell_relocated(session: &Session, pool: u32, to: TierKind, pages: u64) {
        assert!(pages > 0);
        session.own.moved.borrow_mut()[pool as usize][to as usize] += pages;
    }

    fn spare(&self) -> u64 {
        CAPACITY
    }

    fn ssd_pages(_: &heap::Host<Self>) -> u64 {
        CAPACITY
    }

    fn milliseconds(&self) -> u64 {
        0
    }
}

const FILE: FileKey = FileKey {
    inode: 7,
    filesystem: 1,
    generation: 1,
};

const CAPACITY: u64 = 1 << 16;

fn session() -> Session {
    session_of(Arc::new(Tier::new(CAPACITY)))
}

fn session_of(tier: Arc<Tier>) -> Session {
    let own = Own {
        announced: Cell::new(0),
        memory: Shared::default(),
        model: RefCell::default(),
        version: RefCell::default(),
        between: RefCell::default(),
        damage: RefCell::new(u64::MAX),
        lost_beyond: Cell::new(u64::MAX),
        evicted: RefCell::default(),
        moved: RefCell::default(),
        unproven: RefCell::default(),
        admit: Cell::default(),
    };
    let mut session = Session::new(tier, Hasher::new(3), own);
    for _ in 0..2 {
        let pool = session.add_pool();
        session.set_pool(pool, 100, Order::Aged);
    }
    session
}

fn run(index: u64, pages: u16, pool: u32) -> Run {
    Run {
        file: FILE,
        index,
        pages,
        pool,
        ..Run::default()
    }
}

/// Demotes pages, or evicts them if they may not go to the SSD tier.
fn down(session: &Session, pool: u32, pages: u64) -> Freed {
    demote(session, (pool, Cause::Put), pages, None::<&()>)
}

fn happen(session: &Session, events: Vec<Event>) {
    for event in events {
        match event {
            Event::Put(index, pages, pool, class) => {
                let run = run(index, pages, pool);
                put(session, &Run { class, ..run });
            }
            Event::Take(index, pages) => read(session, &run(index, pages, 0)),
            Event::Evict(pool, pages) => _ = evict(session, (pool, Cause::Put), pages, None::<&()>),
            Event::EvictSsd(pool, pages) => {
                _ = evict_ssd(session, (pool, Cause::Segment), pages, u64::MAX);
            }
            Event::Migrate(pool) => {
                while !migrate(session, &FILE, pool, &mut Effort::bounded()).done {}
            }
        }
    }
}

/// Puts new versions of pages.
fn put(session: &Session, run: &Run) {
    let mut carried = Carried::new();
    for (page, index) in carried
        .pages
        .iter_mut()
        .zip(run.index..)
        .take(run.pages.into())
    {
        let mut version = session.own.version.borrow_mut();
        *version += 1;
        session.own.model.borrow_mut().insert(index, *version);
        *page = Some(Held::new(&session.own.memory, false, *version));
    }
    assert!(session.tier().reserve(run.pages.into()));
    let stamp = session.stamp(run.pages.into());
    let kept = keep(session, iter::once((*run, 0)), &mut carried, stamp);
    assert_eq!(kept, usize::from(run.pages));
}

/// Takes pages out, and checks that those that are found have the newest version.
fn read(session: &Session, run: &Run) {
    let mut carried = Carried::new();
    let found = take(session, iter::once((*run, 0)), &mut carried);
    for (page, index) in carried
        .pages
        .iter_mut()
        .zip(run.index..)
        .take(run.pages.into())
    {
        if let Some(page) = page.take() {
            assert_eq!(
                Some(&page.version()),
                session.own.model.borrow().get(&index)
            );
        }
    }
    session.sub_used(&found);
}

/// Compares counters, accounts and memory with each other.
fn check(session: &Session) {
    let (mut memory, mut ssd) = (0, 0);
    for pool in 0..2 {
        for tier in [TierKind::Memory, TierKind::Ssd] {
            let list = counted(session, pool, tier);
            let came = list.puts + list.moved_in + list.relocated_in;
            let left = list.hits + list.flushes + list.evictions + list.moved_out;
            assert_eq!(list.used, came - left - list.relocated_out);
            match tier {
                TierKind::Memory => memory += list.used,
                TierKind::Ssd => ssd += list.used,
            }
        }
        let list = counted(session, pool, TierKind::Memory);
        assert_eq!(session.gauge(pool).unwrap().held(), list.used);
        let ssd = counted(session, pool, TierKind::Ssd);
        assert_eq!(session.gauge(pool).unwrap().ssd(), ssd.used);
        assert_eq!(list.relocated_out, ssd.relocated_in);
        assert_eq!(list.relocated_in, ssd.relocated_out);
    }
    assert_eq!((session.used(), session.state().ssd()), (memory, ssd));
    assert_eq!(session.tier().used(), memory);
    // Each page in the index owns one frame or one place, and there are no other owners.
    let held = &session.own.memory.borrow().held;
    assert!(held.values().all(|(_, owners)| *owners == 1));
    let placed = held.keys().filter(|handle| **handle & PLACED != 0).count() as u64;
    assert_eq!((held.len() as u64 - placed, placed), (memory, ssd));
    // The numbers of pages that the engine reported to the owner equal its counters.
    for pool in 0..2 {
        let memory = counted(session, pool, TierKind::Memory);
        let ssd = counted(session, pool, TierKind::Ssd);
        let evicted = session.own.evicted.borrow()[pool as usize];
        assert_eq!(evicted, [memory.evictions, ssd.evictions]);
        let moved = session.own.moved.borrow()[pool as usize];
        assert_eq!(moved, [memory.relocated_in, memory.relocated_out]);
    }
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0u64..60, 1u16..24, 0u32..2, 0u8..3).prop_map(|(index, pages, pool, class)| {
            Event::Put(index, pages, pool, class)
        }),
        4 => (0u64..60, 1u16..24).prop_map(|(index, pages)| Event::Take(index, pages)),
        1 => (0u32..2, 1u64..20).prop_map(|(pool, pages)| Event::Evict(pool, pages)),
        1 => (0u32..2, 1u64..20).prop_map(|(pool, pages)| Event::EvictSsd(pool, pages)),
        1 => (0u32..2).prop_map(Event::Migrate),
    ]
}

fn movement() -> impl Strategy<Value = Move> {
    let between = || prop::collection::vec(event(), 0..3);
    prop_oneof![
        4 => event().prop_map(Move::Other),
        3 => (0u32..2, 1u64..40, between()).prop_map(|(pool, pages, events)| Move::Demote(pool, pages, events)),
        2 => (0u32..2, 1u64..40, between()).prop_map(|(pool, pages, events)| Move::Promote(pool, pages, events)),
        1 => prop_oneof![Just(u64::MAX), 1u64..20].prop_map(Move::Damage),
        1 => prop_oneof![Just(SsdAdmit::All), Just(SsdAdmit::Second)].prop_map(Move::Admit),
    ]
}

proptest! {
    #[test]
    fn readers_get_the_newest_version(moves in prop::collection::vec(movement(), 1..80)) {
        let session = session();
        for step in moves {
            match step {
                Move::Other(event) => happen(&session, vec![event]),
                Move::Admit(admit) => session.own.admit.set(admit),
                Move::Damage(damage) => *session.own.damage.borrow_mut() = damage,
                Move::Demote(pool, pages, events) => {
                    *session.own.between.borrow_mut() = events;
                    prop_assert!(down(&session, pool, pages).total() <= pages);
                }
                Move::Promote(pool, pages, events) => {
                    *session.own.between.borrow_mut() = events;
                    prop_assert!(session.tier().reserve(pages));
                    let promoted = promote(&session, pool, pages, |_| None);
                    prop_assert!(promoted.moved + promoted.lost <= pages);
                    session.tier().release(pages - promoted.moved);
                }
            }
            session.own.between.take();
            check(&session);
        }
    }
}

/// Only pages of a class of at least 1 are demoted. The others are evicted in their place, in the
/// order in which they would leave memory anyway. Promoted pages may be demoted again.
#[test]
fn only_proven_pages_go_down() {
    let session = session();
    session.own.admit.set(SsdAdmit::Second);
    put(&session, &run(0, 40, 0));
    put(
        &session,
        &Run {
            class: 1,
            ..run(100, 20, 0)
        },
    );
    put(
        &session,
        &Run {
            class: 3,
            ..run(200, 20, 0)
        },
    );
    let freed = down(&session, 0, 80);
    assert_eq!((freed.demoted, freed.evicted), (40, 40));
    assert_eq!((session.used(), session.state().ssd()), (0, 40));
    assert_eq!(*session.own.unproven.borrow(), [40, 0]);
    session
        .own
        .model
        .borrow_mut()
        .retain(|index, _| *index >= 100);
    check(&session);
    assert!(session.tier().reserve(40));
    assert_eq!(promote(&session, 0, 40, |_| None).moved, 40);
    assert_eq!(down(&session, 0, 40).demoted, 40);
    assert_eq!(*session.own.unproven.borrow(), [40, 0]);
    read(&session, &run(100, 20, 0));
    read(&session, &run(200, 20, 0));
    assert!(session.is_empty());
    check(&session);
}

/// A pool that admits all pages demotes those of all classes.
#[test]
fn all_classes_go_down_by_default() {
    let session = session();
    for class in 0..4 {
        let index = u64::from(class) * 100;
        put(
            &session,
            &Run {
                class,
                ..run(index, 10, 0)
            },
        );
    }
    let freed = down(&session, 0, 40);
    assert_eq!((freed.demoted, freed.evicted), (40, 0));
    assert_eq!(*session.own.unproven.borrow(), [0, 0]);
    check(&session);
}

#[test]
fn pages_go_down_and_come_back() {
    let session = session();
    put(&session, &run(0, 40, 0));
    assert_eq!(down(&session, 0, 30).demoted, 30);
    assert_eq!((session.used(), session.state().ssd()), (10, 30));
    assert!(session.tier().reserve(100));
    let promoted = promote(&session, 0, 100, |_| Some(3)).moved;
    session.tier().release(100 - promoted);
    assert_eq!(promoted, 30);
    assert!(session.state().nodes.are_mostly_on(3));
    check(&session);
    read(&session, &run(0, 40, 0));
    check(&session);
    assert_eq!(counted(&session, 0, TierKind::Memory).hits, 40);
}

/// Lost pages do not prevent the promotion of older ones that can be read.
#[test]
fn older_pages_than_the_lost_ones_are_promoted() {
    let session = session();
    for index in (0..40).map(|block| block * 16) {
        put(&session, &run(index, 16, 0));
        assert_eq!(down(&session, 0, 16).demoted, 16);
    }
    let oldest = 16 * 8;
    // The data of all pages is lost whose place is beyond those of the oldest pages.
    session.own.lost_beyond.set(oldest);
    let wanted = 16 * 40;
    assert!(session.tier().reserve(wanted));
    let promoted = promote(&session, 0, wanted, |_| None);
    session.tier().release(wanted - promoted.moved);
    let lost = wanted - oldest;
    assert_eq!(
        promoted,
        Promoted {
            moved: oldest,
            lost
        }
    );
    check(&session);
}

/// VMs without a pool that has weight in the memory tier do not prevent the promotion of the pages
/// of others, however many there are.
#[test]
fn vms_that_use_the_ssd_tier_only_do_not_end_promotion() {
    let host = heap::Host::new(Arc::new(Tier::new(CAPACITY)), 0, World);
    for number in 0..20 {
        let session = session_of(host.tier.clone());
        put(&session, &run(0, 16, 0));
        assert_eq!(down(&session, 0, 16).demoted, 16);
        if number < 19 {
            session.set_pool(0, 0, Order::Aged);
            session.set_pool(1, 0, Order::Aged);
        }
        host.add_vm(Vm {
            number,
            share: 100,
            session,
            standing: Standing::new(),
        });
    }
    refill(&host);
    let vms = host.vm_list.borrow().vms().to_vec();
    let promoted = vms.iter().map(|vm| vm.session.used());
    assert_eq!(
        promoted.collect::<Vec<_>>(),
        [[0; 19].as_slice(), &[16]].concat()
    );
}

/// Evicting a segment spares the pages of the next one, even if each page has its own block.
#[test]
fn a_segment_is_evicted_and_no_other_page() {
    let session = session();
    for page in 0..2 * SEGMENT - 1 {
        put(&session, &run(page * 16, 1, 0));
        assert_eq!(down(&session, 0, 1).demoted, 1);
    }
    assert_eq!(
        evict_ssd(&session, (0, Cause::Segment), u64::MAX, 0),
        SEGMENT - 1
    );
    assert_eq!(session.state().ssd(), SEGMENT);
    check(&session);
}

/// When a device is lost, its pages are reported for each pool, and to the guest.
#[test]
fn pages_of_a_lost_device_are_reported() {
    let session = session();
    put(&session, &run(0, 40, 0));
    put(&session, &run(100, 30, 1));
    assert_eq!(
        (down(&session, 0, 30).demoted, down(&session, 1, 20).demoted),
        (30, 20)
    );
    let before = session.own.announced.get();
    let dropped = drop_device(&session, 0);
    session.own.model.borrow_mut().clear();
    assert_eq!(dropped, 50);
    assert_eq!(session.own.announced.get() - before, 50);
    assert_eq!(*session.own.evicted.borrow(), [[0, 30], [0, 20]]);
}

/// A page that is written while it is demoted stays in memory, in its new version.
#[test]
fn a_newer_copy_is_not_overtaken() {
    let session = session();
    put(&session, &run(0, 4, 0));
    *session.own.between.borrow_mut() = vec![Event::Put(1, 1, 0, 0)];
    down(&session, 0, 4);
    let key = PageKey {
        file: FILE,
        index: 1,
    };
    let lists: Vec<_> = (0..session.shards())
        .filter_map(|shard| session.with(shard, |index| index.list_of(&key)))
        .collect();
    assert_eq!(lists, [list(0, 0)]);
    read(&session, &run(0, 4, 0));
    check(&session);
}

/// A guest reads a page back and puts it again while its frame is being copied. The new page could
/// get the same frame number, and must not be mistaken for the page that was copied.
#[test]
fn a_handle_stands_for_one_page_during_a_move() {
    let session = session();
    put(&session, &run(0, 4, 0));
    *session.own.between.borrow_mut() = vec![Event::Take(0, 4), Event::Put(0, 4, 0, 0)];
    down(&session, 0, 4);
    read(&session, &run(0, 4, 0));
    check(&session);
}
