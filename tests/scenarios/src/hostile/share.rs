// SPDX-License-Identifier: GPL-2.0-only

//! What a victim has of what it is entitled to.

use anyhow::Result;
use ddlab::Target;

use crate::{
    ddctl::{self, Vm},
    stage::percent,
};

/// Looks after the victim has come to its share.
const LOOKS: usize = 8;
/// It has come to its share with so many percent of it.
const ALL: f64 = 95.0;
/// What it must have at 95 of 100 looks from then on, in percent. A batch of 512 pages is 5.6 % of
/// its share here, and what it reads leaves the tier before something else of it comes; 93.0 was
/// seen.
const MOSTLY: f64 = 90.0;
/// What it must have at any moment, in percent: two batches less; 91.6 was seen.
const LEAST: f64 = 88.0;

/// The victim's part of its entitlement, in percent, at one look after the other.
#[derive(Default)]
pub(super) struct Shares {
    /// Looks before it came to its share for the first time: nobody can keep it from what it has
    /// not put yet.
    before: usize,
    /// At every look since, whatever its peers have.
    since: Vec<f64>,
}

impl Shares {
    /// Looks once more.
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

    /// Whether there were enough looks to judge by.
    pub(super) fn are_enough(&self) -> bool {
        self.since.len() >= LOOKS
    }

    /// The part below which so many percent of the looks are; nothing without looks.
    fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.since.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
            .get((sorted.len() * percent).div_ceil(100))
            .map_or(0.0, |part| *part)
    }

    pub(super) fn targets(&self, kind: &str) -> [Target; 3] {
        let all = self.before + self.since.len();
        [
            Target::at_least(
                format!(
                    "{kind}: looks at the victim's share since it came to it, {} of {all} before",
                    self.before
                ),
                LOOKS as f64,
                self.since.len() as f64,
                "",
            ),
            Target::at_least(
                format!("{kind}: least part of its entitlement that the victim had since"),
                LEAST,
                self.percentile(0),
                "%",
            ),
            Target::at_least(
                format!("{kind}: part that it had at 95 of 100 looks"),
                MOSTLY,
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
        shares.targets("").map(|target| target.met)
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
