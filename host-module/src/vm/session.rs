// SPDX-License-Identifier: GPL-2.0-only

//! The state of one registration of a guest: its pools and its pages.
//!
//! When a guest registers again, its session is replaced as a whole. A call that is in progress in
//! the old session ends there, and the pages that it stores are freed with that session.

mod pools;

use crate::counters::totals;
use crate::ffi::queue::Single;
use crate::ffi::shrinker::like_reclaim;
use crate::ffi::{queue, random, tracepoints};
use crate::number::Number;
use crate::ssd::deferred::Deferrals;
use crate::ssd::fetch::{Patience, ReadBefore};
use crate::ssd::holding::Holding;
use crate::ssd::writer::{PoolWriter, Spent, Writer};
use crate::ssd::Ssd;
use crate::tier::page::Page;
use crate::tier::Tier;
use crate::vm::charge::charged;
use crate::vm::pool::Pool;
use crate::vm::shard::{Memory, Shard};
use ddabi::answer::Eviction;
use ddabi::name::Name;
use ddabi::pool::{SsdAdmit, DEFAULT_POOL, MAX_POOLS};
use ddabi::request::Run;
use ddcore::clock::Clock;
use ddcore::host::cause::Cause;
use ddcore::host::notice::Notices;
use ddcore::host::pressure::Gauge;
use ddcore::host::session::{shard_bits, SessionState, TierKind};
use ddcore::host::steps::Unfinished;
use ddcore::host::walk::drain;
use ddcore::index::{Hasher, Held, Index, Removed};
use ddcore::partition::Entity;
use ddcore::policy::Order;
use ddcore::request::Settings;
use kernel::prelude::*;
use kernel::sync::atomic::{ordering::Relaxed, Atomic};
use kernel::sync::{new_mutex, new_spinlock, Arc, Mutex, SetOnce, SpinLock};
use kernel::time::{Instant, Monotonic};

/// Multiplier that spreads the index of a page over all bits of a seed. It must be odd.
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Maximum number of eviction notices that are kept for a VM.
const NOTICES: usize = 2048;

/// One registration of a guest.
#[pin_data(PinnedDrop)]
pub(crate) struct Session {
    /// Random, never zero.
    pub(crate) id: u64,
    /// Features that both sides support.
    pub(crate) features: u64,
    /// The number of its VM.
    pub(crate) vm: u32,
    pub(crate) tier: Arc<Tier>,
    pub(crate) ssd: Arc<Ssd>,
    /// Its share of what may be written to devices.
    writer: Writer,
    /// The places of its pools in the SSD tier.
    pub(crate) holding: Arc<Holding>,
    hasher: Hasher,
    /// Binary logarithm of the number of shards.
    shard_bits: u32,
    pub(crate) shards: Pin<KBox<[Shard]>>,
    /// Slots of pools. A slot that was populated stays so; its pool may end, and a later pool
    /// reuses the slot.
    pools: KVVec<SetOnce<Pin<KBox<Pool>>>>,
    /// Only slots below this number can have a pool.
    pool_count: Atomic<u32>,
    /// The clock with which pages are stamped.
    pub(crate) clock: Clock<Number>,
    /// Time at which the session began.
    born: Instant<Monotonic>,
    state: SessionState<Number>,
    #[pin]
    pub(crate) notices: SpinLock<Notices<KVVec<Eviction>>>,
    /// Memory for computing entitlements, with at least one entity for each pool. The lock
    /// serializes evictions of the session. Memory reclaim takes it.
    #[pin]
    entities: Mutex<KVVec<Entity>>,
    /// Gets whose pages are read while their readers sleep in the guest.
    #[pin]
    pub(crate) deferrals: Deferrals,
    /// Emptying of pools in the background.
    pub(crate) emptying: Single,
    /// The work that calls have left unfinished.
    #[pin]
    unfinished: SpinLock<Unfinished>,
    /// Serializes creating, changing and destroying pools.
    #[pin]
    control: Mutex<()>,
}

