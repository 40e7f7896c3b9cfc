// SPDX-License-Identifier: GPL-2.0-only

//! The time to choose a victim, which happens once for each batch of 2 MiB, under one lock.

use std::time::Instant;

use ddcore::partition::{Entity, entitle, victim};
use ddlab::median;

/// Number of VMs on the host.
const VMS: u64 = 1000;

/// Number of pools of the victim.
const POOLS: u64 = 100;

/// Pages of a batch.
const BATCH: u64 = 512;

/// Returns the median time of a choice among VMs, and among the pools of the chosen one, in
/// nanoseconds.
pub(crate) fn measure() -> f64 {
    let (vms, pools) = (entities(VMS), entities(POOLS));
    let times = (0..201).map(|_| choose(&vms, &pools));
    median(times).expect("there are rounds")
}

fn choose(vms: &[Entity], pools: &[Entity]) -> f64 {
    let (mut vms, mut pools) = (vms.to_vec(), pools.to_vec());
    let start = Instant::now();
    entitle(&mut vms, VMS << 18);
    let vm = victim(&vms, BATCH);
    entitle(&mut pools, 1 << 18);
    let pool = victim(&pools, BATCH);
    let time = start.elapsed().as_nanos() as f64;
    std::hint::black_box((vm, pool));
    time
}

/// Returns entities of which some use more than their share and some less.
fn entities(count: u64) -> Vec<Entity> {
    let entity = |number: u64| Entity {
        weight: 100 + (number % 7) as u32,
        entitlement: 0,
        used: (1 << 18) + number * 7919 % (1 << 12),
    };
    (0..count).map(entity).collect()
}
