// SPDX-License-Identifier: GPL-2.0-only

//! The report on all containers, for users, for `ddctl` and for metrics.

use super::{
    character::Character, goal::Goal, memory::Limits, protection::Protection, quantity::Pages,
    ruling::Verdict,
};
use crate::config::{Container, Figure, StoreName};
use ddabi::pool::Store;
use ddnl::printable;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write};

/// The report. `docs/users/policyd.md` describes its JSON.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Report {
    /// Whether the guest module is loaded.
    pub module: bool,
    /// The reason why it cannot be used, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Why the page of metrics, or the status socket, could not be opened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_open: Vec<String>,
    /// The VM's share of the store in bytes; absent without a host, or before it was measured.
    pub store_bytes: Option<u64>,
    /// Sum of the floors of the existing containers in bytes; absent without a host, or floors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floors_bytes: Option<u64>,
    /// Whether all targets can be met, as far as is known; absent without targets.
    pub feasible: Option<bool>,
    /// The VM's memory.
    pub memory: MemoryReport,
    /// The existing containers, sorted by cgroup.
    pub containers: Vec<Explanation>,
}

/// The VM's memory.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct MemoryReport {
    /// Total bytes.
    pub total_bytes: u64,
    /// Available bytes.
    pub available_bytes: u64,
    /// Memory pressure (PSI some), in percent of time.
    pub pressure_percent: Option<f64>,
    /// Bytes that the daemon has reclaimed under pressure since its start.
    pub reclaimed_bytes: u64,
    /// Bytes that the daemon has offloaded since its start.
    pub offloaded_bytes: u64,
}

/// Shares and limits of a container, and the reasons for them.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Explanation {
    /// Its cgroup.
    pub cgroup: String,
    /// Its pool's name.
    pub name: String,
    /// Its class or priority.
    pub class: String,
    /// Whether it is enrolled.
    pub enrolled: bool,
    /// The verdict.
    pub verdict: Verdict,
    /// The verdict in words.
    pub reason: String,
    /// The tiers that keep its pages.
    #[serde(default)]
    pub store: StoreName,
    /// Its weight in the memory tier.
    pub weight: u32,
    /// Its entitlement in the memory tier, in bytes.
    pub share_bytes: Option<u64>,
    /// Bytes of the memory tier that it holds.
    pub used_bytes: Option<u64>,
    /// Its weight in the SSD tier; absent if it keeps no pages there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssd_weight: Option<u32>,
    /// The reason for that weight in words; absent if the file has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssd_reason: Option<String>,
    /// Its entitlement in the SSD tier, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssd_share_bytes: Option<u64>,
    /// Bytes of the SSD tier that it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssd_used_bytes: Option<u64>,
    /// The bytes that it needs for its target, if known.
    pub need_bytes: Option<u64>,
    /// The kind of memory that helps it.
    pub character: Character,
    /// Its goals with the measured values.
    pub goals: Vec<Goal>,
    /// Guest memory that it uses.
    pub memory_bytes: u64,
    /// Anonymous bytes of that.
    pub anon_bytes: u64,
    /// Whether policyd may change its limits of guest memory.
    #[serde(default)]
    pub manage_memory: bool,
    /// Limits of policyd that are in force.
    pub limits: Limits,
    /// Limits that others changed after policyd had set them, and that it leaves alone. `u64::MAX`
    /// stands for no limit.
    #[serde(default)]
    pub foreign_limits: Limits,
    /// The reason why less is protected than its `memory.low`; absent if all of it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unprotected: Option<Protection>,
}