impl Session {
    /// Creates a session with an empty default pool, for a VM with this number, with this number of
    /// vCPUs, and with what it has spent of the write budgets of devices.
    pub(crate) fn new(
        (vm, vcpus, spent): (u32, u32, Arc<Spent>),
        features: u64,
        tier: Arc<Tier>,
        ssd: Arc<Ssd>,
    ) -> Result<Arc<Self>> {
        let writer = Writer::new(spent);
        let hasher = Hasher::new(random::number());
        let shard_bits = shard_bits(vcpus);
        let shards = KBox::pin_slice(|_| Shard::new(hasher), 1 << shard_bits, charged())?;
        let mut pools = KVVec::with_capacity(MAX_POOLS as usize, charged())?;
        for _ in 0..MAX_POOLS {
            pools.push(SetOnce::new(), charged())?;
        }
        let notices = KVVec::from_elem(Eviction::default(), NOTICES, charged())?;
        let notices = Notices::new(notices);
        let session = Arc::pin_init(
            try_pin_init!(Self {
                id: random::number(),
                vm,
                features,
                tier,
                ssd,
                writer,
                holding: Holding::new(None)?,
                hasher,
                shard_bits,
                shards,
                pools,
                pool_count: Atomic::new(0),
                clock: Clock::new(),
                born: Instant::now(),
                state: SessionState::new(),
                notices <- new_spinlock!(notices, "Session::notices"),
                entities <- new_mutex!(KVVec::new(), "Session::entities"),
                deferrals <- Deferrals::new(),
                emptying: Single::new(),
                unfinished <- new_spinlock!(Unfinished::new(), "Session::unfinished"),
                control <- new_mutex!((), "Session::control"),
            }),
            charged(),
        )?;
        like_reclaim(|| drop(session.entities.lock()));
        session.begin_pool(DEFAULT_POOL, Settings::DEFAULT, Name::DEFAULT)?;
        Ok(session)
    }

    /// Records whether the VM has weight in the SSD tier.
    pub(crate) fn set_vm_ssd_weight(&self, weight: u32) {
        self.writer.set_weight(weight);
    }

    /// Returns the seed for the checksum of a page on a device, from the hash of its file. Another
    /// page, or the same page of another session, has another seed, so that its checksum does not
    /// match.
    pub(crate) fn seed(&self, file: u64, index: u64) -> u64 {
        self.id ^ file ^ index.wrapping_mul(SEED_STEP)
    }

    /// Returns the hash of a run's file.
    pub(crate) fn file_hash(&self, run: &Run) -> u64 {
        self.hasher.file(&run.file)
    }

    /// Returns the nanoseconds from the beginning of the session to a time.
    pub(crate) fn nanoseconds(&self, to: Instant<Monotonic>) -> u64 {
        (to - self.born).as_nanos().max(0) as u64
    }
}

impl ddcore::host::Session for Session {
    type Storage = Memory;
    type Number = Number;
    type Page = Page;

    fn shard_bits(&self) -> u32 {
        self.shard_bits
    }

    fn with<R>(&self, shard: usize, work: impl FnOnce(&mut Index<Memory>) -> R) -> R {
        self.shards[shard].with(work)
    }

    fn with_room<R>(
        &self,
        shard: usize,
        parts: usize,
        work: impl FnOnce(&mut Index<Memory>) -> R,
    ) -> Option<R> {
        self.shards[shard].with_room(parts, work).ok()
    }

    fn page(&self, removed: Removed) -> Option<Page> {
        Page::from_removed(removed)
    }

    fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    fn state(&self) -> &SessionState<Number> {
        &self.state
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
        self.pool_count.load(Relaxed)
    }

    fn is_live(&self, pool: u32) -> bool {
        self.pool(pool).is_some()
    }

    fn share(&self, pool: u32) -> u32 {
        self.pool(pool).map_or(0, Pool::share)
    }

    fn ssd_share(&self, pool: u32) -> u32 {
        match self.writer.weight() {
            0 => 0,
            _ => self.pool(pool).map_or(0, Pool::ssd_share),
        }
    }

    fn ssd_admit(&self, pool: u32) -> SsdAdmit {
        self.pool_slot(pool).map_or(SsdAdmit::All, Pool::ssd_admit)
    }

