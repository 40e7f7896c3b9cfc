// SPDX-License-Identifier: GPL-2.0-only

//! Tests of both tiers: compares the engine on a device of segments with a plain model and with the
//! accounting of each tier, and replays a workload with several ratios of memory to SSD.

mod model;
mod sweep;

use ddcore::policy::{Class, Order};
use ddsim::host::{Host, Mode, PoolId, TierKind};
use ddsim::page::Page;
use model::Model;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A number of free pages that is never reached, so that no page is promoted.
const NONE: u64 = u64::MAX / 2;

#[derive(Clone, Debug)]
enum Step {
    Put(u32),
    Get(u32),
    Flush(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0u32..60).prop_map(Step::Put),
        3 => (0u32..60).prop_map(Step::Get),
        1 => (0u32..60).prop_map(Step::Flush),
    ];
    prop::collection::vec(step, 1..300)
}

/// Returns a page in a block of its own, so that pages are evicted one by one in the order in which
/// they were put.
fn page(number: u32) -> Page {
    Page::new(1, number * 16)
}

proptest! {
    /// With a single container, the model gives the tier of each page.
    #[test]
    fn each_page_is_where_the_model_has_it(
        capacity in 1u64..30,
        batch in 1u64..8,
        (segments, size) in (0u32..9, 1u32..7),
        memory in prop::bool::weighted(0.8),
        steps in steps(),
    ) {
        let mut host = Host::new(capacity, batch, Mode::Weighted);
        host.set_ssd(segments, size);
        host.set_thresholds(0, NONE);
        let vm = host.add_vm(100);
        let id = host.add_pool(vm, if memory { 10 } else { 0 }, Order::Aged);
        host.set_ssd_weight(id, 10);
        let mut model = Model::new(if memory { capacity } else { 0 }, batch, segments, size);
        for step in steps {
            match step {
                Step::Put(number) => {
                    let stored = host.put(id, page(number), Class::LOWEST);
                    prop_assert_eq!(stored, model.put(number));
                }
                Step::Get(number) => {
                    prop_assert_eq!(host.get(vm, page(number)), model.get(number));
                }
                Step::Flush(number) => {
                    host.flush(vm, page(number));
                    model.get(number);
                }
            }
            host.check_books();
            prop_assert_eq!((host.used(), host.ssd_used()), model.used());
        }
        let [up, down] = [TierKind::Memory, TierKind::Ssd].map(|tier| host.counts_in(id, tier));
        prop_assert_eq!(up.relocated_out, model.demoted);
        prop_assert_eq!((up.evictions, down.evictions), model.evicted);
        for number in 0..60 {
            prop_assert_eq!(host.get(vm, page(number)), model.get(number));
        }
    }
}

#[derive(Clone, Debug)]
enum Event {
    Put(PoolId, u32, u32, u8),
    Get(usize, u32, u32),
    Flush(usize, u32, u32),
    Weights(PoolId, u32, u32),
    VmWeights(usize, u32, u32),
    Capacity(u64),
    Thresholds(u64, u64),
    Time(u64),
    EndPool(PoolId),
}

const VMS: usize = 2;
const POOLS: usize = 3;

fn event() -> impl Strategy<Value = Event> {
    let pool = || (0..VMS, 0..POOLS).prop_map(|(vm, pool)| PoolId { vm, pool });
    let weight = || prop_oneof![4 => 1u32..100, 1 => Just(0)];
    let file = || (0u32..4, 0u32..48);
    prop_oneof![
        14 => (pool(), file(), 0u8..4).prop_map(|(id, (file, first), class)| {
            Event::Put(id, file, first, class)
        }),
        8 => (0..VMS, file()).prop_map(|(vm, (file, index))| Event::Get(vm, file, index)),
        2 => (0..VMS, file()).prop_map(|(vm, (file, index))| Event::Flush(vm, file, index)),
        2 => (pool(), weight(), weight()).prop_map(|(id, one, two)| Event::Weights(id, one, two)),
        1 => (0..VMS, weight(), weight()).prop_map(|(vm, one, two)| Event::VmWeights(vm, one, two)),
        1 => (0u64..100).prop_map(Event::Capacity),
        1 => (0u64..20, 0u64..60).prop_map(|(low, high)| Event::Thresholds(low, high)),
        2 => (0u64..300).prop_map(Event::Time),
        1 => pool().prop_map(Event::EndPool),
    ]
}

