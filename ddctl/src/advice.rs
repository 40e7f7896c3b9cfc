// SPDX-License-Identifier: GPL-2.0-only

//! Advice on weights, sizes and policies, from the counters and curves of a module. It is free of
//! I/O.

mod guest;
mod host;

pub(crate) use guest::guest;
pub(crate) use host::{HostView, host};

use ddabi::pool::PoolStats;
use schemars::JsonSchema;
use serde::Serialize;

/// Advised changes, and limits of the advice.
#[derive(Debug, Default, JsonSchema, Serialize)]
pub(crate) struct AdviceReport {
    /// Advice in the order of the findings.
    pub(crate) advice: Vec<Advice>,
    /// Statements about what the numbers do not show.
    pub(crate) unknown: Vec<String>,
}

/// A finding and what to do about it.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct Advice {
    /// The finding, as a sentence.
    pub(crate) finding: String,
    /// Commands that change it; none if it cannot be changed here.
    pub(crate) commands: Vec<String>,
    /// The effect of the change, as a sentence.
    pub(crate) effect: String,
}

impl AdviceReport {
    fn add(
        &mut self,
        finding: impl Into<String>,
        commands: impl IntoIterator<Item = String>,
        effect: impl Into<String>,
    ) {
        self.advice.push(Advice {
            finding: finding.into(),
            commands: commands.into_iter().collect(),
            effect: effect.into(),
        });
    }
}

/// The least number of pages whose ratio is significant.
const ENOUGH: u64 = 1_000;

/// Returns a part in whole percent.
fn percent(part: u64, whole: u64) -> u64 {
    let percent = u128::from(part) * 100 / u128::from(whole.max(1));
    u64::try_from(percent).unwrap_or(u64::MAX)
}

/// Adds what refusals of the host tell about a VM or a container.
fn refusals(report: &mut AdviceReport, name: &str, stats: &PoolStats) {
    let offered = stats
        .puts
        .saturating_add(stats.put_refused_memory)
        .saturating_add(stats.put_refused_device)
        .saturating_add(stats.put_refused_absent)
        .saturating_add(stats.put_refused_fault);
    let many = |refused: u64| refused >= ENOUGH && percent(refused, offered) >= 1;
    if many(stats.put_refused_memory) {
        report.add(
            format!(
                "The host had no memory for {} % of the pages that {name} offered.",
                percent(stats.put_refused_memory, offered)
            ),
            [],
            "`ddctl status` on the host shows what it can spare. Fewer VMs there, or a capacity \
             that it can spare all the time, end these refusals; so does a floor, at the cost of \
             the host's other memory.",
        );
    }
    if many(stats.put_refused_device) {
        report.add(
            format!(
                "No device of the SSD tier took {} % of the pages that {name} offered.",
                percent(stats.put_refused_device, offered)
            ),
            [],
            "`ddctl ssd list` on the host shows whether a device is there, works and keeps up, and \
             how many pages its write budget turned away.",
        );
    }
    if many(stats.put_refused_absent) {
        report.add(
            format!(
                "{} % of the pages that {name} offered were not in the host's memory: swapped out, \
                 or not yet migrated.",
                percent(stats.put_refused_absent, offered)
            ),
            [],
            "The host does not wait for such memory. Less swapping on the host ends these refusals.",
        );
    }
}

#[cfg(test)]
mod tests;
