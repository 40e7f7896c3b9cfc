// SPDX-License-Identifier: GPL-2.0-only

//! The operations of a call that belongs to the current session of its VM.
//!
//! Each has its own stack frame (`inline(never)`, here and in the functions that they call).
//! Inlined into one function they would take much of the vCPU thread's stack, which KVM uses too.

use crate::call::answer::Answer;
use crate::call::put::Putter;
use crate::counters::{Counter, Latency};
use crate::ffi::kvm::CallingVm;
use crate::ffi::tracepoints::{self, nanoseconds_since};
use crate::state::Host;
use crate::stats::pool_stats;
use crate::tier::page::Page;
use crate::vm::pool::Pool;
use crate::vm::scratch::NoticeRoom;
use crate::vm::session::Session;
use crate::vm::Vm;
use ddabi::answer::{PoolAnswer, PoolPressure, DEFER, RETAIN};
use ddabi::genl::{Attribute, Event};
use ddabi::hypercall::{Outcome, Status};
use ddabi::key::FileKey;
use ddabi::name::Name;
use ddabi::request::Run;
use ddcore::host::carried::Carried;
use ddcore::host::flush::flush;
use ddcore::host::pressure::pressure;
use ddcore::host::promotion::is_promotion_due;
use ddcore::host::put::store;
use ddcore::host::steps::Effort;
use ddcore::host::walk::migrate;
use ddcore::host::{Host as _, Origin, Session as _};
use ddcore::request::{GetOptions, Ranges, Request, Runs, Settings};
use kernel::sync::Arc;
use kernel::time::{Instant, Monotonic};

/// Returns the pool of the first run of a request, and the number of pages of all runs.
pub(super) fn extent(runs: &Runs<'_>) -> (u32, u32) {
    (runs.first().map_or(0, |run| run.pool), runs.pages())
}

/// The source of a call, and the time at which it arrived.
pub(crate) struct Caller<'a> {
    pub(crate) host: &'a Host,
    pub(crate) guest: &'a CallingVm<'a>,
    pub(crate) vm: &'a Vm,
    pub(crate) session: &'a Arc<Session>,
    pub(crate) start: Instant<Monotonic>,
}