    fn put_on_ssd(
        &self,
        run: &Run,
        pages: &mut [Option<Page>],
        counted: usize,
    ) -> Option<(usize, u64)> {
        let pool = self.pool(run.pool)?;
        let log = &pool.log;
        let writer = PoolWriter {
            session: &self.writer,
            weight: pool.ssd_share(),
            spent: &pool.spent,
        };
        let file = self.hasher.file(&run.file);
        let seed = |index| self.seed(file, index);
        let placed = self.ssd.place((writer, counted), log, run, pages, seed);
        if self.ssd_share(run.pool) == 0 {
            // The pool was destroyed, or set to use another tier, after the call began.
            log.close(None);
        }
        placed
    }

    fn share_page(&self, held: Held<'_>) -> Option<Page> {
        Page::of_index(held)
    }

    fn read_from_ssd(&self, run: &Run, pages: &mut [Option<Page>]) -> bool {
        let file = self.hasher.file(&run.file);
        let seed = |_: &Run, index| self.seed(file, index);
        let runs = core::iter::once((*run, 0));
        let (nothing, patience) = (&mut ReadBefore::nothing(), Patience::Deadline);
        if !self.ssd.fetch(runs, pages, seed, nothing, patience) {
            return false;
        }
        for page in pages {
            // A page that is still a place could not be read.
            let _ = page.take_if(|page| page.place().is_some());
        }
        true
    }

    fn close_segment(&self, pool: u32, stamp: Option<u64>) {
        if let Some(pool) = self.pool_slot(pool) {
            pool.log.close(stamp);
        }
    }

    fn places(&self, pool: u32) -> u64 {
        self.pool_slot(pool)
            .map_or(0, |pool| pool.log.holding.places())
    }

    fn all_places(&self) -> u64 {
        self.holding.places()
    }

    fn order(&self, pool: u32) -> Option<Order> {
        Some(Order::of(self.pool_slot(pool)?.policy()))
    }

    fn gauge(&self, pool: u32) -> Option<&Gauge<Number>> {
        Some(&self.pool_slot(pool)?.gauge)
    }

    fn with_entities<R>(&self, work: impl FnOnce(&mut [Entity]) -> R) -> R {
        work(&mut self.entities.lock())
    }

    fn try_with_entities<R>(&self, work: impl FnOnce(&mut [Entity]) -> R) -> Option<R> {
        Some(work(&mut self.entities.try_lock()?))
    }

    fn announce(&self, notices: &[Eviction]) {
        let lost = self.notices.lock().add_all(notices);
        if lost > 0 {
            totals().notices_lost.add(lost);
        }
    }

    fn tell_evicted(&self, pool: u32, tier: TierKind, pages: u64, cause: Cause) {
        if tracepoints::evict_is_on() {
            let tier = match tier {
                TierKind::Memory => c"memory",
                TierKind::Ssd => c"ssd",
            };
            tracepoints::evict(self.vm, pool, pages, tier, reason(cause));
        }
    }

    fn tell_unproven(&self, pool: u32, pages: u64) {
        if let Some(pool) = self.pool_slot(pool) {
            pool.evicted_unproven.add(pages);
        }
    }

    fn tell_relocated(&self, pool: u32, to: TierKind, pages: u64) {
        match to {
            TierKind::Memory if tracepoints::promote_is_on() => {
                tracepoints::promote(self.vm, pool, pages);
            }
            TierKind::Ssd if tracepoints::demote_is_on() => {
                tracepoints::demote(self.vm, pool, pages);
            }
            _ => {}
        }
    }

    fn with_unfinished<R>(&self, work: impl FnOnce(&mut Unfinished) -> R) -> R {
        work(&mut self.unfinished.lock())
    }

    fn cond_resched(&self) {
        queue::cond_resched();
    }

    fn is_dying(&self) -> bool {
        queue::is_dying()
    }

    fn is_leaving(&self) -> bool {
        queue::is_leaving()
    }
}

#[pinned_drop]
impl PinnedDrop for Session {
    fn drop(self: Pin<&mut Self>) {
        drain(&*self, 0..self.shards.len());
        for shard in self.shards.iter() {
            shard.dismantle();
        }
    }
}

/// Returns the name of the reason of an eviction in tracepoints.
fn reason(cause: Cause) -> &'static CStr {
    match cause {
        Cause::Put => c"put",
        Cause::Reserve => c"reserve",
        Cause::Shortage => c"shortage",
        Cause::Weight => c"weight",
        Cause::Command => c"command",
        Cause::Segment => c"segment",
        Cause::Device => c"device",
        Cause::Damage => c"damage",
    }
}
