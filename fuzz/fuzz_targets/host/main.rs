// SPDX-License-Identifier: GPL-2.0

//! Sequences of requests of several VMs, from the bytes of a guest's page to the index: what the
//! host module does with them, beside a plain map that does the same in the simplest way.
//!
//! - [`call`]: what guests send; [`vm`]: what the host keeps for one; [`tier`]: who has to give.

#![no_main]

mod call;
mod tier;
mod vm;

use call::{Call, Page};
use ddcore::request::{Header, Request};
use libfuzzer_sys::fuzz_target;
use tier::Tier;

/// What is looked at one by one grows with each step.
const MOST_CALLS: usize = 200;

#[derive(arbitrary::Arbitrary, Debug)]
struct Input {
    capacity: u8,
    calls: Vec<Call>,
}

fuzz_target!(|input: Input| {
    let mut tier = Tier::new(u64::from(input.capacity) * 8);
    for call in input.calls.into_iter().take(MOST_CALLS) {
        match call {
            Call::Capacity(pages) => tier.set_capacity(u64::from(pages) * 8),
            Call::VmWeight(vm, weight) => tier.set_weight(vm, weight.into()),
            Call::VmEnds(vm) => tier.end(vm),
            Call::Guest(vm, sent) => {
                let page = Page::new(&sent, tier.session(vm), tier.next_number(vm, &sent));
                serve(&mut tier, vm, &page);
            }
        }
        tier.check();
    }
});

/// A hypercall, as the host module serves it.
fn serve(tier: &mut Tier, vm: u8, page: &Page) {
    let Ok(header) = Header::parse(&page.header()) else {
        return;
    };
    let Ok(request) = Request::parse(&header, page.body(header.body_len())) else {
        return;
    };
    if let Request::Hello = request {
        tier.hello(vm);
    } else if tier.enter(vm, header.session, header.sequence) {
        tier.carry_out(vm, &request);
    }
}
