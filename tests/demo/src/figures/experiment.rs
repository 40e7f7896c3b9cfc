// SPDX-License-Identifier: GPL-2.0-only

//! Results of an experiment.

use std::path::Path;

use anyhow::Result;
use ddlab::{Target, report};
use maud::{Markup, html};
use serde::Serialize;

use ddreport::chart::Panel;

use super::paper::{Compared, Paper, SHARE};
use crate::{
    recording::{Recording, Share},
    report::{self as pages, changes, page, promises, timeline},
};

/// Seconds at the end of a phase over which shares are judged.
const SETTLED_S: f64 = 5.0;
/// Maximum deviation of a settled share from its entitlement, in percent.
const FURTHEST: f64 = SHARE;

/// An experiment's curves and figures.
#[derive(Debug, Serialize)]
pub(crate) struct Experiment {
    pub(crate) title: &'static str,
    /// Introduction for the reader.
    pub(crate) lead: String,
    #[serde(skip)]
    pub(crate) recording: Recording,
    pub(crate) targets: Vec<Target>,
    pub(crate) paper: Paper,
    /// Returns the panels.
    #[serde(skip)]
    pub(crate) panels: fn(&Recording) -> Vec<Panel>,
}

impl Experiment {
    /// Returns its section of a report.
    pub(crate) fn section(&self) -> Markup {
        let panels = (self.panels)(&self.recording);
        html! {
            h2 { (self.title) }
            p { (self.lead) }
            (timeline(&self.recording, self.title, panels).svg())
            (changes(&self.recording))
            (self.paper.section())
            (promises(&self.targets))
        }
    }

    /// Writes a separate report, the results, and the samples.
    pub(super) fn write(&self, dir: &Path) -> Result<()> {
        report::write_json(&dir.join("result.json"), self)?;
        report::write_json(&dir.join("recording.json"), &self.recording)?;
        pages::write(dir, &page(self.title, &self.section()))
    }
}

/// A phase at whose end shares are judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settled {
    pub(super) phase: &'static str,
    /// Capacity of the store in this phase.
    pub(super) store_mib: u64,
    /// Those that have a share, with their parts of the store in the paper.
    pub(super) parts: &'static [(&'static str, f64)],
}

/// Returns the shares of the container or VM of a name.
pub(super) type Find = for<'a> fn(&'a Recording, &str) -> Option<&'a [Share]>;

impl Settled {
    /// Returns the targets of all phases, and their parts of the store beside the paper's.
    pub(super) fn judge(
        phases: &[Self],
        recording: &Recording,
        find: Find,
    ) -> (Vec<Target>, Vec<Compared>) {
        let targets = phases
            .iter()
            .flat_map(|phase| phase.targets(recording, find));
        let compared = phases
            .iter()
            .flat_map(|phase| phase.compared(recording, find));
        (targets.collect(), compared.collect())
    }

    /// Returns targets for the deviation of shares from their entitlements. A share that was not
    /// recorded misses its target.
    fn targets(&self, recording: &Recording, find: Find) -> Vec<Target> {
        let judge = |(name, _): &(&str, f64)| {
            let what = format!("{}: share of {name}", self.phase);
            match self.mean(recording, name, find) {
                Some((used, entitled)) => {
                    let off = (used / entitled - 1.0) * 100.0;
                    Target::new(
                        what,
                        format!("{entitled:.1} MiB ± {FURTHEST} %"),
                        format!("{used:.1} MiB ({off:+.1} %)"),
                        off.abs() <= FURTHEST,
                    )
                }
                None => Target::new(
                    what,
                    format!("its entitlement ± {FURTHEST} %"),
                    "not measured",
                    false,
                ),
            }
        };
        self.parts.iter().map(judge).collect()
    }

    /// Returns the parts of the store beside the paper's.
    fn compared(&self, recording: &Recording, find: Find) -> Vec<Compared> {
        let compare = |(name, paper): &(&str, f64)| {
            let used = self.mean(recording, name, find).map(|(used, _)| used);
            Compared::share(
                format!("{}: part of the store of {name}", self.phase),
                *paper,
                used.map(|used| used / self.store_mib as f64),
            )
        };
        self.parts.iter().map(compare).collect()
    }

    /// Returns the used and entitled MiB at the end of the phase, or `None` if they were not
    /// recorded.
    fn mean(&self, recording: &Recording, name: &str, find: Find) -> Option<(f64, f64)> {
        let window = recording.phase(self.phase)?.settled(SETTLED_S);
        mean(find(recording, name)?, window)
    }
}

/// Returns the used and entitled MiB in a window, or `None` if nothing was entitled.
fn mean(shares: &[Share], (from, to): (f64, f64)) -> Option<(f64, f64)> {
    let within = shares
        .iter()
        .filter(|share| share.at > from && share.at <= to);
    let (mut used, mut entitled, mut count) = (0.0, 0.0, 0.0);
    for share in within {
        used += share.used_mib();
        entitled += share.entitlement_mib();
        count += 1.0;
    }
    (entitled > 0.0).then(|| (used / count, entitled / count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{demo::DEFAULT, figures::paper::Verdict, recording};

    const SETTLED: Settled = Settled {
        phase: DEFAULT,
        store_mib: 125,
        parts: &[("shop", 0.75), ("warehouse", 0.25)],
    };

    fn shares<'a>(recording: &'a Recording, name: &str) -> Option<&'a [Share]> {
        Some(&recording.vm(name)?.shares)
    }

    #[test]
    fn shares_that_were_not_recorded_are_missed() {
        let missed = SETTLED.targets(&Recording::default(), shares);
        assert_eq!(missed.len(), 2);
        assert!(missed.iter().all(|target| !target.met));
        // The phase was recorded, but one of the VMs was not.
        let mut recording = recording::sample();
        recording.vms.pop();
        let targets = SETTLED.targets(&recording, shares);
        let met: Vec<_> = targets.iter().map(|target| target.met).collect();
        assert_eq!(met, [true, false]);
        assert_eq!(targets[1].measured, "not measured");
        // Its samples end before the phase.
        let mut recording = recording::sample();
        recording.vms[1].shares.truncate(1);
        assert!(!SETTLED.targets(&recording, shares)[1].met);
    }

    #[test]
    fn shares_are_compared_with_the_paper() {
        let verdict = |recording: &Recording| {
            Paper::new((1_024, 125), SETTLED.compared(recording, shares)).verdict
        };
        assert_eq!(verdict(&recording::sample()), Verdict::Reproduced);
        assert_eq!(verdict(&Recording::default()), Verdict::Not);
    }
}
