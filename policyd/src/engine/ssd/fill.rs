// SPDX-License-Identifier: GPL-2.0-only

//! Divides the SSD tier between containers that are in both tiers, by benefit per page.
//!
//! The benefit of a page in the SSD tier is the time that it saves: the hits that it adds to those
//! of the container's memory, multiplied by the difference between the times of the disk and of the
//! tier. A gain that the hit-ratio curve promises only at a larger size counts as if it came evenly
//! up to there (the upper concave hull), so that a working set that fits only as a whole is
//! compared as a whole.

use crate::engine::curve::Slope;
use crate::engine::quantity::{Benefit, Pages};
use std::cmp::Ordering;

/// A container that gets a part.
#[derive(Clone, Debug)]
pub(super) struct SsdClaimant {
    /// Its weight in the file, which determines its part of pages that no container gains from.
    pub(super) weight: f64,
    /// Its gains from the first page on, the steepest slope first. If they are not known, its part
    /// is by weight.
    pub(super) gains: Option<Vec<Gain>>,
}

/// A number of pages with the same benefit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Gain {
    pub(super) length: Pages,
    /// The benefit of each of these pages.
    pub(super) page: Benefit,
}

impl Gain {
    /// Returns the gains of a curve's slopes. `hits` is the benefit of a hit ratio of 1.
    pub(super) fn of(slopes: &[Slope], hits: Benefit) -> Vec<Self> {
        let gain = |slope: &Slope| Self {
            length: slope.length,
            page: hits * slope.gain,
        };
        slopes.iter().map(gain).collect()
    }
}

/// Divides `pages`. Returns the sizes in the order of the parties. Their sum is `pages`, unless
/// there are no parties.
pub(super) fn fill(pages: Pages, parties: &[SsdClaimant]) -> Vec<Pages> {
    let parts = by_weight(pages, parties, |_| true);
    let is_known = |at: &usize| parties[*at].gains.is_some();
    let mut sizes: Vec<Pages> = parts
        .iter()
        .enumerate()
        .map(|(at, part)| if is_known(&at) { Pages::ZERO } else { *part })
        .collect();
    let mut left = pages - sizes.iter().copied().sum();
    for (at, gain) in by_worth(parties) {
        let given = gain.length.min(left).max(Pages::ZERO);
        sizes[at] += given;
        left -= given;
    }
    let rest = by_weight(left.max(Pages::ZERO), parties, |party| {
        party.gains.is_some()
    });
    for (size, more) in sizes.iter_mut().zip(rest) {
        *size += more;
    }
    sizes
}

/// Returns all gains with the indexes of their parties, the largest benefit first. Of equal ones
/// the first party comes first, so that the same figures give the same division.
fn by_worth(parties: &[SsdClaimant]) -> Vec<(usize, Gain)> {
    let gains = parties.iter().enumerate().flat_map(|(at, party)| {
        let gains = party.gains.iter().flatten();
        gains.map(move |gain| (at, *gain))
    });
    let mut gains: Vec<(usize, Gain)> = gains
        .filter(|(_, gain)| gain.page > Benefit::ZERO)
        .collect();
    gains.sort_by(|one, other| {
        let order = other.1.page.partial_cmp(&one.1.page);
        order.unwrap_or(Ordering::Equal)
    });
    gains
}

