// SPDX-License-Identifier: GPL-2.0-only

//! Compares the engine with a plain model at both levels and for every order of eviction, with
//! random operations, weights and capacities, and pools and VMs that end. After each step both must
//! have the same pages and counters, the identity of the counters must hold, and no page that the
//! paper's Algorithm 1 would have kept may have been evicted.

mod model;

use ddcore::policy::{Class, Order};
use ddsim::host::{Host, Mode, PoolId};
use ddsim::page::Page;
use model::Model;
use proptest::prelude::*;

const VMS: usize = 3;
const POOLS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    /// Puts a run of pages of a file, in a class.
    Put(PoolId, u32, u32, u8),
    Take(usize, Page),
    Flush(usize, Page),
    Weight(PoolId, u32),
    VmWeight(usize, u32),
    Capacity(u64),
    EndPool(PoolId),
    EndVm(usize),
}

fn pool() -> impl Strategy<Value = PoolId> {
    (0..VMS, 0..POOLS).prop_map(|(vm, pool)| PoolId { vm, pool })
}

fn page() -> impl Strategy<Value = Page> {
    (0u32..6, 0u32..24).prop_map(|(file, index)| Page::new(file, index))
}

fn step() -> impl Strategy<Value = Step> {
    let weight = prop_oneof![4 => 1u32..100, 1 => Just(0)];
    prop_oneof![
        12 => (pool(), 0u32..6, 0u32..24, 0u8..5).prop_map(|(id, file, first, class)| {
            Step::Put(id, file, first, class)
        }),
        6 => (0..VMS, page()).prop_map(|(vm, page)| Step::Take(vm, page)),
        3 => (0..VMS, page()).prop_map(|(vm, page)| Step::Flush(vm, page)),
        2 => (pool(), weight.clone()).prop_map(|(id, weight)| Step::Weight(id, weight)),
        2 => (0..VMS, weight).prop_map(|(vm, weight)| Step::VmWeight(vm, weight)),
        1 => (0u64..120).prop_map(Step::Capacity),
        1 => pool().prop_map(Step::EndPool),
        1 => (0..VMS).prop_map(Step::EndVm),
    ]
}

/// Number of pages of a run that is put.
const RUN: u32 = 8;

fn agree(host: &Host, model: &Model) {
    let mut total = 0;
    for vm in 0..VMS {
        for pool in 0..POOLS {
            let id = PoolId { vm, pool };
            let counts = host.counts(id);
            assert_eq!(counts, model.counts(id), "{id:?}");
            let gone = counts.hits + counts.flushes + counts.evictions;
            assert_eq!(counts.used, counts.puts - gone, "{id:?}");
            total += counts.used;
        }
    }
    assert_eq!(host.used(), total);
}

proptest! {
    #[test]
    fn agrees_with_the_model(
        mode in prop_oneof![3 => Just(Mode::Weighted), 1 => Just(Mode::Global)],
        capacity in 1u64..120,
        batch in 1u64..12,
        orders in prop::collection::vec(0..3usize, VMS * POOLS),
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let mut host = Host::new(capacity, batch, mode);
        let mut model = Model::new(capacity, batch, mode);
        let mut orders = orders.into_iter();
        for vm in 0..VMS {
            let weight = 10 + 20 * vm as u32;
            prop_assert_eq!(host.add_vm(weight), vm);
            model.add_vm(weight);
            for pool in 0..POOLS {
                let order = [Order::Small, Order::Aged, Order::Oldest][orders.next().unwrap_or(0)];
                host.add_pool(vm, 10 + pool as u32, order);
                model.add_pool(vm, 10 + pool as u32, order);
            }
        }
        for step in steps {
            match step {
                Step::Put(id, file, first, class) => {
                    for index in first..first + RUN {
                        let (page, class) = (Page::new(file, index), Class::new(class));
                        prop_assert_eq!(host.put(id, page, class), model.put(id, page, class));
                        agree(&host, &model);
                    }
                }
                Step::Take(vm, page) => {
                    prop_assert_eq!(host.take(vm, page), model.take(vm, page));
                }
                Step::Flush(vm, page) => {
                    host.flush(vm, page);
                    model.flush(vm, page);
                }
                Step::Weight(id, weight) => {
                    host.set_weight(id, weight);
                    model.set_weight(id, weight);
                }
                Step::VmWeight(vm, weight) => {
                    host.set_vm_weight(vm, weight);
                    model.set_vm_weight(vm, weight);
                }
                Step::Capacity(pages) => {
                    host.set_capacity(pages);
                    model.set_capacity(pages);
                }
                Step::EndPool(id) => {
                    host.remove_pool(id);
                    model.remove_pool(id);
                }
                Step::EndVm(vm) => {
                    host.remove_vm(vm);
                    model.remove_vm(vm);
                }
            }
            agree(&host, &model);
        }
        // The model must have the same pages, and not only the same number of pages.
        for vm in 0..VMS {
            for (file, index) in (0..6).flat_map(|file| (0..32).map(move |index| (file, index))) {
                let page = Page::new(file, index);
                prop_assert_eq!(host.take(vm, page), model.take(vm, page));
            }
        }
        prop_assert_eq!(host.used(), 0);
    }
}
