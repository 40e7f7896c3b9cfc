// SPDX-License-Identifier: GPL-2.0-only

//! Compares the guest's half of every policy with a plain model, for random reads, reclaims,
//! pressures and changes of policy. After each step both must give the same verdict and be in the
//! same admission state.

mod model;

use ddabi::key::{FileKey, PageKey};
use ddcore::policy::shadow::Cell;
use ddcore::policy::{Admission, Class, PageName, Policy, Pressure};
use model::Model;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    /// Reads a run of pages; the flag tells whether the host had them.
    Missed(u64, u64, bool),
    /// Reclaims a run of pages; the flag tells whether they had been refaulted.
    Offered(u64, u64, bool),
    Pressure(Pressure),
    Policy(Policy),
}

fn step() -> impl Strategy<Value = Step> {
    let pressure = (1u64..400, prop::bool::weighted(0.8), 0u8..4);
    let pressure = pressure.prop_map(|(capacity, full, floor)| Pressure {
        capacity,
        full,
        floor: Class::new(floor),
    });
    prop_oneof![
        8 => (0u64..300, 1u64..64, any::<bool>())
            .prop_map(|(first, pages, hit)| Step::Missed(first, pages, hit)),
        8 => (0u64..300, 1u64..64, any::<bool>())
            .prop_map(|(first, pages, refaulted)| Step::Offered(first, pages, refaulted)),
        2 => pressure.prop_map(Step::Pressure),
        1 => prop::sample::select(&Policy::ALL[..]).prop_map(Step::Policy),
    ]
}

fn name(index: u64) -> PageName {
    PageName::of(&PageKey {
        file: FileKey {
            inode: 7,
            filesystem: 1,
            generation: 2,
        },
        index,
    })
}

/// Extreme values that a comparison reached.
#[derive(Default)]
struct Reached {
    /// Number of times that the way of admission changed.
    changes: u32,
    /// Highest level of the throttle.
    level: u32,
}

/// Runs the policy and the model and compares them. Page numbers are taken modulo `pages`, so that
/// pages repeat.
fn agree(policy: Policy, words: usize, cells: usize, pages: u64, steps: &[Step]) -> Reached {
    let mut reached = Reached::default();
    let mut ours = Admission::new(policy, vec![0u64; words], vec![Cell::default(); cells]);
    let mut model = Model::new(policy, words, cells);
    let mut pressure = Pressure {
        capacity: 100,
        full: true,
        floor: Class::LOWEST,
    };
    for step in steps {
        let before = ours.way();
        match step {
            Step::Missed(first, count, hit) => {
                for index in *first..first + count {
                    let name = name(index % pages);
                    ours.missed(&name, *hit);
                    model.missed(&name, *hit);
                }
            }
            Step::Offered(first, count, refaulted) => {
                for index in *first..first + count {
                    let name = name(index % pages);
                    let verdict = ours.offered(&name, *refaulted, &pressure);
                    assert_eq!(verdict, model.offered(&name, *refaulted, &pressure));
                }
            }
            Step::Pressure(new) => pressure = *new,
            Step::Policy(policy) => {
                ours.set_policy(*policy);
                model.set_policy(*policy);
            }
        }
        assert_eq!(ours.way(), model.way());
        assert_eq!(ours.throttle().level(), model.level());
        reached.changes += u32::from(ours.way() != before);
        reached.level = reached.level.max(ours.throttle().level());
    }
    reached
}

/// Returns `turns` rounds of a stream without repetition, in which `hits` of 64 reads are reported
/// as hits.
fn stream(turns: u64, hits: u64) -> Vec<Step> {
    let turn = |turn: u64| {
        [
            Step::Missed(turn * 64, 64, turn % 64 < hits),
            Step::Offered(turn * 64, 64, false),
        ]
    };
    (0..turns).flat_map(turn).collect()
}

proptest! {
    #[test]
    fn agrees_with_the_model(
        policy in prop::sample::select(&Policy::ALL[..]),
        words in prop_oneof![Just(0usize), 1usize..64],
        cells in prop_oneof![Just(0usize), 1usize..600],
        pages in 16u64..400,
        steps in prop::collection::vec(step(), 1..250),
    ) {
        agree(policy, words, cells, pages, &steps);
    }

    /// Random steps alone rarely make enough puts to fill a window of the throttle.
    #[test]
    fn agrees_with_the_model_after_a_long_stream(
        policy in prop::sample::select(&Policy::ALL[..]),
        turns in 16u64..120,
        hits in 0u64..8,
        steps in prop::collection::vec(step(), 1..100),
    ) {
        let mut all = stream(turns, hits);
        all.extend(steps);
        agree(policy, 64, 300, 100_000, &all);
    }
}

/// The run is long enough for the throttle to rise and fall through all levels.
#[test]
fn agrees_with_the_model_while_it_throttles() {
    let mut steps = stream(400, 0);
    steps.extend(stream(400, 64));
    assert_eq!(agree(Policy::S3, 64, 0, 100_000, &steps).level, 5);
    assert_eq!(agree(Policy::Fifo, 64, 0, 100_000, &steps).level, 0);
}

/// The run is long enough for the small caches to choose a way of admission and to change it.
#[test]
fn agrees_with_the_model_over_loops_and_windows() {
    let mut steps = Vec::new();
    for turn in 0..3_000u64 {
        // The pages first form a loop, then a moving window.
        let first = match turn / 1_000 {
            1 => turn * 16 + turn * 7 % 64,
            _ => turn * 16 % 320,
        };
        steps.push(Step::Missed(first, 16, turn % 3 == 0));
        steps.push(Step::Offered(first, 16, turn % 2 == 0));
    }
    for policy in Policy::ALL {
        let changes = agree(policy, 64, 300, 100_000, &steps).changes;
        assert!(policy != Policy::Adaptive || changes >= 2, "{changes}");
    }
}
