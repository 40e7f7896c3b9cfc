// SPDX-License-Identifier: GPL-2.0-only

//! Execution of accepted calls, as in the host module.

use std::collections::BTreeMap;

use ddabi::answer::PoolPressure;
use ddabi::key::PageKey;
use ddabi::request::{CLASSES, MAX_RUNS, Run};
use ddcore::host::Origin;
use ddcore::host::carried::Carried;
use ddcore::host::cause::Cause;
use ddcore::host::evict::evict_pool;
use ddcore::host::flush::flush;
use ddcore::host::get::{Frames, load};
use ddcore::host::heap;
use ddcore::host::pressure::pressure;
use ddcore::host::put::{Refusal, Source, store};
use ddcore::host::steps::Effort;
use ddcore::host::walk::{empty, migrate};
use ddcore::host::{Host as _, Session as _};
use ddcore::request::{GetOptions, Request, Runs};

use crate::call::{frames_of, is_reachable};
use crate::get::Get;
use crate::host::{Host, World};
use crate::memory::Frame;
use crate::session::{POOLS, Registration, Session, set};
use crate::vm::Vm;

/// Maximum number of calls for one flush.
const MAX_CALLS: usize = 10_000;

/// An accepted call.
pub(crate) struct Caller<'a> {
    pub(crate) host: &'a Host,
    pub(crate) vm: &'a Vm,
    pub(crate) session: &'a Registration,
}

/// A put, with the frames of those of its runs that were copied. Runs of one pool are copied in
/// their order, but those of pools in the memory tier before those of pools in the SSD tier.
struct Put<'a> {
    session: &'a Session,
    copied: BTreeMap<Name, Vec<Vec<u64>>>,
    stored: u64,
}

/// What identical runs have in common: the pool, the first frame, the first page, and the number of
/// pages.
type Name = (u32, u64, u64, u16);

impl Put<'_> {
    fn name(run: &Run) -> Name {
        (run.pool, run.gfn, run.index, run.pages)
    }
}

impl Source<Frame> for Put<'_> {
    fn copy(&mut self, run: &Run, pages: &mut [Option<Frame>]) -> Result<(), Refusal> {
        assert_eq!(pages.len(), usize::from(run.pages));
        if !(run.gfn..).take(pages.len()).all(is_reachable) {
            return Err(Refusal::Fault);
        }
        self.session.expect(run, pages);
        let frames = pages.iter().flatten().map(|frame| frame.number).collect();
        self.copied.entry(Self::name(run)).or_default().push(frames);
        Ok(())
    }

    fn settled(&mut self, run: &Run, result: Result<(), Refusal>) {
        let copied = match result {
            Err(Refusal::Off | Refusal::Unproven | Refusal::Fault | Refusal::Absent) => None,
            _ => self.copied.get_mut(&Self::name(run)).and_then(|runs| {
                let is_left = !runs.is_empty();
                is_left.then(|| runs.remove(0))
            }),
        };
        assert!(result.is_err() || copied.is_some());
        self.session.settle(run, copied, result.is_ok());
        self.stored += result.map_or(0, |()| u64::from(run.pages));
    }
}

impl Caller<'_> {
    pub(crate) fn serve(&self, request: &Request<'_>, carried: &mut Carried<Frame>) {
        match request {
            Request::Hello(_) | Request::Ping => {}
            Request::Goodbye => self.vm.end(),
            Request::Put(runs) => self.put(runs, carried),
            Request::Get(runs, options) => self.get(runs, *options, carried),
            Request::Flush(ranges) => {
                for range in ranges.iter() {
                    let mut calls = 0;
                    let mut effort = Effort::bounded();
                    while !flush(self.session, &range, &mut carried.batch, &mut effort).done {
                        effort = Effort::bounded();
                        calls += 1;
                        assert!(calls < MAX_CALLS, "a flush ends");
                    }
                    self.session.own.assert_flushed(&range);
                }
            }
            Request::PoolCreate(settings, _) => {
                let is_free = |pool: &usize| !self.session.is_live(*pool as u32);
                if let Some(pool) = (0..POOLS).find(is_free) {
                    empty(self.session, pool as u32);
                    self.session.reset_counters(pool as u32);
                    set(self.session, pool as u32, *settings);
                }
            }
            Request::PoolSet(pool, settings) => {
                if self.session.is_live(*pool) {
                    set(self.session, *pool, *settings);
                    if !settings.is_on() {
                        evict_pool(self.session, (*pool, Cause::Weight), u64::MAX);
                    }
                }
            }
            Request::PoolDestroy(pool) => {
                if self.session.is_live(*pool) {
                    self.session.end_pool(*pool);
                    self.session.own.set_ssd_share(*pool, 0);
                    empty(self.session, *pool);
                }
            }
            Request::Migrate(file, pool) => {
                if self.session.is_live(*pool) {
                    let mut calls = 0;
                    while !migrate(self.session, file, *pool, &mut Effort::bounded()).done {
                        calls += 1;
                        assert!(calls < MAX_CALLS, "a move ends");
                    }
                    let moves = |key: &PageKey| key.file == *file;
                    self.session.own.migrated(self.session, moves, *pool);
                }
            }
            Request::PoolStats(_) => {}
        }
    }

    fn origin(&self) -> Origin<'_, heap::Host<World>> {
        Origin {
            host: &self.host.engine,
            vm: self.vm,
            session: self.session,
        }
    }

    fn put(&self, runs: &Runs<'_>, carried: &mut Carried<Frame>) {
        let mut put = Put {
            session: &self.session.own,
            copied: BTreeMap::new(),
            stored: 0,
        };
        let stored = store(&self.origin(), runs, carried, &mut put);
        assert_eq!(stored, put.stored);
        self.finish(runs, carried);
    }

    fn get(&self, runs: &Runs<'_>, options: GetOptions, carried: &mut Carried<Frame>) {
        let mut frames = [Frames::Ready; MAX_RUNS];
        for (frames, run) in frames.iter_mut().zip(runs.iter()) {
            *frames = frames_of(&run);
        }
        let mut get = Get::expect(self.session, runs, &frames, options.may_retain);
        let found = load(
            (&self.host.engine, self.session),
            runs.placed(),
            (&mut frames, options.may_retain),
            carried,
            &mut get,
        );
        get.assert_ended(&found);
        self.finish(runs, carried);
    }

    fn finish(&self, runs: &Runs<'_>, carried: &Carried<Frame>) {
        assert!(carried.pages.iter().all(Option::is_none));
        assert!(carried.batch.is_empty());
        for run in runs.iter() {
            let PoolPressure {
                known, floor, full, ..
            } = pressure(
                &self.origin(),
                &run,
                run.pages.into(),
                self.host.engine.milliseconds() * 1_000_000,
            );
            assert_eq!(known == 1, self.session.is_live(run.pool));
            assert!(usize::from(floor) < CLASSES && full <= 1);
        }
    }
}
