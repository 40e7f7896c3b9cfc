// SPDX-License-Identifier: GPL-2.0-only

//! Random systems beyond what the controller assumes: steps, plateaus, loops, figures that do not
//! depend on the store, phases shorter than the interval, noise, and needs close to the whole
//! store.

use crate::{
    model::{Vm, file},
    workload::{GIB, Phases, Shape, Workload},
};
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};

/// Intervals in which the engine learns the needs, and intervals over which the result is judged.
const SETTLE: usize = 120;
const JUDGED: usize = 40;

const CLASSES: [&str; 3] = ["gold", "silver", "bronze"];

/// One container of a system.
#[derive(Clone, Debug)]
struct One {
    shape: Shape,
    /// The target as a part of the highest throughput.
    ratio: f64,
    /// Its part of what all need.
    part: f64,
    class: usize,
    phases: Option<(f64, f64)>,
}

#[derive(Clone, Debug)]
struct Case {
    ones: Vec<One>,
    /// Part of the store that all need together.
    need: f64,
    noisy: bool,
    curves: bool,
    delay: usize,
    seed: u64,
}

fn shape() -> impl Strategy<Value = Shape> {
    prop_oneof![
        Just(Shape::Exponential),
        Just(Shape::Hyperbolic),
        Just(Shape::ClosedLoop),
        Just(Shape::Loop),
        Just(Shape::Cliff),
        Just(Shape::Plateau),
        Just(Shape::TwoSteps),
        Just(Shape::Flat),
    ]
}

fn cases() -> impl Strategy<Value = Case> {
    let phases = prop::option::weighted(0.2, (0.3..0.95f64, 0.8..1.25f64));
    let one = (shape(), 0.7..0.95f64, 0.1..1.0f64, 0..CLASSES.len(), phases).prop_map(
        |(shape, ratio, part, class, phases)| One {
            shape,
            ratio,
            part,
            class,
            phases,
        },
    );
    let rest = (
        0.3..1.5f64,
        any::<bool>(),
        any::<bool>(),
        0..2usize,
        any::<u64>(),
    );
    (prop::collection::vec(one, 2..5), rest).prop_map(
        |(ones, (need, noisy, curves, delay, seed))| Case {
            ones,
            // A third of the systems need nearly the whole store.
            need: if (0.85..1.15).contains(&need) {
                0.95
            } else {
                need
            },
            noisy,
            curves,
            delay,
            seed,
        },
    )
}

impl Case {
    fn vm(&self) -> Vm {
        let parts: f64 = self.ones.iter().map(|one| one.part).sum();
        let workload = |(at, one): (usize, &One)| {
            let name = format!("/c{at}");
            let mut work = Workload::new(&name, one.shape, 1000.0, 1.0, 1000.0 * one.ratio);
            if one.shape == Shape::Flat {
                work.top = 500.0;
            } else {
                work.scale = GIB * self.need * (one.part / parts) / work.need(work.target);
            }
            work.phases = one.phases.map(|(period, factor)| Phases { period, factor });
            work.delay = self.delay;
            work
        };
        let workloads: Vec<Workload> = self.ones.iter().enumerate().map(workload).collect();
        let classes: Vec<&str> = self.ones.iter().map(|one| CLASSES[one.class]).collect();
        let mut vm = Vm::new(&file(&workloads, &classes), workloads, GIB, self.seed);
        vm.lognormal = if self.noisy { 0.2 } else { 0.0 };
        vm.curves = self.curves;
        vm
    }

    /// Runs it, and returns the results.
    fn run(&self) -> Found {
        let mut vm = self.vm();
        let fixed: Vec<f64> = (0..self.ones.len())
            .map(|at| vm.workloads[at].cost(GIB / self.ones.len() as f64))
            .collect();
        for _ in 0..SETTLE {
            vm.interval();
        }
        let mut costs = vec![0.0; self.ones.len()];
        let mut history: Vec<Vec<u32>> = Vec::new();
        for _ in 0..JUDGED {
            vm.interval();
            history.push(vm.weights().into_iter().map(|one| one.1).collect());
            for (cost, one) in costs.iter_mut().zip(&vm.workloads) {
                *cost += one.cost(one.used).max(0.0) / JUDGED as f64;
            }
        }
        // The worst miss of each class.
        let worst = |costs: &[f64]| {
            let of = |class: usize| {
                let ones = self.ones.iter().zip(costs);
                let helped = ones.filter(|(one, _)| one.class == class && one.shape != Shape::Flat);
                helped.map(|(_, cost)| cost.max(0.0)).fold(0.0, f64::max)
            };
            [of(0), of(1), of(2)]
        };
        Found {
            ours: worst(&costs),
            fixed: worst(&fixed),
            fro: fro(&history),
        }
    }
}

