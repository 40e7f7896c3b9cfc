// SPDX-License-Identifier: GPL-2.0-only

//! Entry of a call: checks its registers, session and sequence number.

use crate::call::answer::Answer;
use crate::call::operation::Caller;
use crate::counters::totals;
use crate::ffi::kvm::{CallingVm, Fault, RawCall};
use crate::state::Host;
use crate::vm::scratch::{Scratch, ScratchList};
use crate::vm::session::Session;
use crate::vm::Vm;
use ddabi::answer::{HelloAnswer, DEFER, RETAIN};
use ddabi::hypercall::{Outcome, Status};
use ddabi::pool::MAX_POOLS;
use ddabi::request::{RequestHeader, BODY};
use ddabi::PAGE_SIZE;
use ddcore::current_session::Refused;
use ddcore::request::{Header, Request};
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::{Instant, Monotonic};
use zerocopy::IntoBytes;

/// `-KVM_EPERM`, which KVM itself returns for a call from the guest's user mode.
const KVM_EPERM: i64 = -1;

/// Carries out a call and returns the value for the guest's `rax`.
pub(crate) fn call(host: &Host, guest: &CallingVm<'_>, call: &RawCall) -> u64 {
    totals().calls.add(1);
    if !call.kernel {
        totals().refused_user.add(1);
        return KVM_EPERM as u64;
    }
    match handle(host, guest, call) {
        Ok(outcome) => outcome.into_raw(),
        Err(status) => {
            match status {
                Status::Invalid => totals().refused_invalid.add(1),
                Status::Unsupported => totals().refused_unsupported.add(1),
                Status::NoMemory => totals().refused_memory.add(1),
                Status::Retry => totals().retries.add(1),
                _ => {}
            }
            Outcome::bare(status).into_raw()
        }
    }
}

fn handle(host: &Host, guest: &CallingVm<'_>, call: &RawCall) -> Result<Outcome, Status> {
    let start = Instant::now();
    let [rcx, rdx, rsi] = call.zero;
    if rcx | rdx | rsi != 0 || call.gpa % PAGE_SIZE as u64 != 0 {
        return Err(Status::Invalid);
    }
    let page = guest.page(call.gpa / PAGE_SIZE as u64).map_err(refuse)?;
    let mut header = RequestHeader::default();
    page.read(0, header.as_mut_bytes()).map_err(refuse)?;
    let header = Header::parse(&header)?;
    let vm = host.vms.table().find(guest);
    ScratchList::work(vm.map(Vm::scratch), |scratch| {
        let body = &mut scratch.body.0[..header.body_len()];
        page.read(BODY, body).map_err(refuse)?;
        let may_answer = page.is_next_writable();
        drop(page);
        serve(
            host,
            guest,
            vm,
            (call.gpa, may_answer),
            start,
            &header,
            scratch,
        )
    })
    .unwrap_or(Err(Status::NoMemory))
}

/// Counts a request page that could not be read, and returns the status.
fn refuse(fault: Fault) -> Status {
    match fault {
        Fault::NoMemory => {
            totals().refused_fault.add(1);
            Status::Invalid
        }
        // The guest writes to the page before it sends the call again, which faults it in.
        Fault::Absent => {
            totals().refused_absent.add(1);
            Status::Retry
        }
    }
}

/// Carries out a request. `gpa` is the address of its page, with whether the page that follows is
/// known to be writable.
fn serve(
    host: &Host,
    guest: &CallingVm<'_>,
    vm: Option<&Vm>,
    gpa: (u64, bool),
    start: Instant<Monotonic>,
    header: &Header,
    scratch: &mut Scratch,
) -> Result<Outcome, Status> {
    let request = Request::parse(header, &scratch.body.0[..header.body_len()])?;
    let answer = Answer::new(guest, gpa, header.sequence, &mut scratch.answer);
    if let Request::Hello(features) = request {
        return hello(host, guest, features, answer);
    }
    let (vm, session) = enter(vm, header)?;
    let caller = Caller {
        host,
        guest,
        vm,
        session: &session,
        start,
    };
    caller.serve(&request, answer, &mut scratch.carried, &mut scratch.notices)
}

fn hello(
    host: &Host,
    guest: &CallingVm<'_>,
    features: u64,
    answer: Option<Answer<'_>>,
) -> Result<Outcome, Status> {
    // Without an answer the guest could not know its session.
    let answer = answer.ok_or(Status::NoMemory)?;
    let vm = host.vms.join(guest).map_err(|error| {
        if error != ENOSPC {
            return Status::NoMemory;
        }
        totals().refused_limit.add(1);
        kernel::pr_warn_once!(
            "a VM was refused, because max_vms are registered: load the module with a larger max_vms\n"
        );
        Status::Denied
    })?;
    let session = Session::new(
        (vm.number, guest.vcpus(), vm.spent.clone()),
        features & (DEFER | RETAIN),
        host.tier.clone(),
        host.ssd.clone(),
    )
    .map_err(|_| Status::NoMemory)?;
    let body = HelloAnswer {
        session: session.id,
        features: session.features,
        vm: vm.number,
        max_pools: MAX_POOLS,
    };
    vm.register(session.clone());
    if answer.send_body(guest, &body).is_err() {
        vm.end(&session);
        return Err(Status::Invalid);
    }
    Ok(Outcome {
        answered: true,
        ..Outcome::bare(Status::Ok)
    })
}

/// Returns the VM and the session of a call, or counts the reason for which it is refused.
fn enter<'a>(vm: Option<&'a Vm>, header: &Header) -> Result<(&'a Vm, Arc<Session>), Status> {
    let refused = match vm.map(|vm| (vm, vm.enter(header.session, header.sequence))) {
        Some((vm, Ok(session))) => return Ok((vm, session)),
        Some((_, Err(refused))) => refused,
        None => Refused::Unknown,
    };
    match refused {
        Refused::Retry => return Err(Status::Retry),
        Refused::Unknown => totals().refused_session.add(1),
        Refused::Rollback(_) => totals().refused_rollback.add(1),
    }
    Err(Status::Stale)
}
