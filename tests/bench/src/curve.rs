// SPDX-License-Identifier: GPL-2.0-only

//! Costs of a container's curve for each page that leaves the guest and is read again.

use std::{hint::black_box, time::Instant};

use ddabi::key::mix;
use ddcore::curve::{Curve, Slot};
use ddlab::median;

/// Slots, as many as the guest module has.
const SLOTS: usize = 2048;

/// Number of pages in the store.
const PAGES: u64 = 1 << 16;

/// Number of measured rounds.
const ROUNDS: u64 = 9;

/// Returns the median time for a page that left and a page that was read, in nanoseconds.
pub(crate) fn measure() -> f64 {
    let mut curve = Curve::new(vec![Slot::default(); SLOTS]);
    let times: Vec<f64> = (0..=ROUNDS)
        .map(|round| {
            // A fifth of the pages is never read, as if they were overwritten.
            let first = round * PAGES / 5;
            let start = Instant::now();
            for number in first..first + PAGES {
                curve.left(black_box(mix(number)));
                curve.read(black_box(mix(number.wrapping_sub(PAGES / 2))));
            }
            start.elapsed().as_nanos() as f64 / PAGES as f64
        })
        // The first round reduces the sampled keys to the number of slots.
        .skip(1)
        .collect();
    black_box(curve.hits(PAGES));
    median(times).expect("there are rounds")
}
