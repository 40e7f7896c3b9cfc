// SPDX-License-Identifier: GPL-2.0-only

//! The speed of the disk at which two ways are equally good.

use serde::Serialize;

use super::{measured::Measured, way::Way};

/// The default compared with another way on disks of all speeds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct BreakEven {
    pub(crate) against: Way,
    /// Speeds in requests a second, slowest first, with the factor at each.
    pub(crate) factors: Vec<(u64, f64)>,
    /// The speed at which the default stops being ahead, beginning with slow disks.
    pub(crate) crossing: Crossing,
}

/// The speeds, in requests a second, at which the default is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub(crate) enum Crossing {
    /// Ahead on disks that are slower than this, behind on faster ones.
    At { iops: f64 },
    /// Ahead on all disks that were tried, up to this speed.
    AlwaysAhead { iops: f64 },
    /// Behind on all disks that were tried, down to this speed.
    AlwaysBehind { iops: f64 },
}

impl BreakEven {
    /// Computes the result from the measurements of the sweep, or returns `None` if there was none,
    /// or if a speed has no figure of the other way.
    pub(crate) fn new(measured: &[Measured], stage: &str, against: Way) -> Option<Self> {
        let of = |way| {
            let own = measured.iter();
            own.filter(move |one| one.stage == stage && one.way == way)
        };
        let factors = of(Way::DoubleDecker).map(|ours| {
            let theirs = of(against).find(|one| one.disk_iops == ours.disk_iops)?;
            Some((ours.disk_iops, ours.over(theirs)?))
        });
        let mut factors: Vec<(u64, f64)> = factors.collect::<Option<_>>()?;
        factors.sort_by_key(|point| point.0);
        (factors.len() > 1).then(|| Self {
            against,
            crossing: crossing(&factors),
            factors,
        })
    }

    /// Returns the smallest factor.
    pub(crate) fn least(&self) -> f64 {
        let factors = self.factors.iter().map(|point| point.1);
        factors.fold(f64::INFINITY, f64::min)
    }

    /// Returns the result in words.
    pub(crate) fn describe(&self) -> String {
        let other = self.against.name();
        match self.crossing {
            Crossing::At { iops } => format!(
                "even with {other} on a disk of {iops:.0} requests/s ({:.1} ms each); ahead on \
                 slower ones",
                1000.0 / iops
            ),
            Crossing::AlwaysAhead { iops } => {
                format!("ahead of {other} on all disks up to {iops:.0} requests/s")
            }
            Crossing::AlwaysBehind { iops } => {
                format!("behind {other} already on a disk of {iops:.0} requests/s")
            }
        }
    }
}

/// Returns the first crossing from above one to below, on logarithmic axes.
fn crossing(factors: &[(u64, f64)]) -> Crossing {
    let iops = |point: &(u64, f64)| point.0 as f64;
    let (Some(first), Some(last)) = (factors.first(), factors.last()) else {
        return Crossing::AlwaysBehind { iops: 0.0 };
    };
    if first.1 < 1.0 {
        // A lead on faster disks only is not a break-even of this kind.
        return Crossing::AlwaysBehind { iops: iops(first) };
    }
    for pair in factors.windows(2) {
        let [slow, fast] = pair else { continue };
        if fast.1 < 1.0 {
            let part = slow.1.ln() / (slow.1.ln() - fast.1.ln());
            let between = iops(slow).ln() + part * (iops(fast).ln() - iops(slow).ln());
            return Crossing::At {
                iops: between.exp(),
            };
        }
    }
    Crossing::AlwaysAhead { iops: iops(last) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::measured::sample;

    #[test]
    fn the_crossing_is_between_the_points() {
        let Crossing::At { iops } = crossing(&[(10, 4.0), (40, 2.0), (160, 0.5), (640, 0.4)])
        else {
            panic!("there is one");
        };
        assert!((iops - 80.0).abs() < 1e-6, "{iops}");
        assert_eq!(
            crossing(&[(10, 2.0), (20, 1.0)]),
            Crossing::AlwaysAhead { iops: 20.0 }
        );
        assert_eq!(
            crossing(&[(10, 0.9), (20, 0.8)]),
            Crossing::AlwaysBehind { iops: 10.0 }
        );
    }

    #[test]
    fn a_sweep_is_found_among_measurements() {
        let measured = [
            sample(Way::DoubleDecker, "a", 50, &[30.0]),
            sample(Way::DoubleDecker, "a", 10, &[20.0]),
            sample(Way::Guests, "a", 10, &[10.0]),
            sample(Way::Guests, "a", 50, &[60.0]),
            sample(Way::Guests, "b", 50, &[1.0]),
        ];
        let even = BreakEven::new(&measured, "a", Way::Guests).unwrap();
        assert_eq!(even.factors, [(10, 2.0), (50, 0.5)]);
        assert_eq!(even.least(), 0.5);
        assert!(
            even.describe().contains("22 requests/s"),
            "{}",
            even.describe()
        );
        assert!(BreakEven::new(&measured, "b", Way::Guests).is_none());
        // A speed without a figure of the other way does not shorten the sweep.
        let mut more = measured.to_vec();
        more.push(sample(Way::DoubleDecker, "a", 100, &[1.0]));
        assert!(BreakEven::new(&more, "a", Way::Guests).is_none());
    }
}