proptest! {
    /// Pages of several VMs and pools move between the tiers. A page is found at most once and only
    /// after it was put, the pages found agree with the counters, and no tier exceeds its size.
    #[test]
    fn pages_move_and_none_is_lost_or_found_twice(
        capacity in 1u64..100,
        batch in 1u64..12,
        (segments, size) in (1u32..12, 1u32..12),
        events in prop::collection::vec(event(), 1..200),
    ) {
        let mut host = Host::new(capacity, batch, Mode::Weighted);
        host.set_ssd(segments, size);
        let mut held: Vec<BTreeMap<Page, ()>> = vec![BTreeMap::new(); VMS];
        let mut time = 0;
        let mut limit = capacity;
        for vm in 0..VMS {
            host.add_vm(10);
            for pool in 0..POOLS {
                let id = host.add_pool(vm, 10, Order::Aged);
                host.set_ssd_weight(id, pool as u32 * 10);
            }
        }
        for event in events {
            match event {
                Event::Put(id, file, first, class) => {
                    for index in first..first + 8 {
                        let page = Page::new(file, index);
                        // An older copy is kept if there is no room.
                        if host.put(id, page, Class::new(class)) {
                            held[id.vm].insert(page, ());
                        }
                    }
                }
                Event::Get(vm, file, index) => {
                    let page = Page::new(file, index);
                    let found = host.take(vm, page);
                    prop_assert!(!found || held[vm].contains_key(&page));
                    held[vm].remove(&page);
                    prop_assert!(!host.take(vm, page));
                }
                Event::Flush(vm, file, index) => {
                    let page = Page::new(file, index);
                    host.flush(vm, page);
                    held[vm].remove(&page);
                    prop_assert!(!host.take(vm, page));
                }
                Event::Weights(id, memory, ssd) => {
                    host.set_weight(id, memory);
                    host.set_ssd_weight(id, ssd);
                }
                Event::VmWeights(vm, memory, ssd) => {
                    host.set_vm_weight(vm, memory);
                    host.set_vm_ssd_weight(vm, ssd);
                }
                Event::Capacity(pages) => {
                    host.set_capacity(pages);
                    limit = pages;
                }
                Event::Thresholds(low, high) => host.set_thresholds(low, high),
                Event::Time(milliseconds) => {
                    time += milliseconds * 1_000_000;
                    host.set_time(time);
                }
                Event::EndPool(id) => host.remove_pool(id),
            }
            host.check_books();
            prop_assert!(host.used() <= limit);
            prop_assert!(host.ssd_used() <= u64::from(segments * size));
        }
        // All counted pages are found.
        let used = host.used() + host.ssd_used();
        let mut found = 0;
        for (vm, held) in held.iter().enumerate() {
            found += held.keys().filter(|page| host.take(vm, **page)).count() as u64;
        }
        prop_assert_eq!(found, used);
        prop_assert_eq!(host.used() + host.ssd_used(), 0);
    }
}

/// Pages that do not fit into memory are demoted to the SSD tier, and promoted when memory is free.
#[test]
fn pages_go_down_and_come_back() {
    let mut host = Host::new(100, 10, Mode::Weighted);
    host.set_ssd(20, 16);
    host.set_thresholds(0, 40);
    let vm = host.add_vm(100);
    let id = host.add_pool(vm, 10, Order::Aged);
    host.set_ssd_weight(id, 10);
    for index in 0..300 {
        assert!(host.put(id, Page::new(1, index), Class::LOWEST));
    }
    assert_eq!(host.used() + host.ssd_used(), 300);
    assert!(host.used() >= 90, "{}", host.used());
    for index in 200..300 {
        host.take(vm, Page::new(1, index));
    }
    host.set_time(1_000_000_000);
    host.take(vm, Page::new(1, 299));
    // Pages are promoted until exactly the threshold of 40 pages is free.
    assert_eq!(host.used(), 60);
    host.check_books();
}
