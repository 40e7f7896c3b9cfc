// SPDX-License-Identifier: GPL-2.0

//! What the host keeps for one registration of a guest: its pools and its pages.
//!
//! When a guest registers again, its session is replaced as a whole. A call that was under way in
//! the old one ends there: what it stores goes with the session.

use crate::lists;
mod pools;

use crate::charge::charged;
use crate::flush::Rest;
use crate::notice::Notices;
use crate::number::Number;
use crate::page::Bin;
use crate::pool::Pool;
use crate::pressure::Reading;
use crate::shard::{Memory, Shard, SHARDS, SHARD_BITS};
use crate::tier::Tier;
use ddabi::genl::Mode;
use ddabi::key::PageKey;
use ddabi::pool::{DEFAULT_POOL, MAX_POOLS};
use ddabi::request::{Run, CLASSES};
use ddcore::account::Account;
use ddcore::clock::Clock;
use ddcore::partition::Entity;
use ddcore::request::{Name, Settings};
use ddcore::store::{Batch, Cursor, Group, Hasher, List, Reason, Store, Walk};
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::{new_mutex, new_spinlock, Arc, Mutex, SetOnce, SpinLock};

/// One registration of a guest.
#[pin_data(PinnedDrop)]
pub(crate) struct Session {
    /// Random, never zero.
    pub(crate) id: u64,
    pub(crate) tier: Arc<Tier>,
    hasher: Hasher,
    pub(crate) shards: Pin<KBox<[Shard]>>,
    /// Places of pools; a place once taken stays, its pool may end and begin again.
    pools: KVVec<SetOnce<Pin<KBox<Pool>>>>,
    /// Places below this number may be taken.
    pool_count: Atomic<u32>,
    /// Pages in all shards.
    used: Account<Number>,
    /// What its pages are stamped by.
    pub(crate) clock: Clock<Number>,
    /// The shard the next eviction begins with.
    pub(crate) rotor: Atomic<u32>,
    /// When pools were last looked at for their guest.
    pub(crate) reading: Reading,
    #[pin]
    pub(crate) notices: SpinLock<Notices>,
    /// What the last flush left to the next one.
    #[pin]
    pub(crate) unflushed: SpinLock<Option<Rest>>,
    /// Pools come and go one at a time.
    #[pin]
    control: Mutex<()>,
}

impl Session {
    /// A session with an empty default pool.
    pub(crate) fn new(tier: Arc<Tier>) -> Result<Arc<Self>> {
        let hasher = Hasher::new(crate::ffi::random());
        let shards = KBox::pin_slice(|_| Shard::new(hasher), SHARDS, charged())?;
        let mut pools = KVVec::with_capacity(MAX_POOLS as usize, charged())?;
        for _ in 0..MAX_POOLS {
            pools.push(SetOnce::new(), charged())?;
        }
        let notices = Notices::new()?;
        let session = Arc::pin_init(
            pin_init!(Self {
                id: crate::ffi::random(),
                tier,
                hasher,
                shards,
                pools,
                pool_count: Atomic::new(0),
                used: Account::new(),
                clock: Clock::new(),
                rotor: Atomic::new(0),
                reading: Reading::new(),
                notices <- new_spinlock!(notices, "Session::notices"),
                unflushed <- new_spinlock!(None, "Session::unflushed"),
                control <- new_mutex!((), "Session::control"),
            }),
            charged(),
        )?;
        session.begin_pool(DEFAULT_POOL, Settings::DEFAULT, Name::DEFAULT)?;
        Ok(session)
    }

    /// Pages held.
    pub(crate) fn used(&self) -> u64 {
        self.used.pages()
    }

    /// Returns the stamp of pages that come now.
    pub(crate) fn stamp(&self, pages: u64) -> u64 {
        match self.tier.mode() {
            Mode::Weighted => self.clock.advance(pages),
            Mode::GlobalFifo => self.clock.advance_with(&self.tier.clock, pages),
        }
    }

    /// Books pages that were stored; their room was reserved before.
    pub(crate) fn came(&self, pages: usize, locked: &mut Store<Memory>) {
        self.used.came(pages as u64, locked);
    }

    /// Books pages that were removed.
    pub(crate) fn went(&self, pages: usize) {
        if pages > 0 {
            self.used.went(pages as u64);
            self.tier.release(pages as u64);
        }
    }

