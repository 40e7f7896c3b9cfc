// SPDX-License-Identifier: GPL-2.0-only

//! Computes the best weights, sizes and policies for recorded traces.
//!
//! Weights follow from the sampled curves. The cache is assigned in steps. Each step goes to the
//! trace with the most additional hits per step over any number of further steps (UCP's lookahead,
//! Qureshi and Patt, MICRO '06), so that a trace that needs much cache before its first hit is
//! considered as well. Then each trace is replayed with every policy and the share that it was
//! assigned.

use crate::parallel;
use crate::replay::{Outcome, Sizes, curve, replay};
use crate::stream::{Access, distinct};
use ddcore::curve::{Curve, Slot};
use ddcore::policy::Policy;

/// Number of steps in which the cache is assigned. Weights are percentages.
const STEPS: usize = 100;

/// Shares of the whole cache for which a curve is reported, in percent.
const TOLD: [u64; 6] = [10, 25, 50, 75, 100, 200];

/// If the hits of two policies differ by less than this fraction, the one with fewer puts is
/// better.
const LITTLE: f64 = 0.02;

/// A recorded trace, which is treated as the accesses of a container.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The accesses.
    pub stream: Vec<Access>,
    /// Size of its guest's page cache in pages.
    pub guest: usize,
}

impl Recorded {
    /// Returns the number of distinct pages of the trace.
    pub fn pages(&self) -> usize {
        distinct(&self.stream)
    }
}

/// The advice for one trace.
#[derive(Clone, Debug)]
pub struct Advice {
    /// Its weight, in percent of the sum of all weights.
    pub weight: u32,
    /// Its share of the cache in pages.
    pub share: usize,
    /// The best policy at that share.
    pub policy: Policy,
    /// The outcome of each policy at that share, in the order of [`Policy::ALL`].
    pub outcomes: Vec<(Policy, Outcome)>,
    /// Sizes in pages, each with the number of hits that the paper's policy would have had with a
    /// cache of this size.
    pub sizes: Vec<(u64, u64)>,
}

/// Divides a cache of `cache` pages among the traces.
pub fn advise(traces: &[Recorded], cache: usize) -> Vec<Advice> {
    let curves = parallel::map(traces, |trace| curve(&trace.stream, trace.guest));
    let weights = divide(curves.len(), cache as u64, |at, pages| {
        curves[at].hits(pages)
    });
    let traces: Vec<(&Recorded, &Curve<Vec<Slot>>, u32)> = traces
        .iter()
        .zip(&curves)
        .zip(weights)
        .map(|((trace, curve), weight)| (trace, curve, weight))
        .collect();
    parallel::map(&traces, |(trace, curve, weight)| {
        let share = cache * *weight as usize / STEPS;
        let outcomes: Vec<(Policy, Outcome)> = Policy::ALL
            .into_iter()
            .map(|policy| {
                let sizes = Sizes::new(trace.guest, share);
                (policy, replay(&trace.stream, sizes, policy))
            })
            .collect();
        let sizes = TOLD.map(|percent| {
            let pages = cache as u64 * percent / 100;
            (pages, curve.hits(pages))
        });
        Advice {
            weight: *weight,
            share,
            policy: best(&outcomes),
            outcomes,
            sizes: sizes.to_vec(),
        }
    })
}

/// Returns the policy with the most hits, or one with nearly as many and the fewest puts.
fn best(outcomes: &[(Policy, Outcome)]) -> Policy {
    let most = outcomes.iter().map(|(_, outcome)| outcome.hits).max();
    let enough = most.unwrap_or(0) as f64 * (1.0 - LITTLE);
    outcomes
        .iter()
        .filter(|(_, outcome)| outcome.hits as f64 >= enough)
        .min_by_key(|(_, outcome)| outcome.puts)
        .map_or(Policy::default(), |(policy, _)| *policy)
}

/// Divides a cache of `cache` pages between `count` curves. `hits_of` returns the hits of a curve
/// at a size in pages. Returns the percentage for each curve; their sum is 100. Steps with which no
/// curve gains a hit are divided evenly.
pub fn divide(count: usize, cache: u64, hits_of: impl Fn(usize, u64) -> u64) -> Vec<u32> {
    let hits = |at: usize, steps: usize| hits_of(at, cache * steps as u64 / STEPS as u64);
    let mut given = vec![0usize; count];
    let mut left = STEPS;
    while left > 0 {
        // The highest number of additional hits per step, over any number of steps from the current
        // size of any trace.
        let mut found: Option<(f64, usize, usize)> = None;
        for (at, have) in given.iter().enumerate() {
            let base = hits(at, *have);
            for more in 1..=left {
                let gain = hits(at, have + more).saturating_sub(base) as f64 / more as f64;
                if gain > found.map_or(0.0, |(most, ..)| most) {
                    found = Some((gain, at, more));
                }
            }
        }
        let Some((_, at, more)) = found else {
            break;
        };
        given[at] += more;
        left -= more;
    }
    let traces = given.len();
    for (at, steps) in given.iter_mut().enumerate() {
        *steps += left * (at + 1) / traces - left * at / traces;
    }
    given.into_iter().map(|steps| steps as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Page;
    use crate::random::Random;

    fn looping(pages: u32) -> Recorded {
        let access = |at: u32| Access::read(Page::new(1, at % pages));
        Recorded {
            stream: (0..60_000).map(access).collect(),
            guest: 100,
        }
    }

    fn uniform(pages: u64) -> Recorded {
        let mut random = Random::new(1);
        let mut access = |_| Access::read(Page::new(2, random.below(pages) as u32));
        Recorded {
            stream: (0..60_000).map(&mut access).collect(),
            guest: 100,
        }
    }

    #[test]
    fn the_trace_that_gains_gets_the_cache() {
        let never = Recorded {
            stream: (0..60_000)
                .map(|at| Access::read(Page::new(3, at)))
                .collect(),
            guest: 100,
        };
        let advice = advise(&[never, looping(1000), uniform(2000)], 2000);
        let weights: Vec<u32> = advice.iter().map(|advice| advice.weight).collect();
        assert_eq!(weights.iter().sum::<u32>(), 100);
        assert!(weights[0] <= 10, "{weights:?}");
        // A loop has no hits before all of it fits.
        assert!((42..=60).contains(&weights[1]), "{weights:?}");
        assert!(advice[1].outcomes.iter().any(|(_, o)| o.hits > 50_000));
    }

    #[test]
    fn a_loop_that_does_not_fit_gets_a_policy_for_it() {
        let advice = advise(&[looping(4000)], 1000);
        assert_eq!(advice[0].weight, 100);
        assert_ne!(advice[0].policy, Policy::Fifo);
        assert!(advice[0].sizes.is_sorted());
        assert!(advise(&[], 1000).is_empty());
    }
}
