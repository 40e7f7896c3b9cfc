// SPDX-License-Identifier: GPL-2.0-only

//! Gives spare pages to the containers that they help most.
//!
//! The worth of a page is the number of misses that it saves (UniCache, section IV.B: miss rate
//! times recovery cost, which is the same for all pages), multiplied by the worth of the class.

use super::quantity::Pages;

/// A container that can get spare pages.
pub(super) struct Candidate<'a> {
    /// The pages that it has already.
    pub(super) size: Pages,
    pub(super) ceiling: Pages,
    /// The worth of a saved miss.
    pub(super) worth: f64,
    /// Its weight, which decides between containers without measured gains.
    pub(super) weight: f64,
    /// Returns the expected misses a second at a size. They fall with it.
    pub(super) misses: Box<dyn Fn(Pages) -> f64 + 'a>,
    /// Whether more pages can help.
    pub(super) helps: bool,
}

/// Number of parts in which the spare pages are given away.
const PARTS: u32 = 64;

/// Divides `spare` pages of the VM's `pages`. Returns the new sizes in order, and the pages that
/// could not be given away.
pub(super) fn give(
    pages: Pages,
    spare: Pages,
    candidates: &[Candidate<'_>],
) -> (Vec<Pages>, Pages) {
    let mut sizes: Vec<Pages> = candidates.iter().map(|candidate| candidate.size).collect();
    let mut left = spare;
    let part = spare / f64::from(PARTS);
    if part <= Pages::ZERO {
        return (sizes, Pages::ZERO);
    }
    for _ in 0..PARTS * 2 {
        if left < part * ROUNDING {
            break;
        }
        let Some(at) = best(pages, part, candidates, &sizes) else {
            break;
        };
        let given = part.min(left).min(candidates[at].ceiling - sizes[at]);
        sizes[at] += given;
        left -= given;
    }
    (sizes, left.max(Pages::ZERO))
}

const ROUNDING: f64 = 1e-9;

/// Returns the candidate below its ceiling to which the next part is worth most. Of equal ones it
/// is the first, so that the same figures give the same division.
fn best(pages: Pages, part: Pages, candidates: &[Candidate<'_>], sizes: &[Pages]) -> Option<usize> {
    let gains = (0..candidates.len())
        .filter(|at| sizes[*at] < candidates[*at].ceiling * (1.0 - ROUNDING))
        .map(|at| (at, gain(&candidates[at], sizes[at], part, pages)));
    let best = gains.reduce(|best, next| if best.1 >= next.1 { best } else { next });
    best.map(|(at, _)| at)
}

/// Returns the worth of each page of a part that is added to a candidate of this size.
fn gain(candidate: &Candidate<'_>, size: Pages, part: Pages, pages: Pages) -> f64 {
    /// A worth far below any measured one, so that weights decide among candidates without a gain.
    const IDLE: f64 = 1e-9;
    // Bounds the worth of a page to very small containers.
    let size = size.max(pages / 1000.0).max(Pages(1.0));
    let idle = IDLE * candidate.weight.max(ROUNDING) / size.0;
    if !candidate.helps {
        return idle * ROUNDING;
    }
    let saved = ((candidate.misses)(size) - (candidate.misses)(size + part)).max(0.0) / part.0;
    candidate.worth * saved + idle
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Misses fall with the square root of the size.
    fn candidate<'a>(misses: f64) -> Candidate<'a> {
        Candidate {
            size: Pages(100.0),
            ceiling: Pages(1000.0),
            worth: 1.0,
            weight: 100.0,
            misses: Box::new(move |size| misses * (Pages(100.0) / size).sqrt()),
            helps: true,
        }
    }

    #[test]
    fn more_misses_get_more_pages() {
        let (sizes, left) = give(
            Pages(1000.0),
            Pages(600.0),
            &[candidate(10.0), candidate(1000.0), candidate(100.0)],
        );
        assert!(sizes[1] > sizes[2] && sizes[2] > sizes[0], "{sizes:?}");
        assert!(
            left.0 < 1e-6 && (sizes.iter().map(|size| size.0).sum::<f64>() - 900.0).abs() < 1e-6
        );
    }

    #[test]
    fn weights_decide_among_the_idle() {
        let heavy = Candidate {
            weight: 300.0,
            ..candidate(0.0)
        };
        let (sizes, _) = give(Pages(1e6), Pages(600.0), &[candidate(0.0), heavy]);
        assert!(sizes[1] > sizes[0]);
    }

    #[test]
    fn a_working_set_that_fits_wants_no_more() {
        let one = Candidate {
            misses: Box::new(|size| (150.0 - size.0).max(0.0) * 100.0),
            ..candidate(0.0)
        };
        let (sizes, _) = give(Pages(1000.0), Pages(600.0), &[one, candidate(10.0)]);
        assert!(sizes[0].0 < 180.0, "{sizes:?}");
    }

    #[test]
    fn containers_that_pages_do_not_help_get_none() {
        let redis = Candidate {
            helps: false,
            ..candidate(1000.0)
        };
        let (sizes, left) = give(Pages(1000.0), Pages(600.0), &[redis, candidate(10.0)]);
        assert_eq!((sizes[0], left.0 < 1e-6), (Pages(100.0), true), "{sizes:?}");
    }

    #[test]
    fn ceilings_hold_and_the_rest_is_returned() {
        let low = || Candidate {
            ceiling: Pages(150.0),
            ..candidate(10.0)
        };
        let (sizes, left) = give(Pages(1000.0), Pages(600.0), &[low(), low()]);
        assert_eq!(sizes, [Pages(150.0); 2]);
        assert!((left.0 - 500.0).abs() < 1e-6);
    }
}
