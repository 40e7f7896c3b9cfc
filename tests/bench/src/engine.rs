// SPDX-License-Identifier: GPL-2.0

//! Our engine, as it runs in the host module: `ddcore::host` with one VM that has one pool on a
//! tier of its own. Each shard is behind its lock, and evictions are announced to the guest, which
//! is told of them with the answers to its puts.

use std::{
    cell::RefCell,
    num::NonZeroU64,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, MutexGuard, TryLockError, atomic::AtomicU64},
};

use ddabi::{
    answer::{Eviction, MAX_EVICTIONS},
    request::{self, CLASSES},
};
use ddcore::{
    clock::Clock,
    host::{
        carried::Page,
        flush::{Effort, Rest, flush},
        notice::Notices,
        pressure::Gauge,
        room::{self, Parts, make_room},
        run::{insert, take},
        session::Ledger,
        tier::Tier,
    },
    partition::Entity,
    policy::{Order, Policy},
    request::Range,
    store::{Batch, Hasher, Heap, Removed, Store},
};

use crate::{cache::Cache, mix::Run};

/// Looks at a lock that is taken, before others may run.
const SPINS: u32 = 256;

/// Notices kept for the VM.
const NOTICES: usize = 2048;

/// Places that one operation may put out of use.
const TRIM_STEPS: u32 = 128;

/// Weight of the VM, and of its pool.
const WEIGHT: u32 = 100;

type Books = Tier<AtomicU64>;

thread_local! {
    /// The memory of a call, which the module keeps for each vCPU.
    static BATCH: RefCell<Batch> = const { RefCell::new(Batch::new()) };
    /// Notices on their way into an answer.
    static TOLD: RefCell<Vec<Eviction>> = RefCell::new(vec![Eviction::default(); MAX_EVICTIONS]);
}

/// A frame of the host. Its memory belongs to the caller.
pub(crate) struct Frame(NonZeroU64);

impl Page for Frame {
    fn handle(&self) -> u64 {
        self.0.get()
    }

    fn keep(self) {}
}

/// The session of the VM.
pub(crate) struct Session {
    hasher: Hasher,
    shards: Vec<Mutex<Store<Heap>>>,
    ledger: Ledger<AtomicU64>,
    clock: Clock<AtomicU64>,
    tier: Arc<Books>,
    gauge: Gauge<AtomicU64>,
    notices: Mutex<Notices<Vec<Eviction>>>,
    rest: Mutex<Option<Rest>>,
}

impl Session {
    #[inline]
    fn lock(&self, shard: usize) -> MutexGuard<'_, Store<Heap>> {
        // Held for less than a microsecond: spinning, as the module does, beats sleeping. But here
        // the thread that holds it may be interrupted, and then it had better run.
        let mut spins = 0;
        loop {
            match self.shards[shard].try_lock() {
                Ok(guard) => return guard,
                Err(TryLockError::WouldBlock) if spins < SPINS => std::hint::spin_loop(),
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
                Err(TryLockError::Poisoned(error)) => panic!("{error}"),
            }
            spins += 1;
        }
    }
}

impl ddcore::host::Session for Session {
    type Storage = Heap;
    type Number = AtomicU64;
    type Page = Frame;

    /// As in the host module.
    const SHARD_BITS: u32 = 3;

    #[inline]
    fn with<R>(&self, shard: usize, work: impl FnOnce(&mut Store<Heap>) -> R) -> R {
        let mut store = self.lock(shard);
        let result = work(&mut store);
        if store.is_slack() {
            store.trim_and_free(TRIM_STEPS);
        }
        result
    }

    #[inline]
    fn with_room<R>(
        &self,
        shard: usize,
        parts: usize,
        work: impl FnOnce(&mut Store<Heap>) -> R,
    ) -> Option<R> {
        let mut store = self.lock(shard);
        store.supply(parts);
        Some(work(&mut store))
    }

    #[inline]
    fn page(&self, removed: Removed) -> Option<Frame> {
        NonZeroU64::new(removed.into_handle()).map(Frame)
    }

    #[inline]
    fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    #[inline]
    fn ledger(&self) -> &Ledger<AtomicU64> {
        &self.ledger
    }

    #[inline]
    fn release(&self, pages: u64) {
        self.tier.release(pages);
    }

    #[inline]
    fn now(&self) -> u64 {
        self.clock.now()
    }

    #[inline]
    fn stamp(&self, pages: u64) -> u64 {
        self.tier.stamp(&self.clock, pages)
    }

    fn pool_count(&self) -> u32 {
        1
    }

    fn is_live(&self, pool: u32) -> bool {
        pool == 0
    }

    fn share(&self, _pool: u32) -> u32 {
        WEIGHT
    }

    fn order(&self, pool: u32) -> Option<Order> {
        self.is_live(pool).then(|| Order::of(Policy::DEFAULT))
    }

    fn gauge(&self, pool: u32) -> Option<&Gauge<AtomicU64>> {
        self.is_live(pool).then_some(&self.gauge)
    }

    fn announce(&self, notices: &[Eviction]) {
        let mut queue = self.notices.lock().expect("no thread panics");
        queue.add_all(notices);
    }

