// SPDX-License-Identifier: GPL-2.0-only

//! The criterion for a gain that a paper gives, which the simulated figures and those on real
//! kernels share.
//!
//! A factor of two alone accepts no effect at all beside a paper's 2.0, and a loss beside a paper's
//! 1.5. So the direction is judged too, and how far a gain goes in it.

/// Factor within which a gain must be the paper's.
pub const FACTOR: f64 = 2.0;
/// Part by which a paper's gain must differ from 1 for its direction to be judged. Smaller
/// differences are called marginal in the paper, and can be noise.
pub const MARGINAL: f64 = 0.1;
/// Part of the logarithm of the paper's gain that ours must reach.
const REACHED: f64 = 1.0 / 3.0;

/// Returns whether our gain agrees with the paper's: it is within [`FACTOR`] of it, and if the
/// paper's differs from 1 by more than [`MARGINAL`], ours goes in the same direction and reaches at
/// least a third of its logarithm.
#[must_use]
pub fn agrees(paper: f64, ours: f64) -> bool {
    let is_near = ours <= paper * FACTOR && ours >= paper / FACTOR;
    let is_marginal = (1.0 - MARGINAL..=1.0 + MARGINAL).contains(&paper);
    // The quotient is negative if the two go in opposite directions.
    is_near && (is_marginal || ours.ln() / paper.ln() >= REACHED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_has_two_ends() {
        assert!(agrees(6.6, 3.4) && agrees(6.6, 13.1));
        assert!(!agrees(6.6, 3.2) && !agrees(6.6, 13.3));
        assert!(agrees(1.0, 0.5) && agrees(1.0, 2.0));
        assert!(!agrees(1.0, 0.49) && !agrees(1.0, 2.01));
        assert!(!agrees(2.0, f64::NAN) && !agrees(2.0, 0.0) && !agrees(1.0, f64::NAN));
    }

    #[test]
    fn no_effect_does_not_agree_with_an_effect() {
        for paper in [2.0, 1.5, 1.2, 0.8, 0.5] {
            assert!(!agrees(paper, 1.0), "{paper}");
            assert!(agrees(paper, paper), "{paper}");
        }
        // A tenth or less has no direction, to either side.
        assert!(agrees(1.1, 1.0) && agrees(0.9, 1.0) && agrees(1.08, 0.95));
        assert!(!agrees(1.11, 1.0) && !agrees(0.89, 1.0));
    }

    #[test]
    fn a_reversed_effect_does_not_agree() {
        assert!(!agrees(0.75, 1.17));
        assert!(!agrees(1.8, 0.95) && !agrees(1.3, 0.7));
    }

    #[test]
    fn a_third_of_the_logarithm_is_enough() {
        // The cube root of 2 is 1.2599.
        assert!(agrees(2.0, 1.27) && !agrees(2.0, 1.25));
        // That of a half is 0.7937.
        assert!(agrees(0.5, 0.79) && !agrees(0.5, 0.80));
    }
}
