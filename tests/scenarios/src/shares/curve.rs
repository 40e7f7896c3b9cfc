// SPDX-License-Identifier: GPL-2.0-only

//! Shares over time.

use anyhow::{Context as _, Result, ensure};
use ddlab::{Command, Machine, wait};

use crate::{
    ddctl::{Vm, Vms},
    events,
};

/// Seconds between two observations.
const PERIOD_S: f64 = 0.1;

/// The share of one peer at one moment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Share {
    pub(super) weight: u32,
    pub(super) entitlement: u64,
    pub(super) used: u64,
}

/// Returns the shares of the peers under test.
pub(super) type Peers = fn(&[Vm]) -> Result<Vec<Share>>;

/// Shares of the same peers at several moments.
pub(super) struct Curve(Vec<(f64, Vec<Share>)>);

impl Curve {
    /// Observes the peers for `seconds` of the host's time. `change` is called after the first
    /// observation.
    pub(super) fn record(
        host: &Machine,
        peers: Peers,
        seconds: f64,
        change: impl FnOnce() -> Result<()>,
    ) -> Result<Self> {
        // The number is positive and small.
        let count = (seconds / PERIOD_S).ceil() as u32;
        let watch = format!("ddctl --json --host stats --watch={PERIOD_S} --count={count}");
        let mut watcher = host.spawn(&Command::new(watch.split(' ').map(str::to_owned)))?;
        wait::until("the first observation is printed", || {
            Ok((!watcher.output()?.is_empty()).then_some(()))
        })?;
        change()?;
        let exit = watcher.wait()?;
        let output = watcher.output()?;
        ensure!(exit.success(), "{watch} failed: {output}");
        let pictures = output.lines().map(|line| {
            let picture: Vms = serde_json::from_str(line).with_context(|| line.to_owned())?;
            let time = events::parse(&picture.time.context("the output has no time")?)?;
            Ok((time.as_secs_f64(), peers(&picture.vms)?))
        });
        pictures.collect::<Result<_>>().map(Self)
    }

    /// Returns the seconds from the last observation with the old weights to the first from which
    /// on all have the new shares, within `percent`; `None` if there is none.
    pub(super) fn seconds_to_settle(&self, percent: f64) -> Option<f64> {
        let weights = |shares: &[Share]| -> Vec<u32> { shares.iter().map(|s| s.weight).collect() };
        let new = weights(&self.0.last()?.1);
        let changed = self
            .0
            .iter()
            .position(|(_, shares)| weights(shares) == new)?;
        let deviations = self.deviations();
        let settled = match deviations.iter().rposition(|(_, off)| *off > percent) {
            Some(last) => self.0.get(last + 1)?,
            None => self.0.get(changed)?,
        };
        let begin = self.0[changed.saturating_sub(1)].0;
        Some((settled.0 - begin).max(0.0))
    }

    /// Returns the deviation of the peers at each moment, in percent. It is the median of three
    /// neighbouring observations, because pages that a guest reads are in none of its pools until
    /// they are reclaimed, and an observation may see a burst of reads.
    fn deviations(&self) -> Vec<(f64, f64)> {
        let single: Vec<f64> = self.0.iter().map(|(_, shares)| deviation(shares)).collect();
        let median = |at: usize| {
            let around = at.saturating_sub(1)..(at + 2).min(single.len());
            let mut around = single[around].to_vec();
            around.sort_by(f64::total_cmp);
            around[(around.len() - 1) / 2]
        };
        let times = self.0.iter().map(|(time, _)| *time);
        times.zip((0..single.len()).map(median)).collect()
    }

    /// Returns the observations of the last `seconds`.
    fn last(&self, seconds: f64) -> Vec<&[Share]> {
        let end = self.0.last().map_or(0.0, |(time, _)| *time);
        let last = self.0.iter().filter(|(time, _)| *time >= end - seconds);
        last.map(|(_, shares)| shares.as_slice()).collect()
    }

    /// Returns the largest deviation of any peer in the last `seconds`, in percent.
    pub(super) fn worst(&self, seconds: f64) -> f64 {
        let end = self.0.last().map_or(0.0, |(time, _)| *time);
        let last = self.deviations().into_iter();
        let off = last.filter_map(|(time, off)| (time >= end - seconds).then_some(off));
        off.reduce(f64::max).unwrap_or(f64::INFINITY)
    }

    /// Returns the mean shares of the last `seconds`.
    pub(super) fn mean(&self, seconds: f64) -> Vec<Share> {
        let last = self.last(seconds);
        let peers = last.first().map_or(0, |shares| shares.len());
        let mean = |peer: usize, of: fn(&Share) -> u64| {
            last.iter().map(|shares| of(&shares[peer])).sum::<u64>() / last.len() as u64
        };
        (0..peers)
            .map(|peer| Share {
                weight: last[0][peer].weight,
                entitlement: mean(peer, |share| share.entitlement),
                used: mean(peer, |share| share.used),
            })
            .collect()
    }

    /// Returns the curve as text, with a line of seconds and pages for each observation.
    pub(super) fn table(&self) -> String {
        let start = self.0.first().map_or(0.0, |(time, _)| *time);
        let line = |(time, shares): &(f64, Vec<Share>)| {
            let peers = shares
                .iter()
                .map(|share| format!(" {}:{}/{}", share.weight, share.used, share.entitlement));
            format!("{:.2}{}\n", time - start, peers.collect::<String>())
        };
        self.0.iter().map(line).collect()
    }
}

/// Returns the largest deviation of a peer from its entitlement, in percent of that.
pub(super) fn deviation(shares: &[Share]) -> f64 {
    let one = |share: &Share| {
        share.used.abs_diff(share.entitlement) as f64 * 100.0 / share.entitlement.max(1) as f64
    };
    shares.iter().map(one).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a curve of two peers of a hundred pages with ten observations a second, in which the
    /// first uses these numbers of pages. Weights change after the first observation.
    fn curve(used: &[u64]) -> Curve {
        let share = |weight, used| Share {
            weight,
            entitlement: 100,
            used,
        };
        let picture = |(at, used): (usize, &u64)| {
            let weight = u32::from(at > 0);
            let shares = vec![share(weight, *used), share(weight, 200 - used)];
            (at as f64 / 10.0, shares)
        };
        Curve(used.iter().enumerate().map(picture).collect())
    }

    #[test]
    fn shares_that_swing_have_not_settled() {
        let settled = curve(&[60, 70, 90, 98, 101, 100]);
        assert!((settled.seconds_to_settle(3.0).unwrap() - 0.3).abs() < 1e-9);
        assert_eq!(settled.worst(0.25), 2.0);
        // One burst of reads is ignored, and two observations in a row are not.
        assert_eq!(curve(&[60, 100, 100, 80, 100, 100]).worst(0.35), 0.0);
        assert_eq!(curve(&[60, 100, 80, 80, 100, 100]).worst(0.35), 20.0);
        // Deviations above and below are equal, so that the mean hides them.
        let swings = curve(&[60, 100, 70, 130, 70, 130]);
        assert_eq!(swings.seconds_to_settle(3.0), None);
        assert_eq!(deviation(&swings.mean(0.35)), 0.0);
        assert_eq!(swings.worst(0.35), 30.0);
    }
}
