// SPDX-License-Identifier: GPL-2.0-only

//! Results of an experiment.

use std::path::Path;

use anyhow::Result;
use ddlab::{Target, report};
use maud::{Markup, html};

use ddreport::chart::Panel;

use crate::{
    recording::{Recording, Share},
    report::{self as pages, changes, page, promises, timeline},
};

/// Seconds at the end of a phase over which shares are judged.
const SETTLED_S: f64 = 5.0;
/// Maximum deviation of a settled share from its entitlement, in percent.
const FURTHEST: f64 = 3.0;

/// An experiment's curves and figures.
#[derive(Debug)]
pub(crate) struct Experiment {
    pub(crate) title: &'static str,
    /// Introduction for the reader.
    pub(crate) lead: String,
    pub(crate) recording: Recording,
    pub(crate) targets: Vec<Target>,
    /// Returns the panels.
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
            (promises(&self.targets))
        }
    }

    /// Writes a separate report, and the samples.
    pub(super) fn write(&self, dir: &Path) -> Result<()> {
        report::write_json(&dir.join("recording.json"), &self.recording)?;
        pages::write(dir, &page(self.title, &self.section()))
    }
}

/// Returns targets for the deviation of shares from their entitlements at the end of a phase.
pub(super) fn settled<'a>(
    recording: &Recording,
    phase: &str,
    tracks: impl IntoIterator<Item = (&'a str, &'a [Share])>,
) -> Vec<Target> {
    let Some(window) = recording.phase(phase).map(|one| one.settled(SETTLED_S)) else {
        return Vec::new();
    };
    let judge = |(name, shares): (&str, &[Share])| {
        let (used, entitled) = mean(shares, window)?;
        let off = (used / entitled - 1.0) * 100.0;
        Some(Target::new(
            format!("{phase}: share of {name}"),
            format!("{entitled:.1} MiB ± {FURTHEST} %"),
            format!("{used:.1} MiB ({off:+.1} %)"),
            off.abs() <= FURTHEST,
        ))
    };
    tracks.into_iter().filter_map(judge).collect()
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
