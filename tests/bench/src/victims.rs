// SPDX-License-Identifier: GPL-2.0-only

//! How long it takes to find who has to give: once for each batch of 2 MiB, under one lock.

use std::time::Instant;

use ddcore::partition::{Entity, entitle, victim};

/// VMs on the host.
const VMS: u64 = 1000;

/// Pools of the victim.
const POOLS: u64 = 100;

/// Pages of a batch.
const BATCH: u64 = 512;

/// The median time of a choice among VMs, and among the pools of the one that was chosen, in
/// nanoseconds.
pub(crate) fn measure() -> f64 {
    let (vms, pools) = (entities(VMS), entities(POOLS));
    let mut times: Vec<f64> = (0..201).map(|_| choose(&vms, &pools)).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
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

/// Some that use more than their share, and some that use less.
fn entities(count: u64) -> Vec<Entity> {
    let entity = |number: u64| Entity {
        weight: 100 + (number % 7) as u32,
        entitlement: 0,
        used: (1 << 18) + number * 7919 % (1 << 12),
    };
    (0..count).map(entity).collect()
}
