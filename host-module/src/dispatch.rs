// SPDX-License-Identifier: GPL-2.0

//! A call, from its registers to its outcome.

use crate::answer::{Answer, NoticeRoom};
use crate::ffi::{Guest, RawCall};
use crate::host::Host;
use crate::request::{Header, Ranges, Request, Runs, MAX_BODY};
use crate::session::Session;
use crate::transfer::Hands;
use crate::vm::{Refused, Vm};
use ddabi::answer::{HelloAnswer, PoolAnswer};
use ddabi::genl::{Attribute, Event};
use ddabi::hypercall::{Outcome, Status};
use ddabi::pool::MAX_POOLS;
use ddabi::request::{RequestHeader, BODY};
use ddabi::PAGE_SIZE;
use kernel::alloc::flags::__GFP_NOWARN;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::{Instant, Monotonic};
use zerocopy::IntoBytes;

/// `-KVM_EPERM`: what KVM itself answers to a call from the guest's user mode.
const KVM_EPERM: i64 = -1;

/// Memory of one call.
struct Desk {
    body: Body,
    hands: Hands,
    notices: NoticeRoom,
}

#[repr(align(8))]
struct Body([u8; MAX_BODY]);

// SAFETY: Bytes, integers, and hands that may be zero.
unsafe impl Zeroable for Desk {}

/// Takes a call and returns what the guest finds in `rax`.
pub(crate) fn call(host: &Host, guest: &Guest<'_>, call: &RawCall) -> u64 {
    let totals = &host.tier.totals;
    totals.calls.add(1);
    if !call.kernel {
        totals.refused_user.add(1);
        return KVM_EPERM as u64;
    }
    match handle(host, guest, call) {
        Ok(outcome) => outcome.into_raw(),
        Err(status) => {
            match status {
                Status::Invalid => totals.refused_invalid.add(1),
                Status::Unsupported => totals.refused_unsupported.add(1),
                Status::NoMemory => totals.refused_memory.add(1),
                Status::Retry => totals.retries.add(1),
                _ => {}
            }
            Outcome::bare(status).into_raw()
        }
    }
}

fn handle(host: &Host, guest: &Guest<'_>, call: &RawCall) -> Result<Outcome, Status> {
    let start = Instant::now();
    if call.zero != [0; 3] || call.gpa % PAGE_SIZE as u64 != 0 {
        return Err(Status::Invalid);
    }
    let fault = |_| {
        host.tier.totals.refused_fault.add(1);
        Status::Invalid
    };
    let mut header = RequestHeader::default();
    guest.read(call.gpa, header.as_mut_bytes()).map_err(fault)?;
    let header = Header::parse(&header)?;
    let mut desk =
        KVBox::<Desk>::zeroed(GFP_KERNEL | __GFP_NOWARN).map_err(|_| Status::NoMemory)?;
    let desk = &mut *desk;
    let body = &mut desk.body.0[..header.body_len()];
    guest.read(call.gpa + BODY as u64, body).map_err(fault)?;
    let request = Request::parse(&header, body)?;
    let answer = Answer::new(guest, call.gpa, header.sequence);

    if let Request::Hello = request {
        return hello(host, guest, answer);
    }
    let (vm, session) = enter(host, guest, &header)?;
    let work = Work {
        host,
        guest,
        vm,
        session: &session,
        start,
    };
    match request {
        Request::Hello | Request::Ping => work.finish(0, answer, &mut desk.notices),
        Request::Goodbye => {
            vm.leave();
            Ok(Outcome::bare(Status::Ok))
        }
        Request::Put(runs) => work.put(&runs, answer, &mut desk.hands, &mut desk.notices),
        Request::Get(runs) => work.get(&runs, answer, &mut desk.hands, &mut desk.notices),
        Request::Flush(ranges) => work.flush(&ranges, answer, &mut desk.notices),
        Request::PoolCreate(settings, name) => {
            // Without an answer the guest could not know the pool.
            let answer = answer.ok_or(Status::NoMemory)?;
            let pool = session.create_pool(settings, name)?;
            let body = PoolAnswer { pool, reserved: 0 };
            if answer.send_body(guest, &body).is_err() {
                let _ = session.destroy_pool(pool);
                return Err(Status::Invalid);
            }
            let pool = (Attribute::PoolId, pool);
            vm.send(Event::PoolCame, &[pool], name.as_bytes());
            Ok(answered(0))
        }
        Request::PoolSet(pool, settings) => {
            session.set_pool(pool, settings)?;
            work.finish(0, answer, &mut desk.notices)
        }
        Request::PoolDestroy(pool) => {
            let name = session.pool(pool).ok_or(Status::NoPool)?.name();
            session.destroy_pool(pool)?;
            let pool = (Attribute::PoolId, pool);
            vm.send(Event::PoolWent, &[pool], name.as_bytes());
            Ok(Outcome::bare(Status::Ok))
        }
        Request::Migrate(file, pool) => {
            session.pool(pool).ok_or(Status::NoPool)?;
            let moved = session.migrate(&file, pool);
            Ok(Outcome {
                pages: moved as u32,
                ..Outcome::bare(Status::Ok)
            })
        }
        Request::PoolStats(pool) => {
            let stats = host.pool_stats(vm, &session, pool).ok_or(Status::NoPool)?;
            match answer.map(|answer| answer.send_body(guest, &stats)) {
                Some(Ok(())) => Ok(answered(0)),
                _ => Ok(Outcome::bare(Status::Ok)),
            }
        }
    }
}