impl Verdict {
    /// Returns the verdict in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::BestEffort => "no target: gets spare pages where they help most",
            Self::ByHand => "its weight is the one of the file",
            Self::Met => "target met",
            Self::Growing => "target missed: its share grows",
            Self::Infeasible => "target missed: not enough for all targets, so that classes decide",
            Self::Ceiling => "target missed: its share is at `cache_ceiling`",
            Self::NotFilled => "target missed: it does not fill its share",
            Self::NotHelped => {
                "target missed: a larger share of the store makes no difference; tried again later"
            }
            Self::Trying => "target missed: trying whether another share makes a difference",
            Self::NotAsked => {
                "target counts as met: fewer operations are requested, and no task waits"
            }
            Self::NoStore => "target missed: this VM has no share of a host's store",
            Self::NeedsMemory => "target missed: only guest memory can help it",
            Self::Unmeasured => "no figures: its share does not change",
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, unit) = self.figure.words();
        let bound = if self.figure.rises() {
            "at least"
        } else {
            "at most"
        };
        match self.measured {
            Some(measured) => write!(f, "{name} {}{unit}", number(measured))?,
            None => write!(f, "{name} unknown")?,
        }
        write!(f, ", should be {bound} {}{unit}", number(self.target))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(trouble) = &self.trouble {
            writeln!(f, "{}: weights do not change", printable(trouble))?;
        }
        for trouble in &self.not_open {
            writeln!(f, "{trouble}")?;
        }
        match self.store_bytes {
            Some(bytes) => write!(f, "the host gives this VM {}", size(bytes))?,
            None => write!(f, "no host: weights do not change")?,
        }
        match self.feasible {
            Some(true) => writeln!(f, "; all targets can be met")?,
            Some(false) => writeln!(f, "; NOT all targets can be met")?,
            None => writeln!(f)?,
        }
        if let Some(text) = self.excess_of_floors() {
            writeln!(f, "{text}: each floor is made smaller in proportion")?;
        }
        for one in &self.containers {
            write!(f, "\n{one}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}  ({}, {})",
            printable(&self.name),
            self.class,
            printable(&self.cgroup)
        )?;
        writeln!(f, "  {}", self.reason)?;
        for goal in &self.goals {
            writeln!(f, "  {goal}")?;
        }
        self.write_tiers(f)?;
        let mut limits = String::new();
        for (name, limit) in [
            ("low", self.limits.low),
            ("high", self.limits.high),
            ("max", self.limits.max),
        ] {
            if let Some(limit) = limit {
                // Writing to a string cannot fail.
                let _ = write!(limits, ", {name} {}", size(limit));
            }
        }
        writeln!(
            f,
            "  {} of guest memory, {} anonymous{limits}",
            size(self.memory_bytes),
            size(self.anon_bytes)
        )?;
        if let Some(found) = &self.unprotected {
            writeln!(
                f,
                "  memory.low protects {} only: that of {} is {}, and should be {} or more",
                size(found.bytes),
                printable(&found.ancestor),
                size(found.has),
                size(found.needs)
            )?;
        }
        let foreign = self.foreign_limits;
        for (name, limit) in [
            ("low", foreign.low),
            ("high", foreign.high),
            ("max", foreign.max),
        ] {
            let Some(limit) = limit else { continue };
            let limit = Some(limit).filter(|limit| *limit < u64::MAX);
            let limit = limit.map_or_else(|| "max".into(), size);
            writeln!(
                f,
                "  memory.{name} was changed to {limit} by others: policyd does not write \
                 it until it is changed back, or a reload"
            )?;
        }
        Ok(())
    }
}

impl Explanation {
    /// Writes its share of each tier in which it keeps pages.
    fn write_tiers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |bytes: Option<u64>| bytes.map_or_else(|| "?".into(), size);
        if self.store.0 != Store::Ssd {
            writeln!(
                f,
                "  weight {}: {} of the store, {} used, {} needed",
                self.weight,
                known(self.share_bytes),
                known(self.used_bytes),
                known(self.need_bytes)
            )?;
        }
        let Some(weight) = self.ssd_weight else {
            return Ok(());
        };
        writeln!(
            f,
            "  SSD weight {weight}: {} of the SSD tier, {} used",
            known(self.ssd_share_bytes),
            known(self.ssd_used_bytes)
        )?;
        match &self.ssd_reason {
            Some(reason) => writeln!(f, "  {reason}"),
            None => Ok(()),
        }
    }
}

/// Formats a number with its significant digits.
fn number(number: f64) -> String {
    match number.abs() {
        0.0 => "0".into(),
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 1.0 => format!("{number:.1}"),
        _ => format!("{number:.3}"),
    }
}

/// Formats a size.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(value < 10.0 && unit > 0);
    format!("{value:.digits$} {}", UNITS[unit])
}

/// Returns the reason for a verdict on a container in words.
pub(super) fn reason(
    container: &Container,
    verdict: Verdict,
    goals: &[Goal],
    has: Pages,
    need: Option<Pages>,
) -> String {
    let missing: Vec<&str> = goals
        .iter()
        .filter(|goal| goal.measured.is_none())
        .map(|goal| goal.figure.words().0)
        .collect();
    let bytes = |pages: Pages| size(pages.bytes());
    match (verdict, need) {
        (Verdict::Unmeasured, _) if !missing.is_empty() => {
            format!("{}: {} unknown", verdict.words(), missing.join(", "))
        }
        (Verdict::Infeasible | Verdict::Ceiling | Verdict::Growing, Some(need)) => format!(
            "{}; it has {} and would need about {}",
            verdict.words(),
            bytes(has),
            bytes(need)
        ),
        (Verdict::NeedsMemory, _) if !container.manage_memory => format!(
            "{}, and policyd never changes that without `manage_memory = true`",
            verdict.words()
        ),
        _ => verdict.words().into(),
    }
}

impl Figure {
    /// Returns the name in metrics and JSON.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Latency => "latency",
            Self::HitRatio => "hit_ratio",
            Self::RefaultRate => "refault_rate",
            Self::MemoryPressure => "memory_pressure",
            Self::IoPressure => "io_pressure",
        }
    }
}
