// SPDX-License-Identifier: GPL-2.0-only

//! Executes sequences of operations on index, shares, victims and orders of eviction, and compares
//! the engine with the plain model of the property tests.

#![no_main]

#[path = "../../ddsim/tests/host/model.rs"]
mod model;

use arbitrary::Arbitrary;
use ddcore::policy::{Class, Order};
use ddsim::host::{Host, Mode, PoolId};
use ddsim::page::Page;
use libfuzzer_sys::fuzz_target;
use model::Model;

const VMS: usize = 3;
const POOLS: usize = 3;
/// Maximum number of steps. The model searches its lists linearly, so that long sequences are slow.
const MAX_STEPS: usize = 500;

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Selector {
    vm: u8,
    pool: u8,
}

impl Selector {
    fn id(self) -> PoolId {
        PoolId {
            vm: usize::from(self.vm) % VMS,
            pool: usize::from(self.pool) % POOLS,
        }
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Step {
    Put(Selector, u8, u8),
    Take(Selector, u8),
    Flush(Selector, u8),
    Weight(Selector, u16),
    VmWeight(Selector, u16),
    Capacity(u8),
    EndPool(Selector),
    EndVm(Selector),
}

#[derive(Arbitrary, Debug)]
struct Input {
    global: bool,
    capacity: u8,
    batch: u8,
    small: u16,
    steps: Vec<Step>,
}

/// Returns a page of one of four files of 64 pages.
fn page(number: u8) -> Page {
    Page::new(u32::from(number >> 6), u32::from(number & 63))
}

fuzz_target!(|input: Input| {
    let mode = if input.global {
        Mode::Global
    } else {
        Mode::Weighted
    };
    let (capacity, batch) = (u64::from(input.capacity), u64::from(input.batch % 32) + 1);
    let mut host = Host::new(capacity, batch, mode);
    let mut model = Model::new(capacity, batch, mode);
    for vm in 0..VMS {
        host.add_vm(20);
        model.add_vm(20);
        for pool in 0..POOLS {
            let small = input.small >> (vm * POOLS + pool) & 1 == 1;
            let order = if small { Order::Small } else { Order::Aged };
            host.add_pool(vm, 10, order);
            model.add_pool(vm, 10, order);
        }
    }
    for step in input.steps.into_iter().take(MAX_STEPS) {
        match step {
            Step::Put(which, number, class) => {
                let (id, page, class) = (which.id(), page(number), Class::new(class));
                assert_eq!(host.put(id, page, class), model.put(id, page, class));
            }
            Step::Take(which, number) => {
                let (vm, page) = (which.id().vm, page(number));
                assert_eq!(host.take(vm, page), model.take(vm, page));
            }
            Step::Flush(which, number) => {
                host.flush(which.id().vm, page(number));
                model.flush(which.id().vm, page(number));
            }
            Step::Weight(which, weight) => {
                host.set_weight(which.id(), weight.into());
                model.set_weight(which.id(), weight.into());
            }
            Step::VmWeight(which, weight) => {
                host.set_vm_weight(which.id().vm, weight.into());
                model.set_vm_weight(which.id().vm, weight.into());
            }
            Step::Capacity(pages) => {
                host.set_capacity(pages.into());
                model.set_capacity(pages.into());
            }
            Step::EndPool(which) => {
                host.remove_pool(which.id());
                model.remove_pool(which.id());
            }
            Step::EndVm(which) => {
                host.remove_vm(which.id().vm);
                model.remove_vm(which.id().vm);
            }
        }
        check(&host, &model);
    }
});

fn check(host: &Host, model: &Model) {
    let mut total = 0;
    for (vm, pool) in (0..VMS).flat_map(|vm| (0..POOLS).map(move |pool| (vm, pool))) {
        let id = PoolId { vm, pool };
        let counts = host.counts(id);
        assert_eq!(counts, model.counts(id));
        let gone = counts.hits + counts.flushes + counts.evictions;
        assert_eq!(counts.used, counts.puts - gone);
        total += counts.used;
    }
    assert_eq!(host.used(), total);
}