fn hello(host: &Host, guest: &Guest<'_>, answer: Option<Answer>) -> Result<Outcome, Status> {
    // Without an answer the guest could not know its session.
    let answer = answer.ok_or(Status::NoMemory)?;
    let vm = host.vms.join(guest).map_err(|_| Status::NoMemory)?;
    let session = Session::new(host.tier.clone()).map_err(|_| Status::NoMemory)?;
    let body = HelloAnswer {
        session: session.id,
        features: 0,
        vm: vm.number,
        max_pools: MAX_POOLS,
    };
    vm.register(session);
    if answer.send_body(guest, &body).is_err() {
        vm.leave();
        return Err(Status::Invalid);
    }
    Ok(answered(0))
}

fn enter<'a>(
    host: &Host,
    guest: &'a Guest<'_>,
    header: &Header,
) -> Result<(&'a Vm, Arc<Session>), Status> {
    let totals = &host.tier.totals;
    let Some(vm) = host.vms.table().find(guest) else {
        totals.refused_session.add(1);
        return Err(Status::Stale);
    };
    match vm.enter(header.session, header.sequence) {
        Ok(session) => Ok((vm, session)),
        Err(Refused::Retry) => Err(Status::Retry),
        Err(Refused::Unknown) => {
            totals.refused_session.add(1);
            Err(Status::Stale)
        }
        Err(Refused::Rollback) => {
            totals.refused_rollback.add(1);
            Err(Status::Stale)
        }
    }
}

/// A call that was let in.
struct Work<'a> {
    host: &'a Host,
    guest: &'a Guest<'a>,
    vm: &'a Vm,
    session: &'a Session,
    start: Instant<Monotonic>,
}

impl Work<'_> {
    fn put(
        &self,
        runs: &Runs<'_>,
        mut answer: Option<Answer>,
        hands: &mut Hands,
        notices: &mut NoticeRoom,
    ) -> Result<Outcome, Status> {
        let welcome = self.vm.weight() > 0;
        let mut pages = 0;
        for run in runs.iter() {
            let stored = self.session.put(self.host, self.guest, run, welcome, hands);
            if stored {
                pages += u64::from(run.pages);
            }
            if let Some(answer) = &mut answer {
                answer.add(stored);
            }
        }
        if let Some(pool) = runs.first_pool().and_then(|pool| self.session.pool(pool)) {
            pool.put_batches.add(1);
            pool.put_latency.record(self.start);
        }
        self.finish(pages, answer, notices)
    }

    fn get(
        &self,
        runs: &Runs<'_>,
        mut answer: Option<Answer>,
        hands: &mut Hands,
        notices: &mut NoticeRoom,
    ) -> Result<Outcome, Status> {
        let mut pages = 0;
        let mut tracked = answer.is_none();
        for run in runs.iter() {
            // Without the answer page the guest could not know which runs were given.
            let writable =
                answer.is_some() && self.guest.is_writable(run.gfn, u64::from(run.pages));
            let given = writable && self.session.get(self.guest, run, hands);
            if given {
                pages += u64::from(run.pages);
            } else if !writable {
                tracked = true;
                self.session.miss(run);
            }
            if let Some(answer) = &mut answer {
                answer.add(given);
            }
        }
        if tracked {
            self.host.tier.totals.dirty_tracked.add(1);
        }
        if let Some(pool) = runs.first_pool().and_then(|pool| self.session.pool(pool)) {
            pool.get_batches.add(1);
            pool.get_latency.record(self.start);
        }
        self.finish(pages, answer, notices)
    }

    fn flush(
        &self,
        ranges: &Ranges<'_>,
        answer: Option<Answer>,
        notices: &mut NoticeRoom,
    ) -> Result<Outcome, Status> {
        let pages = ranges.iter().map(|range| self.session.flush(&range)).sum();
        self.finish(pages, answer, notices)
    }

    /// Ends a call that has results, or only pages. An answer that cannot be written leaves the
    /// count of pages in the register.
    fn finish(
        &self,
        pages: u64,
        answer: Option<Answer>,
        notices: &mut NoticeRoom,
    ) -> Result<Outcome, Status> {
        let sent =
            answer.is_some_and(|answer| answer.send(self.guest, self.session, notices).is_ok());
        Ok(Outcome {
            status: Status::Ok,
            answered: sent,
            pages: pages.min(u64::from(u32::MAX)) as u32,
        })
    }
}

fn answered(pages: u32) -> Outcome {
    Outcome {
        status: Status::Ok,
        answered: true,
        pages,
    }
}
