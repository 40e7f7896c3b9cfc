// SPDX-License-Identifier: GPL-2.0

//! Shares over time.

use std::time::SystemTime;

use anyhow::{Context as _, Result, ensure};
use ddlab::{Command, Machine, wait};

use crate::ddctl::{Vm, Vms};

/// Seconds between two pictures.
const PERIOD_S: f64 = 0.1;

/// One peer's share at one moment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Share {
    pub(super) weight: u32,
    pub(super) entitlement: u64,
    pub(super) used: u64,
}

/// The peers whose shares are looked at.
pub(super) type Peers = fn(&[Vm]) -> Result<Vec<Share>>;

/// Shares of the same peers at several moments.
pub(super) struct Curve(Vec<(f64, Vec<Share>)>);

impl Curve {
    /// Watches the peers for `seconds` of the host's time. `change` happens
    /// after the first picture.
    pub(super) fn record(
        host: &Machine,
        peers: Peers,
        seconds: f64,
        change: impl FnOnce() -> Result<()>,
    ) -> Result<Self> {
        // A positive number, and a small one.
        let count = (seconds / PERIOD_S).ceil() as u32;
        let watch = format!("ddctl --json --host stats --watch={PERIOD_S} --count={count}");
        let mut watcher = host.spawn(&Command::new(watch.split(' ').map(str::to_owned)))?;
        wait::until("there is a first picture", || {
            Ok((!watcher.output()?.is_empty()).then_some(()))
        })?;
        change()?;
        let exit = watcher.wait()?;
        let output = watcher.output()?;
        ensure!(exit.success(), "{watch} failed: {output}");
        let start = SystemTime::UNIX_EPOCH;
        let pictures = output.lines().map(|line| {
            let picture: Vms = serde_json::from_str(line).with_context(|| line.to_owned())?;
            let time = picture.time.context("a picture without time")?;
            let time = humantime::parse_rfc3339(&time)?.duration_since(start)?;
            Ok((time.as_secs_f64(), peers(&picture.vms)?))
        });
        pictures.collect::<Result<_>>().map(Self)
    }

    /// Seconds from the last picture with the old weights to the first that
    /// shows the new shares, within `percent`; none if there is none.
    pub(super) fn seconds_to_settle(&self, percent: f64) -> Option<f64> {
        let weights = |shares: &[Share]| -> Vec<u32> { shares.iter().map(|s| s.weight).collect() };
        let new = weights(&self.0.last()?.1);
        let changed = self
            .0
            .iter()
            .position(|(_, shares)| weights(shares) == new)?;
        let settled = self.0[changed..]
            .iter()
            .find(|(_, shares)| deviation(shares) <= percent)?;
        Some(settled.0 - self.0[changed.saturating_sub(1)].0)
    }

    /// Mean shares of the last `seconds`.
    pub(super) fn mean(&self, seconds: f64) -> Vec<Share> {
        let end = self.0.last().map_or(0.0, |(time, _)| *time);
        let last = self.0.iter().filter(|(time, _)| *time >= end - seconds);
        let last: Vec<&[Share]> = last.map(|(_, shares)| shares.as_slice()).collect();
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

    /// The curve as text: a line for each picture, seconds and pages.
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

/// How far the peer that is farthest off is from its entitlement, in percent of
/// that.
pub(super) fn deviation(shares: &[Share]) -> f64 {
    let one = |share: &Share| {
        share.used.abs_diff(share.entitlement) as f64 * 100.0 / share.entitlement.max(1) as f64
    };
    shares.iter().map(one).fold(0.0, f64::max)
}