    fn take_rest(&self) -> Option<Rest> {
        self.rest.lock().expect("no thread panics").take()
    }

    fn leave_rest(&self, rest: Rest) {
        *self.rest.lock().expect("no thread panics") = Some(rest);
    }

    fn breathe(&self) {}

    fn is_dying(&self) -> bool {
        false
    }
}

/// The VM.
pub(crate) struct Vm {
    session: Session,
}

impl room::Vm for Vm {
    type Session = Session;

    fn number(&self) -> u32 {
        1
    }

    fn share(&self) -> u32 {
        WEIGHT
    }

    fn session(&self) -> Option<impl Deref<Target = Session>> {
        Some(&self.session)
    }
}

/// A list of one VM.
pub(crate) struct Roster {
    vms: [Arc<Vm>; 1],
    entities: [Entity; 1],
    pools: [Entity; 1],
}

impl room::Roster for Roster {
    type Vm = Vm;
    type Ref = Arc<Vm>;

    fn parts(&mut self) -> Parts<'_, Arc<Vm>> {
        Parts {
            vms: &self.vms,
            entities: &mut self.entities,
            pools: &mut self.pools,
        }
    }
}

/// One VM with one pool on a tier of its own.
pub(crate) struct Engine {
    tier: Arc<Books>,
    vm: Arc<Vm>,
    roster: Mutex<Roster>,
}

impl ddcore::host::Host for Engine {
    type Number = AtomicU64;
    type Page = Frame;
    type Stock = ();
    type Session = Session;
    type Roster = Roster;

    fn tier(&self) -> &Books {
        &self.tier
    }

    fn lock(&self) -> impl DerefMut<Target = Roster> {
        self.roster.lock().expect("no thread panics")
    }

    fn try_lock(&self) -> Option<impl DerefMut<Target = Roster>> {
        self.roster.try_lock().ok()
    }

    fn stock(&self) -> &() {
        &()
    }

    fn allocate(&self, _pages: &mut [Option<Frame>], _below_floor: bool) -> usize {
        // The caller has the frames.
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
}

impl Engine {
    /// An engine for so many pages.
    pub(crate) fn new(capacity: u64) -> Self {
        let hasher = Hasher::new(0x5eed_5eed_5eed_5eed);
        let shard = || Mutex::new(Store::new(Heap::with_lists(CLASSES), hasher));
        let tier = Arc::new(Tier::new(capacity));
        let session = Session {
            hasher,
            shards: (0..<Session as ddcore::host::Session>::SHARDS)
                .map(|_| shard())
                .collect(),
            ledger: Ledger::new(),
            clock: Clock::new(),
            tier: tier.clone(),
            gauge: Gauge::new(),
            notices: Mutex::new(Notices::new(vec![Eviction::default(); NOTICES])),
            rest: Mutex::new(None),
        };
        let vm = Arc::new(Vm { session });
        Self {
            tier,
            roster: Mutex::new(Roster {
                vms: [vm.clone()],
                entities: [Entity::default()],
                pools: [Entity::default()],
            }),
            vm,
        }
    }
}

/// The runs as a guest sends them, each with the place of its first page.
fn placed(runs: &[Run]) -> impl Iterator<Item = (request::Run, usize)> + '_ {
    runs.iter().scan(0, |next, run| {
        let place = *next;
        *next += run.pages as usize;
        let run = request::Run {
            file: run.key.file,
            index: run.key.index,
            pages: run.pages as u16,
            ..request::Run::default()
        };
        Some((run, place))
    })
}

impl Cache for Engine {
    fn put(&self, runs: &[Run], frame: u64) {
        use ddcore::host::Session as _;
        let pages = runs.iter().map(|run| run.pages as usize).sum::<usize>();
        let session = &self.vm.session;
        assert_eq!(make_room(self, pages as u64), pages as u64);
        let stamp = session.stamp(pages as u64);
        let mut handles = [0; 64];
        for (handle, frame) in handles.iter_mut().zip(frame..) {
            *handle = frame;
        }
        let stored = BATCH.with_borrow_mut(|batch| {
            insert(session, batch, placed(runs), (&handles, stamp), |_| {})
        });
        assert_eq!(stored, pages, "there is room");
        let mut queue = session.notices.lock().expect("no thread panics");
        std::hint::black_box(TOLD.with_borrow_mut(|told| queue.take(told)));
    }

    fn get(&self, runs: &[Run], frames: &mut Vec<u64>) {
        use ddcore::host::Session as _;
        let session = &self.vm.session;
        let found = BATCH.with_borrow_mut(|batch| {
            take(session, batch, placed(runs), |_, page| {
                frames.push(page.into_handle());
            })
        });
        session.went(found);
    }

    fn flush(&self, runs: &[Run]) -> usize {
        let mut effort = Effort::BOUNDED;
        let mut flush = |run: &Run| {
            let range = Range::Pages {
                file: run.key.file,
                first: run.key.index,
                last: run.key.index + u64::from(run.pages) - 1,
            };
            let session = &self.vm.session;
            let flushed = BATCH.with_borrow_mut(|batch| flush(session, &range, batch, &mut effort));
            flushed.pages as usize
        };
        runs.iter().map(&mut flush).sum()
    }
}