    /// Sorts the pages of runs by shard, a batch at a time, and works on the parts of each shard.
    /// With each run comes the place of its first page. The batch is empty, before and after; it is
    /// too large for the stack.
    pub(crate) fn by_shard(
        &self,
        batch: &mut Batch,
        runs: impl Iterator<Item = (Run, usize)>,
        mut work: impl FnMut(&Shard, &Group<'_>),
    ) {
        let mut work = |batch: &mut Batch| {
            batch.by_shard(SHARD_BITS, |shard, group| work(&self.shards[shard], &group));
        };
        for (run, place) in runs {
            let pages = run.pages as usize;
            let mut done = 0;
            loop {
                let first = PageKey {
                    file: run.file,
                    index: run.index + done as u64,
                };
                let at = (place + done, lists::list(run.pool, run.class));
                done += batch.add(&self.hasher, &first, pages - done, at);
                if done == pages {
                    break;
                }
                work(batch);
            }
        }
        work(batch);
    }

    /// Weight and use of each place, for those who divide. An ended pool has no weight, but may
    /// have pages of calls that were under way.
    pub(crate) fn entities(&self, entities: &mut KVec<Entity>) {
        entities.clear();
        for number in 0..self.pool_count() {
            let weight = self.pool(number).map_or(0, Pool::share);
            // The owner of `entities` reserved memory for all pools.
            let _ = entities.push_within_capacity(Entity {
                weight,
                ..Entity::default()
            });
        }
        for shard in self.shards.iter() {
            shard.with(&self.tier, |store| {
                use ddcore::store::Storage;
                let lists = store.storage().lists();
                for (entity, classes) in entities.iter_mut().zip(lists.chunks(CLASSES)) {
                    entity.used += classes.iter().map(|list| list.used).sum::<u64>();
                }
            });
        }
    }

    /// What the shards counted for a pool, all classes together.
    pub(crate) fn list(&self, pool: u32) -> List {
        let mut sum = List::default();
        for shard in self.shards.iter() {
            shard.with(&self.tier, |store| {
                use ddcore::store::Storage;
                for list in lists::lists(pool) {
                    if let Some(list) = store.storage().lists().get(usize::from(list)) {
                        sum.merge(list);
                    }
                }
            });
        }
        sum
    }

    /// Frees all pages.
    pub(crate) fn drain(&self) {
        for shard in self.shards.iter() {
            let mut cursor = Cursor::default();
            self.walk(shard, |store, bin| {
                store.sweep(
                    &mut cursor,
                    Bin::SIZE as u32,
                    Reason::Flush,
                    |_| true,
                    |page| {
                        bin.add(page);
                    },
                )
            });
        }
    }

    /// Like [`Self::walk`], but given up when the caller is killed: for what goes with the VM anyway.
    pub(crate) fn walk_unless_dying(
        &self,
        shard: &Shard,
        mut step: impl FnMut(&mut Store<Memory>, &mut Bin) -> Walk,
    ) -> u64 {
        self.walk(shard, |store, bin| {
            if crate::ffi::is_dying() {
                Walk::Done
            } else {
                step(store, bin)
            }
        })
    }

    /// Repeats a step on a shard's index until it is done. Each step takes the lock and gets a bin.
    pub(crate) fn walk(
        &self,
        shard: &Shard,
        mut step: impl FnMut(&mut Store<Memory>, &mut Bin) -> Walk,
    ) -> u64 {
        let mut freed = 0;
        // A walk restarts if the entry at its cursor is removed, which a guest could provoke for
        // ever. Bound the steps; what remains is evicted later.
        let limit = 64 + self.used() / 8;
        for _ in 0..limit {
            let mut bin = Bin::new();
            let walk = shard.with(&self.tier, |store| step(store, &mut bin));
            self.went(bin.count());
            freed += bin.count() as u64;
            drop(bin);
            if walk == Walk::Done {
                break;
            }
            crate::ffi::breathe();
        }
        freed
    }
}

#[pinned_drop]
impl PinnedDrop for Session {
    fn drop(self: Pin<&mut Self>) {
        self.drain();
        for shard in self.shards.iter() {
            shard.dismantle(&self.tier);
        }
    }
}
