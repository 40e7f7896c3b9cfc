// SPDX-License-Identifier: GPL-2.0-only

//! The part of its entitlement that a victim holds.

use anyhow::Result;
use ddlab::Target;

use crate::{
    ddctl::{self, Vm},
    stage::percent,
};

/// Number of looks after the victim has reached its share.
const LOOKS: usize = 8;
/// Percentage of its share from which on the victim counts as having reached it.
const ALL: f64 = 95.0;
/// Percentage that the victim must have at 95 of 100 looks from then on; 91.7 was seen. Pages that
/// it reads leave the tier before it puts others. A batch of evictions is only 0.4 % of its share.
const MOSTLY: f64 = 90.0;
/// Percentage that it must have at any moment; 88.7 was seen.
const LEAST: f64 = 88.0;
/// The bounds beside an attacker that fills its share.
pub(super) const BESIDE_PUTS: [f64; 2] = [LEAST, MOSTLY];
/// The bounds beside an attacker with many pools, which cannot fill its share, so that the victim
/// uses a part of it: in three runs the victim had 102.8 % or more.
pub(super) const BESIDE_POOLS: [f64; 2] = [97.0; 2];

/// The victim's part of its entitlement in percent, at each look.
#[derive(Default)]
pub(super) struct Shares {
    /// Number of looks before it reached its share for the first time. The victim had not put
    /// enough pages until then.
    before: usize,
    /// The parts at all looks since then, whatever its peers have.
    since: Vec<f64>,
}

impl Shares {
    /// Records the victim's part at this moment.
    pub(super) fn look(&mut self, vms: &[Vm]) -> Result<()> {
        let victim = ddctl::vm(vms, "victim")?;
        self.add(percent(victim.used_pages, victim.entitlement_pages));
        Ok(())
    }

    fn add(&mut self, part: f64) {
        if self.since.is_empty() && part < ALL {
            self.before += 1;
        } else {
            self.since.push(part);
        }
    }

    /// Returns whether there were enough looks for a verdict.
    pub(super) fn are_enough(&self) -> bool {
        self.since.len() >= LOOKS
    }

    /// Returns the part below which `percent` of the looks are, or 0 without looks.
    fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.since.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
            .get((sorted.len() * percent).div_ceil(100))
            .map_or(0.0, |part| *part)
    }

    /// Returns the targets with these bounds, for all looks and for 95 of 100.
    pub(super) fn targets(&self, kind: &str, [least, mostly]: [f64; 2]) -> [Target; 3] {
        let all = self.before + self.since.len();
        [
            Target::at_least(
                format!("{kind}: looks at the victim's share since it reached it"),
                LOOKS as f64,
                self.since.len() as f64,
                "",
            )
            .detail(format!("{} of {all} before", self.before)),
            Target::at_least(
                format!("{kind}: smallest part of its entitlement that the victim had since"),
                least,
                self.percentile(0),
                "%",
            ),
            Target::at_least(
                format!("{kind}: part that the victim had at 95 of 100 looks"),
                mostly,
                self.percentile(5),
                "%",
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(parts: &[f64]) -> [bool; 3] {
        let mut shares = Shares::default();
        parts.iter().for_each(|part| shares.add(*part));
        shares.targets("", BESIDE_PUTS).map(|target| target.met)
    }

    #[test]
    fn every_look_counts_once_the_share_was_reached() {
        let fills = [10.0, 80.0];
        let has = [99.0; 40];
        assert_eq!(met(&[&fills[..], &has].concat()), [true; 3]);
        assert_eq!(
            met(&[&fills[..], &has, &[50.0]].concat()),
            [true, false, true]
        );
        let squeezed = [89.0; 5];
        let often = [&fills[..], &has, &squeezed].concat();
        assert_eq!(met(&often), [true, true, false]);
        assert_eq!(met(&fills), [false; 3]);
    }
}