struct Found {
    /// The worst miss of each class, as a logarithm: gold, silver, bronze.
    ours: [f64; 3],
    /// The same under constant equal weights.
    fixed: [f64; 3],
    /// The largest distance that a weight moved back and forth, as a part of the store.
    fro: f64,
}

impl Found {
    /// Returns the factor by which the highest class that differs is worse than under fixed
    /// weights. A gain of a class by more than noise may cost lower ones any amount.
    fn worse_by(&self) -> f64 {
        let pairs = self.ours.iter().zip(&self.fixed);
        let apart = pairs.map(|(ours, fixed)| ours - fixed);
        apart
            .into_iter()
            .find(|apart| *apart < -GAINED || *apart > BOUND)
            .unwrap_or(0.0)
    }
}

/// A class that misses its targets by this much less is better off.
const GAINED: f64 = 0.01;
/// Factors by which a target may be missed more than with equal weights: in all but one hundredth
/// of the systems, and in any system.
const MAX_LOST: [f64; 2] = [3.0, 40.0];
/// A class that misses its targets by this much more, a tenth, is worse off.
const BOUND: f64 = 0.1;

/// Returns the largest distance that a weight moved beyond that from its first value to its last.
fn fro(history: &[Vec<u32>]) -> f64 {
    let one = |at: usize| {
        let way: u32 = history
            .windows(2)
            .map(|pair| pair[0][at].abs_diff(pair[1][at]))
            .sum();
        let net = history[0][at].abs_diff(history[history.len() - 1][at]);
        f64::from(way - net) / 2.0 / 10_000.0
    };
    (0..history[0].len()).map(one).fold(0.0, f64::max)
}

/// Number of systems, which are the same in every run.
const CASES: usize = 2000;
/// The needs of gold containers are expected to be found if they are at most this part of the
/// store.
const ROOM: f64 = 0.9;
/// Two steps of the default size, as a part of the store.
const TWO_STEPS: f64 = 0.4;

impl Case {
    /// Returns the need of all its gold containers, as a part of the store.
    fn gold(&self) -> f64 {
        let parts: f64 = self.ones.iter().map(|one| one.part).sum();
        let gold = |one: &&One| one.class == 0 && one.shape != Shape::Flat;
        let needs = self.ones.iter().filter(gold);
        needs.map(|one| one.part / parts * self.need).sum()
    }
}

/// The numbers in `docs/users/policyd.md` for figures that are steps, loops, noisy or independent
/// of the store.
#[test]
fn most_systems_are_no_worse_off_than_with_equal_weights() {
    let mut runner = TestRunner::deterministic();
    let cases = cases();
    let mut by = Vec::new();
    let (mut worse, mut restless, mut golds) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..CASES {
        let case = cases.new_tree(&mut runner).unwrap().current();
        let found = case.run();
        by.push(found.worse_by());
        if found.worse_by() > 0.0 {
            worse.push(number);
        }
        if found.fro > TWO_STEPS {
            restless.push(number);
        }
        if case.gold() <= ROOM && found.ours[0] > BOUND {
            golds.push(number);
        }
    }
    by.sort_by(f64::total_cmp);
    let counts = [worse.len(), restless.len(), golds.len()];
    println!("{counts:?} of {CASES}");
    let most = [0.08, 0.04, 0.05].map(|part| (part * CASES as f64) as usize);
    let holds = counts.iter().zip(&most).all(|(count, most)| count <= most);
    // The loss in the other systems is bounded as well.
    let [hundredth, last] = [CASES / 100, 1].map(|from_above| by[CASES - from_above].exp());
    println!("worse by {hundredth:.2} times in one of a hundred, {last:.2} times at the most");
    assert!(
        hundredth <= MAX_LOST[0] && last <= MAX_LOST[1],
        "{hundredth} {last}"
    );
    assert!(
        holds,
        "{counts:?} of {most:?}: {worse:?} {restless:?} {golds:?}"
    );
}