impl Caller<'_> {
    /// Carries out a request. `answer` is `None` if the answer page must not be written.
    pub(crate) fn serve(
        &self,
        request: &Request<'_>,
        answer: Option<Answer<'_>>,
        carried: &mut Carried<Page>,
        notices: &mut NoticeRoom,
    ) -> Result<Outcome, Status> {
        match request {
            Request::Hello(_) | Request::Ping => {
                // An idle guest pings, so that the limit rises after a shortage, and pages whose
                // promotion has failed are tried again.
                self.host.recover();
                self.consider_promotion();
                Ok(self.finish(0, answer, notices))
            }
            Request::Goodbye => {
                self.vm.end(self.session);
                Ok(Outcome::bare(Status::Ok))
            }
            Request::Put(runs) => Ok(self.put(runs, answer, carried, notices)),
            Request::Get(_, options) if !self.has_features(options) => Err(Status::Invalid),
            Request::Get(runs, options) => Ok(self.get(runs, *options, answer, carried, notices)),
            Request::Flush(ranges) => Ok(self.flush(ranges, answer, carried, notices)),
            Request::PoolCreate(settings, name) => self.create_pool(*settings, name, answer),
            Request::PoolSet(pool, settings) => {
                self.session.set_pool(*pool, *settings)?;
                Ok(Outcome::bare(Status::Ok))
            }
            Request::PoolDestroy(pool) => self.destroy_pool(*pool),
            Request::Migrate(file, pool) => self.migrate(file, *pool, answer, notices),
            Request::PoolStats(pool) => self.pool_stats(*pool, answer),
        }
    }

    /// Returns whether the session has the features that a get uses.
    fn has_features(&self, options: &GetOptions) -> bool {
        let defers = options.may_defer || options.ticket != 0;
        let used = if defers { DEFER } else { 0 } | if options.may_retain { RETAIN } else { 0 };
        self.session.features & used == used
    }

    /// Wakes the background evictor if it should look for pages to promote.
    pub(super) fn consider_promotion(&self) {
        if is_promotion_due(self.host) {
            self.host.wake_evictor();
        }
    }

    fn origin(&self) -> Origin<'_, Host> {
        Origin {
            host: self.host,
            vm: self.vm,
            session: self.session,
        }
    }

    #[inline(never)]
    fn put(
        &self,
        runs: &Runs<'_>,
        mut answer: Option<Answer<'_>>,
        carried: &mut Carried<Page>,
        notices: &mut NoticeRoom,
    ) -> Outcome {
        let mut putter = Putter {
            guest: self.guest,
            session: self.session,
            answer: &mut answer,
        };
        let pages = store(&self.origin(), runs, carried, &mut putter);
        let latency = self.count_batch(runs, Pool::put_counters, self.start);
        if tracepoints::put_is_on() {
            let (vm, (pool, asked)) = (self.vm.number, extent(runs));
            tracepoints::put(vm, pool, asked, pages as u32, latency);
        }
        self.finish_batch(runs, pages, answer, notices)
    }

    #[inline(never)]
    fn flush(
        &self,
        ranges: &Ranges<'_>,
        mut answer: Option<Answer<'_>>,
        carried: &mut Carried<Page>,
        notices: &mut NoticeRoom,
    ) -> Outcome {
        // Without an answer the guest does not learn which ranges to repeat. Their pages then stay
        // until they are evicted, and are never read, because the guest knows that they are old.
        let mut effort = Effort::bounded();
        let (mut pages, mut finished) = (0, true);
        for range in ranges.iter() {
            let flushed = flush(&**self.session, &range, &mut carried.batch, &mut effort);
            pages += flushed.pages;
            finished &= flushed.done;
            if let Some(answer) = &mut answer {
                answer.add(flushed.done);
                if !flushed.done {
                    answer.set_unfinished();
                }
            }
        }
        if tracepoints::flush_is_on() {
            let (vm, count) = (self.vm.number, ranges.iter().count() as u32);
            tracepoints::flush(vm, count, pages, finished, nanoseconds_since(self.start));
        }
        self.finish(pages, answer, notices)
    }

    #[inline(never)]
    fn create_pool(
        &self,
        settings: Settings,
        name: &Name,
        answer: Option<Answer<'_>>,
    ) -> Result<Outcome, Status> {
        // Without an answer the guest could not know the pool.
        let answer = answer.ok_or(Status::NoMemory)?;
        let pool = self.session.create_pool(settings, *name)?;
        let body = PoolAnswer { pool, reserved: 0 };
        if answer.send_body(self.guest, &body).is_err() {
            self.session.destroy_pool(pool)?;
            return Err(Status::Invalid);
        }
        let pool = (Attribute::PoolId, pool);
        self.vm.send(Event::PoolCame, Some(pool), name.as_bytes());
        Ok(Outcome {
            answered: true,
            ..Outcome::bare(Status::Ok)
        })
    }

    fn destroy_pool(&self, pool: u32) -> Result<Outcome, Status> {
        let name = self.session.pool(pool).ok_or(Status::NoPool)?.name();
        self.session.destroy_pool(pool)?;
        let pool = (Attribute::PoolId, pool);
        self.vm.send(Event::PoolWent, Some(pool), name.as_bytes());
        Ok(Outcome::bare(Status::Ok))
    }

    #[inline(never)]
    fn migrate(
        &self,
        file: &FileKey,
        pool: u32,
        mut answer: Option<Answer<'_>>,
        notices: &mut NoticeRoom,
    ) -> Result<Outcome, Status> {
        self.session.pool(pool).ok_or(Status::NoPool)?;
        // Without an answer the guest does not learn whether to repeat the call. The remaining
        // pages then stay in their pools.
        let moved = migrate(&**self.session, file, pool, &mut Effort::bounded());
        if let Some(answer) = answer.as_mut().filter(|_| !moved.done) {
            answer.set_unfinished();
        }
        Ok(self.finish(moved.pages, answer, notices))
    }

    #[inline(never)]
    fn pool_stats(&self, pool: u32, answer: Option<Answer<'_>>) -> Result<Outcome, Status> {
        let stats = pool_stats(self.vm, self.session, pool).ok_or(Status::NoPool)?;
        let sent = answer.is_some_and(|answer| answer.send_body(self.guest, &stats).is_ok());
        Ok(Outcome {
            answered: sent,
            ..Outcome::bare(Status::Ok)
        })
    }

    /// Counts a put or a get, which began at `start`, for the pool of its first run. `counters`
    /// selects the counters of the pool. Returns the duration in nanoseconds.
    pub(super) fn count_batch(
        &self,
        runs: &Runs<'_>,
        counters: impl FnOnce(&Pool) -> (&Counter, &Latency),
        start: Instant<Monotonic>,
    ) -> u64 {
        let took = nanoseconds_since(start);
        let first = runs.first().and_then(|run| self.session.pool(run.pool));
        if let Some(pool) = first {
            let (batches, latency) = counters(pool);
            batches.add(1);
            latency.record(took);
        }
        took
    }

    /// Ends a put or a get: reports the state of one of its pools to the guest.
    pub(super) fn finish_batch(
        &self,
        runs: &Runs<'_>,
        pages: u64,
        mut answer: Option<Answer<'_>>,
        notices: &mut NoticeRoom,
    ) -> Outcome {
        if let Some(answer) = &mut answer {
            self.report_pressure(runs, answer);
            let can_retain = self.session.features & RETAIN != 0 && self.session.state().ssd() > 0;
            if can_retain && self.host.ssd.retains() {
                answer.set_retains();
            }
        }
        self.finish(pages, answer, notices)
    }

    /// Writes the state of one of the request's pools into the answer.
    fn report_pressure(&self, runs: &Runs<'_>, answer: &mut Answer<'_>) {
        // A request can have runs of many pools, but an answer reports only one. The choice depends
        // on the sequence number, so that each pool is reported sooner or later.
        if let Some(run) = runs.in_turn(answer.sequence()) {
            let pages = runs.pages().into();
            let now = self.session.nanoseconds(self.start);
            let session = self.session;
            let (memory, ssd) = (session.share(run.pool), session.ssd_share(run.pool));
            let mut sum = PoolPressure::default();
            if memory > 0 || ssd == 0 {
                sum = pressure(&self.origin(), &run, pages, now);
            }
            if ssd > 0 {
                self.add_ssd_pressure(&run, &mut sum);
            }
            answer.set_pressure(sum);
        }
    }

    /// Adds the SSD tier to the state of the pool of a run. A pool that uses both tiers is full
    /// only if both are full, because until then pages that leave memory are demoted.
    fn add_ssd_pressure(&self, run: &Run, pressure: &mut PoolPressure) {
        let capacity = self.vm.ssd_entitlement();
        let capacity = self.session.ssd_entitlement(run.pool, capacity);
        let pool = self.session.pool(run.pool);
        let is_full = pool.map_or(0, |pool| pool.log.holding.places()) >= capacity;
        let was_full = pressure.known == 0 || pressure.full != 0;
        *pressure = PoolPressure {
            capacity: pressure.capacity.saturating_add(capacity),
            pool: run.pool,
            known: 1,
            full: u8::from(is_full && was_full),
            floor: pressure.floor,
            reserved: 0,
        };
    }

    /// Sends the answer, if it may be written, and returns the outcome of a call for `pages` pages.
    fn finish(&self, pages: u64, answer: Option<Answer<'_>>, notices: &mut NoticeRoom) -> Outcome {
        let sent =
            answer.is_some_and(|answer| answer.send(self.guest, self.session, notices).is_ok());
        Outcome {
            status: Status::Ok,
            answered: sent,
            pages: pages.min(u64::from(u32::MAX)) as u32,
        }
    }
}