/// Returns the parts by weight of the parties for which `takes` returns true, and equal ones if
/// none of them has weight.
fn by_weight(
    pages: Pages,
    parties: &[SsdClaimant],
    takes: impl Fn(&SsdClaimant) -> bool,
) -> Vec<Pages> {
    let takers = parties.iter().filter(|party| takes(party));
    let count = takers.clone().count().max(1) as f64;
    let sum: f64 = takers.map(|party| party.weight).sum();
    let part = |party: &SsdClaimant| match takes(party) {
        false => Pages::ZERO,
        true if sum > 0.0 => pages * (party.weight / sum),
        true => pages / count,
    };
    parties.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn party(weight: f64, gains: &[(f64, f64)]) -> SsdClaimant {
        let gain = |&(length, page): &(f64, f64)| Gain {
            length: Pages(length),
            page: Benefit(page),
        };
        SsdClaimant {
            weight,
            gains: Some(gains.iter().map(gain).collect()),
        }
    }

    fn sizes(pages: f64, parties: &[SsdClaimant]) -> Vec<f64> {
        let sizes = fill(Pages(pages), parties).into_iter();
        sizes.map(|size| size.0).collect()
    }

    /// Returns the total benefit of sizes.
    fn worth(sizes: &[f64], parties: &[SsdClaimant]) -> f64 {
        let one = |(size, party): (&f64, &SsdClaimant)| {
            let mut left = *size;
            let mut sum = 0.0;
            for gain in party.gains.iter().flatten() {
                let taken = gain.length.0.min(left);
                sum += taken * gain.page.0;
                left -= taken;
            }
            sum
        };
        sizes.iter().zip(parties).map(one).sum()
    }

    #[test]
    fn pages_go_where_they_save_most_time() {
        let parties = [
            party(1.0, &[(100.0, 3.0), (200.0, 1.0)]),
            party(1.0, &[(50.0, 5.0), (400.0, 2.0)]),
        ];
        assert_eq!(sizes(120.0, &parties), [70.0, 50.0]);
        assert_eq!(sizes(400.0, &parties), [100.0, 300.0]);
        // The remaining pages are divided by weight.
        assert_eq!(sizes(950.0, &parties), [400.0, 550.0]);
    }

    #[test]
    fn unknown_gains_get_a_part_by_weight() {
        let unknown = SsdClaimant {
            weight: 3.0,
            gains: None,
        };
        let parties = [unknown, party(1.0, &[(10.0, 1.0)])];
        assert_eq!(sizes(400.0, &parties), [300.0, 100.0]);
        assert_eq!(sizes(400.0, &[]), [0.0; 0]);
    }

    fn parties() -> impl Strategy<Value = Vec<SsdClaimant>> {
        let gains = prop::collection::vec((1.0..500.0f64, 0.0..10.0f64), 0..6);
        let one = (0.0..100.0f64, prop::option::weighted(0.8, gains));
        let one = one.prop_map(|(weight, gains)| {
            let gains = gains.map(|mut gains| {
                gains.sort_by(|a, b| b.1.total_cmp(&a.1));
                party(weight, &gains).gains.unwrap()
            });
            SsdClaimant { weight, gains }
        });
        prop::collection::vec(one, 1..8)
    }

    proptest! {
        #[test]
        fn all_is_given_and_more_takes_from_none(
            parties in parties(), pages in 0.0..3000.0f64, more in 0.0..1000.0f64,
        ) {
            let before = sizes(pages, &parties);
            prop_assert!(before.iter().all(|size| *size >= 0.0));
            prop_assert!((before.iter().sum::<f64>() - pages).abs() < 1e-6);
            let after = sizes(pages + more, &parties);
            for (before, after) in before.iter().zip(&after) {
                prop_assert!(after + 1e-6 >= *before, "{before} {after}");
            }
        }

        /// No other division of the pages that parties without a curve leave has a larger benefit.
        #[test]
        fn no_division_is_worth_more(
            parties in parties(), pages in 1.0..3000.0f64, other in prop::collection::vec(0.01..1.0f64, 8),
        ) {
            let found = sizes(pages, &parties);
            let known: f64 = found.iter().zip(&parties)
                .filter(|(_, party)| party.gains.is_some()).map(|(size, _)| size).sum();
            let other: Vec<f64> = other.iter().zip(&parties)
                .map(|(part, party)| if party.gains.is_some() { *part } else { 0.0 }).collect();
            let sum: f64 = other.iter().sum();
            let other: Vec<f64> = other.iter().map(|part| part / sum.max(1e-9) * known).collect();
            prop_assert!(worth(&found, &parties) + 1e-6 >= worth(&other, &parties));
        }

        /// A container whose pages have a larger benefit never gets fewer.
        #[test]
        fn worth_more_is_not_less(parties in parties(), pages in 0.0..3000.0f64, at in 0..8usize) {
            let at = at % parties.len();
            let before = sizes(pages, &parties);
            let mut lifted = parties.clone();
            for gain in lifted[at].gains.iter_mut().flatten() {
                gain.page = gain.page * 1.7;
            }
            let after = sizes(pages, &lifted);
            prop_assert!(after[at] + 1e-6 >= before[at]);
        }
    }
}
