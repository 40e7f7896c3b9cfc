// SPDX-License-Identifier: GPL-2.0

//! Giving away what no container needs, to where it helps most.
//!
//! A page is worth the misses it saves (UniCache, section IV.B: miss rate times recovery cost;
//! the recovery cost of pages is the same for all), more in a higher class.

/// Who may get something.
pub(super) struct Taker<'a> {
    /// Pages it has already.
    pub(super) size: f64,
    pub(super) ceiling: f64,
    /// What a saved miss is worth here.
    pub(super) worth: f64,
    /// Its weight: decides where nothing else does.
    pub(super) weight: f64,
    /// Misses a second to be expected at a size; falls with it.
    pub(super) misses: Box<dyn Fn(f64) -> f64 + 'a>,
    /// Whether more pages can help at all.
    pub(super) helps: bool,
}

/// In so many parts the spare pages are given away.
const PARTS: u32 = 64;

/// Divides spare pages; answers the new sizes in order, and what could not be given.
pub(super) fn give(pages: f64, spare: f64, takers: &[Taker<'_>]) -> (Vec<f64>, f64) {
    let mut sizes: Vec<f64> = takers.iter().map(|taker| taker.size).collect();
    let mut left = spare;
    let part = spare / f64::from(PARTS);
    if part <= 0.0 {
        return (sizes, 0.0);
    }
    for _ in 0..PARTS * 2 {
        if left < part * ROUNDING {
            break;
        }
        let best = (0..takers.len())
            .filter(|at| sizes[*at] < takers[*at].ceiling * (1.0 - ROUNDING))
            .map(|at| (at, gain(&takers[at], sizes[at], part, pages)))
            // The first of equals, so that the same figures give the same split.
            .fold(None, |best: Option<(usize, f64)>, next| match best {
                Some(best) if best.1 >= next.1 => Some(best),
                _ => Some(next),
            });
        let Some((at, _)) = best else { break };
        let given = part.min(left).min(takers[at].ceiling - sizes[at]);
        sizes[at] += given;
        left -= given;
    }
    (sizes, left.max(0.0))
}

const ROUNDING: f64 = 1e-9;

/// What a page is worth to one of a size, when a part is added to it.
fn gain(taker: &Taker<'_>, size: f64, part: f64, pages: f64) -> f64 {
    /// Far below any measured gain: the weights decide among those who show none.
    const IDLE: f64 = 1e-9;
    // No container is so small that a page is worth infinitely much.
    let size = size.max(pages / 1000.0).max(1.0);
    let idle = IDLE * taker.weight.max(ROUNDING) / size;
    if !taker.helps {
        return idle * ROUNDING;
    }
    let saved = ((taker.misses)(size) - (taker.misses)(size + part)).max(0.0) / part;
    taker.worth * saved + idle
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Misses fall with the square root of the size.
    fn taker<'a>(misses: f64) -> Taker<'a> {
        Taker {
            size: 100.0,
            ceiling: 1000.0,
            worth: 1.0,
            weight: 100.0,
            misses: Box::new(move |size| misses * (100.0 / size).sqrt()),
            helps: true,
        }
    }

    #[test]
    fn who_misses_more_gets_more() {
        let (sizes, left) = give(1000.0, 600.0, &[taker(10.0), taker(1000.0), taker(100.0)]);
        assert!(sizes[1] > sizes[2] && sizes[2] > sizes[0], "{sizes:?}");
        assert!(left < 1e-6 && (sizes.iter().sum::<f64>() - 900.0).abs() < 1e-6);
    }

    #[test]
    fn weights_decide_among_the_idle() {
        let heavy = Taker {
            weight: 300.0,
            ..taker(0.0)
        };
        let (sizes, _) = give(1e6, 600.0, &[taker(0.0), heavy]);
        assert!(sizes[1] > sizes[0]);
    }

    #[test]
    fn a_working_set_that_fits_wants_no_more() {
        let one = Taker {
            misses: Box::new(|size| (150.0 - size).max(0.0) * 100.0),
            ..taker(0.0)
        };
        let (sizes, _) = give(1000.0, 600.0, &[one, taker(10.0)]);
        assert!(sizes[0] < 180.0, "{sizes:?}");
    }

    #[test]
    fn who_cannot_be_helped_gets_nothing() {
        let redis = Taker {
            helps: false,
            ..taker(1000.0)
        };
        let (sizes, left) = give(1000.0, 600.0, &[redis, taker(10.0)]);
        assert_eq!((sizes[0], left < 1e-6), (100.0, true), "{sizes:?}");
    }

    #[test]
    fn ceilings_hold_and_the_rest_is_told() {
        let low = || Taker {
            ceiling: 150.0,
            ..taker(10.0)
        };
        let (sizes, left) = give(1000.0, 600.0, &[low(), low()]);
        assert_eq!(sizes, [150.0, 150.0]);
        assert!((left - 500.0).abs() < 1e-6);
    }
}
