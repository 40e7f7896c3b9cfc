// SPDX-License-Identifier: GPL-2.0-only

//! The engine as it runs in the host module: `ddcore::host` with one VM that has one pool on a
//! separate tier. Each shard is behind its lock, and evictions are reported to the guest with the
//! answers to its puts. Like the caches beside it, it neither copies nor allocates pages: its calls
//! are those that [`ddcore::host::put`] and [`ddcore::host::get`] make around that.

use std::{
    cell::RefCell,
    num::NonZeroU64,
    ops::DerefMut,
    sync::{Arc, Mutex, MutexGuard, TryLockError},
};

use ddabi::{
    answer::{Eviction, MAX_EVICTIONS},
    request,
};
use ddcore::{
    host::{
        Origin,
        carried::Page,
        flush::flush,
        heap::{Host, Lock, Owner, Session, Tier, Vm},
        notice::Notices,
        room::make_room,
        run::{insert, take},
        session::{MAX_SHARD_BITS, shard_bits},
        standing::Standing,
        steps::Effort,
    },
    index::{Batch, Hasher, Removed},
    policy::{Order, Policy},
    request::Range,
};

use crate::{cache::Cache, mix::Run};

/// Number of attempts to take a lock before the thread yields.
const SPINS: u32 = 256;

/// Maximum number of queued notices.
const NOTICES: usize = 2048;

/// Weight of the VM, and of its pool.
const WEIGHT: u32 = 100;

thread_local! {
    /// The memory of a call, which the module keeps for each vCPU.
    static BATCH: RefCell<Batch> = const { RefCell::new(Batch::new()) };
    /// Notices for an answer.
    static TOLD: RefCell<Vec<Eviction>> = RefCell::new(vec![Eviction::default(); MAX_EVICTIONS]);
}

/// A frame of the host, whose memory belongs to the caller.
pub(crate) struct Frame(NonZeroU64);

impl Frame {
    /// Creates a page from its handle in the index.
    pub(crate) fn new(handle: NonZeroU64) -> Self {
        Self(handle)
    }
}

impl Page for Frame {
    fn handle(&self) -> u64 {
        self.0.get()
    }

    fn keep(self) {}
}

/// A lock that spins like the module's, because it is held for less than a microsecond.
pub(crate) struct Spinlock<T>(Mutex<T>);

impl<T> Lock<T> for Spinlock<T> {
    fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    #[inline]
    fn lock(&self) -> impl DerefMut<Target = T> {
        // The thread that holds the lock may be preempted here, and must get a chance to run.
        let mut spins = 0;
        loop {
            match self.0.try_lock() {
                Ok(guard) => return guard,
                Err(TryLockError::WouldBlock) if spins < SPINS => std::hint::spin_loop(),
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
                Err(TryLockError::Poisoned(error)) => panic!("{error}"),
            }
            spins += 1;
        }
    }

    fn try_lock(&self) -> Option<impl DerefMut<Target = T>> {
        self.0.try_lock().ok().map(|guard: MutexGuard<'_, T>| guard)
    }

    fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().expect("no thread panics")
    }
}

/// The owner of the engine. It has no state, because frames belong to the caller.
pub(crate) struct Bench;

impl Owner for Bench {
    type Lock<T> = Spinlock<T>;
    type Page = Frame;
    type Session = Mutex<Notices<Vec<Eviction>>>;
    type Vm = Vm<Self>;

    /// Not used: the number of shards is that of the host module for the guest's vCPUs.
    const SHARD_BITS: u32 = MAX_SHARD_BITS;

    #[inline]
    fn page(_session: &Session<Self>, removed: Removed) -> Option<Frame> {
        NonZeroU64::new(removed.into_handle()).map(Frame)
    }

    fn announce(session: &Session<Self>, notices: &[Eviction]) {
        let mut queue = session.own.lock().expect("no thread panics");
        queue.add_all(notices);
    }

    fn allocate(_host: &Host<Self>, _pages: &mut [Option<Frame>], _below_floor: bool) -> usize {
        // The caller has the frames.
        0
    }

    fn spare(&self) -> u64 {
        u64::MAX / 2
    }

    fn milliseconds(&self) -> u64 {
        0
    }
}

/// One VM with one pool on a separate tier.
pub(crate) struct Engine {
    host: Host<Bench>,
    vm: Arc<Vm<Bench>>,
}

impl Engine {
    /// Creates an engine for a number of pages, and for a guest with a vCPU for each thread.
    pub(crate) fn new(capacity: u64, threads: u64) -> Self {
        let tier = Arc::new(Tier::new(capacity));
        let hasher = Hasher::new(0x5eed_5eed_5eed_5eed);
        let notices = Mutex::new(Notices::new(vec![Eviction::default(); NOTICES]));
        let bits = shard_bits(threads as u32);
        let mut session = Session::with_shards(bits, tier.clone(), hasher, notices);
        let pool = session.add_pool();
        session.set_pool(pool, WEIGHT, Order::of(Policy::DEFAULT));
        let host = Host::new(tier, 0, Bench);
        let vm = host.add_vm(Vm {
            number: 1,
            share: WEIGHT,
            session,
            standing: Standing::new(),
        });
        Self { host, vm }
    }
}

/// Returns the runs as a guest sends them, each with the place of its first page.
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
        let origin = Origin {
            host: &self.host,
            vm: &*self.vm,
            session,
        };
        assert_eq!(make_room(&origin, pages as u64), pages as u64);
        let stamp = session.stamp(pages as u64);
        let mut handles = [0; 64];
        for (handle, frame) in handles.iter_mut().zip(frame..) {
            *handle = frame;
        }
        let stored = BATCH.with_borrow_mut(|batch| {
            insert(session, batch, placed(runs), (&handles, stamp), |_| {})
        });
        assert_eq!(stored, pages, "there is room");
        let mut queue = session.own.lock().expect("no thread panics");
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
        session.sub_used(&found);
    }

    fn flush(&self, runs: &[Run]) -> usize {
        let mut effort = Effort::bounded();
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
