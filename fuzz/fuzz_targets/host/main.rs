// SPDX-License-Identifier: GPL-2.0-only

//! Executes sequences of requests of several VMs, from the bytes of a guest's page to the index,
//! with the engine that runs in the host module, and compares it with a plain map of the expected
//! pages. Pages of pools in the SSD tier move between memory and a device of segments.
//!
//! - [`call`]: requests and other events; [`operation`] and [`get`]: their execution;
//! - [`memory`], [`session`], [`vm`], [`host`]: the owner of the engine, with its checks.

#![no_main]

mod call;
mod get;
mod host;
mod memory;
mod operation;
mod session;
mod vm;

use call::{Call, Page};
use ddabi::genl::Mode;
use ddcore::host::carried::Carried;
use ddcore::request::{Header, Request};
use host::Host;
use libfuzzer_sys::fuzz_target;
use memory::Frame;
use operation::Caller;

/// Maximum number of calls, because the checks after each step take longer with each step.
const MAX_CALLS: usize = 200;

#[derive(arbitrary::Arbitrary, Debug)]
struct Input {
    capacity: u8,
    calls: Vec<Call>,
}

fuzz_target!(|input: Input| {
    let host = Host::new(u64::from(input.capacity) * 8);
    let mut carried = Box::new(Carried::new());
    for call in input.calls.into_iter().take(MAX_CALLS) {
        match call {
            Call::Capacity(pages) => host.set_capacity(u64::from(pages) * 8),
            Call::Floor(pages) => host.set_floor(u64::from(pages) * 8),
            Call::Mode(true) => host.set_mode(Mode::Weighted),
            Call::Mode(false) => host.set_mode(Mode::GlobalFifo),
            Call::FlushVm(vm) => host.flush_vm(vm),
            Call::Spare(frames) => host.engine.own.memory.spare.set(frames.into()),
            Call::Shrink(frames) => host.shrink(frames.into()),
            Call::IndexMemory(vm, there_is) => {
                if let Some(session) = host.vm(vm).current() {
                    session.own.is_short.set(!there_is);
                }
            }
            Call::Time(milliseconds) => host.pass(milliseconds.into()),
            Call::VmWeight(vm, weight) => host.set_weight(vm, weight.into()),
            Call::VmEnds(vm) => host.end(vm),
            Call::VmSsdWeight(vm, weight) => host.vm(vm).ssd_weight.set(weight.into()),
            Call::Demote(vm, pool, pages) => host.demote(vm, pool, pages.into()),
            Call::Promote(vm, pool, pages) => host.promote(vm, pool, pages.into()),
            Call::EvictSegment => host.evict_segment(),
            Call::Thresholds(keep, promote) => {
                host.engine.tier.set_reserve(keep.into());
                host.engine.tier.set_vacancy(promote.into());
            }
            Call::Damage(one_in) => host.engine.own.memory.damage.set(one_in.into()),
            Call::Guest(vm, sent) => {
                let number = host.vm(vm).next_number(&sent);
                let page = Page::new(&sent, host.vm(vm).id(), number);
                serve(&host, vm, &page, &mut carried);
            }
        }
        host.tidy();
        host.check();
    }
});

/// Executes a hypercall, as the host module does.
fn serve(host: &Host, vm: u8, page: &Page, carried: &mut Carried<Frame>) {
    let Ok(header) = Header::parse(&page.header()) else {
        return;
    };
    let Ok(request) = Request::parse(&header, page.body(header.body_len())) else {
        return;
    };
    if let Request::Hello(_) = request {
        return host.hello(vm);
    }
    let entered = host.vm(vm).enter(header.session, header.sequence);
    // The session ends after a rollback.
    host.settle(vm);
    if let Some(session) = entered {
        let caller = Caller {
            host,
            vm: host.vm(vm),
            session: &session,
        };
        caller.serve(&request, carried);
        // The session ends after a goodbye.
        host.settle(vm);
    }
}
