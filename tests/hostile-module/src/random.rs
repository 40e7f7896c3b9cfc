// SPDX-License-Identifier: GPL-2.0-only

//! Reproducible random numbers (SplitMix64).

/// A generator.
pub(crate) struct Random(u64);

impl Random {
    /// Creates the generator of a worker.
    pub(crate) fn new(seed: u64, worker: u32) -> Self {
        Self(ddabi::key::mix(seed ^ u64::from(worker).wrapping_mul(STEP)))
    }

    /// Returns the next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        ddabi::key::mix(self.0)
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // The high half of the product needs no division, whose code could panic.
        (u128::from(self.next()) * u128::from(bound) >> 64) as u64
    }

    /// Returns `true` once in `times`.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Returns one of the given numbers.
    pub(crate) fn one_of(&mut self, offered: &[u64]) -> u64 {
        let at = self.below(offered.len() as u64) as usize;
        offered.get(at).copied().unwrap_or(0)
    }
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
