// SPDX-License-Identifier: GPL-2.0-only

//! The operations that are timed, for one number of VMs and pools.

use cpu_time::ThreadTime;
use ddlab::median;
use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use super::{
    lock,
    population::{CALL, Population},
};

/// Number of calls of each kind in a round.
const CALLS: u64 = 4096;

/// Number of consecutive calls of a VM, because vCPUs run for some time and read ahead.
const BURST: u64 = 16;

/// Maximum number of pages that a VM without pages puts in a round.
const GROWTH: u64 = 1 << 15;

/// Numbers of VMs and pools, and the size of their tier.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Size {
    /// VMs.
    pub(super) vms: u64,
    /// Pools of each VM.
    pub(super) pools: u64,
    /// Pages of the tier.
    #[serde(skip)]
    pub(super) pages: u64,
}

/// The figures of a case: medians of its rounds, in nanoseconds of processor time.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Sample {
    #[serde(flatten)]
    pub(super) size: Size,
    /// A page put into the full tier by a VM that holds all that it may hold.
    pub(super) put_ns: f64,
    /// A page got.
    pub(super) get_ns: f64,
    /// A page put into the full tier by a VM that is below its entitlement, so that other VMs give
    /// the page.
    pub(super) growth_ns: f64,
    /// The statistics of a pool.
    pub(super) statistics_ns: f64,
    /// A change of a VM's weight.
    pub(super) weight_ns: f64,
    /// A page freed with its VM.
    pub(super) death_ns: f64,
    /// The longest time for which a lock was held, in a separate round.
    pub(super) longest_hold: lock::Hold,
}

/// Times all operations.
pub(super) fn run(size: Size, rounds: usize) -> Sample {
    let mut population = Population::new(size);
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let mut figures: [Vec<f64>; 6] = Default::default();
    for round in 0..=rounds {
        let times = play(&mut population, size, &mut random);
        if round > 0 {
            for (figure, time) in figures.iter_mut().zip(times) {
                figure.push(time);
            }
        }
    }
    let longest_hold = lock::longest(|| {
        play(&mut population, size, &mut random);
    });
    let [
        put_ns,
        get_ns,
        growth_ns,
        statistics_ns,
        weight_ns,
        death_ns,
    ] = figures.map(|times| median(times).expect("there are rounds"));
    let sample = Sample {
        size,
        put_ns,
        get_ns,
        growth_ns,
        statistics_ns,
        weight_ns,
        death_ns,
        longest_hold,
    };
    eprintln!("{sample:?}");
    sample
}

/// Runs one round. Returns the time of each operation, in the order of [`Sample`].
fn play(population: &mut Population, size: Size, random: &mut Pcg64Mcg) -> [f64; 6] {
    let mut chosen = Vec::new();
    for _ in 0..CALLS / BURST {
        let vm = random.random_range(0..size.vms);
        chosen.extend((0..BURST).map(|_| (vm, random.random_range(0..size.pools))));
    }
    let pages = (CALLS * u64::from(CALL)) as f64;

    let start = ThreadTime::now();
    let stored: usize = chosen
        .iter()
        .map(|(vm, pool)| population.put(*vm, *pool))
        .sum();
    let put = start.elapsed().as_nanos() as f64;
    assert_eq!(stored as f64, pages, "a full tier makes room");

    let statistics = time(CALLS, || {
        for (vm, pool) in &chosen {
            population.statistics(*vm, *pool);
        }
    });
    let weight = time(CALLS, || {
        for (vm, _) in &chosen {
            population.settle(*vm);
        }
    });

    // Pages that were put last are found, unless a small pool has replaced them since.
    let start = ThreadTime::now();
    let found: usize = chosen
        .iter()
        .rev()
        .map(|(vm, pool)| population.get(*vm, *pool))
        .sum();
    let get = start.elapsed().as_nanos() as f64;
    assert!(found > 0, "the last pages are found");
    for (vm, pool) in &chosen {
        population.put(*vm, *pool);
    }

    // Some VMs lose their pages, and their peers fill the room. Then the VMs grow again at the
    // expense of their peers.
    let some = (size.vms / 8).clamp(1, 64);
    let start = ThreadTime::now();
    let freed: u64 = (0..some).map(|vm| population.drain(vm)).sum();
    let death = start.elapsed().as_nanos() as f64;
    let peers = if size.vms > some { some } else { 0 }..size.vms;
    let mut refilled = 0;
    while refilled < freed + 4 * u64::from(CALL) {
        for peer in peers.clone() {
            let pool = random.random_range(0..size.pools);
            refilled += population.put(peer, pool) as u64;
        }
    }
    let calls = (freed / some / 2).min(GROWTH) / u64::from(CALL);
    let start = ThreadTime::now();
    let mut grown = 0;
    for first in (0..calls).step_by(BURST as usize) {
        for vm in 0..some {
            let calls = first..(first + BURST).min(calls);
            grown += calls
                .map(|call| population.put(vm, call % size.pools))
                .sum::<usize>();
        }
    }
    let growth = start.elapsed().as_nanos() as f64;

    [
        put / pages,
        get / found as f64,
        growth / grown as f64,
        statistics,
        weight,
        death / freed as f64,
    ]
}

fn time(count: u64, work: impl FnOnce()) -> f64 {
    let start = ThreadTime::now();
    work();
    start.elapsed().as_nanos() as f64 / count as f64
}
