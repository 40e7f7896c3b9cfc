// SPDX-License-Identifier: GPL-2.0-only

//! The results: `result.json`, `report.html`, and a summary.

use std::{fmt::Write as _, path::Path};

use anyhow::Result;
use ddlab::{Lab, Target, report};
use serde::Serialize;

use super::{
    break_even::BreakEven,
    measured::{MAX_STARVED_PERCENT, Measured, geometric_mean},
    page::comparison_page,
    way::Way,
    workload::{MEMORY_MIB, Workload},
};
use crate::{
    plan::{DISK, describe},
    report as pages, table,
};

/// Windows that may be measured again, in percent of all windows. Beyond that the machine is too
/// busy for a comparison.
const MAX_AGAIN_PERCENT: f64 = 50.0;

/// Ways compared.
#[derive(Debug, Serialize)]
pub struct Comparison {
    pub(crate) kernel: String,
    pub(crate) accelerator: String,
    pub(crate) disk: String,
    pub(crate) memory_mib: u64,
    /// Number of boots of the host that were repeated.
    boot_retries: usize,
    pub(crate) measured: Vec<Measured>,
    pub(crate) break_even: Vec<BreakEven>,
    targets: Vec<Target>,
}

impl Comparison {
    pub(crate) fn new(lab: &Lab, workloads: &[Workload], measured: Vec<Measured>) -> Self {
        let config = lab.config();
        let stage = Workload::One.stages(Way::DoubleDecker)[0].name;
        let others = Way::ALL.into_iter().filter(|way| *way != Way::DoubleDecker);
        let break_even: Vec<_> = others
            .filter_map(|way| BreakEven::new(&measured, stage, way))
            .collect();
        Self {
            kernel: config.artifacts.release.clone(),
            accelerator: config.accel.to_string(),
            disk: describe(DISK),
            memory_mib: MEMORY_MIB,
            boot_retries: lab.retries(),
            targets: targets(workloads, &measured, &break_even),
            measured,
            break_even,
        }
    }

    /// Returns the goals and their results.
    #[must_use]
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Writes `result.json` and `report.html`.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be written.
    pub fn write(&self, dir: &Path) -> Result<()> {
        report::write_json(&dir.join("result.json"), self)?;
        pages::write(dir, &comparison_page(self))
    }

    /// Returns a summary for a terminal.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = String::new();
        for stage in self.stages() {
            let _ = writeln!(text, "{stage}");
            for line in table::lines(HEAD, self.usual(stage).map(row), 1) {
                let _ = writeln!(text, "  {line}");
            }
            text.push('\n');
        }
        for even in &self.break_even {
            let _ = writeln!(text, "{}", even.describe());
        }
        let _ = write!(text, "\n{}", report::table(&self.targets));
        text
    }

    /// Returns the names of the stages, in order.
    pub(crate) fn stages(&self) -> Vec<&'static str> {
        let mut stages = Vec::new();
        for one in &self.measured {
            if !stages.contains(&one.stage) {
                stages.push(one.stage);
            }
        }
        stages
    }

    /// Returns the measurements of a stage on the usual disk.
    pub(crate) fn usual<'a>(&'a self, stage: &'a str) -> impl Iterator<Item = &'a Measured> {
        usual(&self.measured, stage)
    }

    /// Returns the requests of a way for each of another one.
    pub(crate) fn factor(&self, stage: &str, way: Way, other: Way) -> Option<f64> {
        factor(&self.measured, stage, way, other)
    }
}

/// Columns of a stage's table.
pub(crate) const HEAD: [&str; 11] = [
    "memory goes to",
    "requests/s",
    "p99 ms",
    "read MiB/s",
    "from disk",
    "avoided",
    "exits/page",
    "CPU us/page",
    "held MiB",
    "beside MiB",
    "starved %",
];

/// Returns the figures of a way for [`HEAD`].
pub(crate) fn row(one: &Measured) -> [String; 11] {
    let each = |value: fn(&super::measured::Rate) -> String| {
        let values: Vec<String> = one.containers.iter().map(value).collect();
        values.join(" / ")
    };
    let maybe = |value: Option<f64>, digits: usize| {
        value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let cost = &one.cost;
    [
        match one.variant {
            "" => one.way.name().to_owned(),
            variant => format!("{}, {variant}", one.way.name()),
        },
        each(|rate| format!("{:.0}", rate.operations_per_s)),
        each(|rate| {
            let p99 = rate.p99_ms;
            p99.map_or("-".to_owned(), |ms| format!("{ms:.0}"))
        }),
        format!("{:.2}", cost.read_mib_per_s),
        format!("{:.2}", cost.disk_mib_per_s),
        format!("{:.2}", cost.avoided_mib_per_s),
        maybe(cost.exits_per_page, 2),
        maybe(cost.cpu_us_per_page, 0),
        maybe(cost.held_mib, 1),
        format!("{:.1}", cost.beside_mib),
        format!("{:.0}", cost.starved_percent),
    ]
}

fn usual<'a>(measured: &'a [Measured], stage: &'a str) -> impl Iterator<Item = &'a Measured> {
    let all = measured.iter();
    all.filter(move |one| one.usual && one.stage == stage)
}

/// Returns the geometric mean over all pairs of the two ways' measurements, without variants.
fn factor(measured: &[Measured], stage: &str, way: Way, other: Way) -> Option<f64> {
    let compared = || usual(measured, stage).filter(|one| one.variant.is_empty());
    let all = |way| compared().filter(move |one| one.way == way);
    geometric_mean(all(way).flat_map(|own| all(other).map(|other| own.over(other))))
}

/// Returns the goals for these workloads: ahead of the page cache and of one FIFO everywhere, and
/// of memory in the guests when peaks differ. A figure that was not measured misses its goal.
fn targets(workloads: &[Workload], measured: &[Measured], break_even: &[BreakEven]) -> Vec<Target> {
    let mut targets = Vec::new();
    let stages = workloads.iter().flat_map(|workload| {
        let stages = workload.stages(Way::DoubleDecker).into_iter();
        let compared = stages.filter(|stage| stage.variant.is_empty());
        compared.map(|stage| (stage.name, *workload))
    });
    for (stage, workload) in stages {
        for other in [Way::Guests, Way::PageCache, Way::Fifo] {
            if other == Way::Guests && workload != Workload::Peaks {
                continue;
            }
            // A single container has no neighbour from which it must be protected.
            let least = match (workload, other) {
                (Workload::One, Way::Fifo) => 0.95,
                _ => 1.0,
            };
            targets.push(Target::at_least(
                format!("{stage}: requests, DoubleDecker over {}", other.name()),
                least,
                factor(measured, stage, Way::DoubleDecker, other),
                "x",
            ));
        }
    }
    if workloads.contains(&Workload::One) {
        let what = "one container: the same, the least on disks of all speeds";
        let against = Way::PageCache;
        let even = break_even.iter().find(|even| even.against == against);
        targets.push(Target::at_least(
            format!("{what}, over {}", against.name()),
            1.0,
            even.map(BreakEven::least),
            "x",
        ));
    }
    targets.extend([quiet(measured), repeated(measured)]);
    targets
}

/// Returns the target for windows that were measured again because the host was starved.
fn repeated(measured: &[Measured]) -> Target {
    let windows = measured.len();
    let again: usize = measured.iter().map(|one| one.tries.saturating_sub(1)).sum();
    let part = (windows > 0).then(|| 100.0 * again as f64 / windows as f64);
    let cold = measured.iter().filter(|one| !one.warm).count();
    Target::at_most(
        "windows that were measured again because the host waited for a processor, of all",
        MAX_AGAIN_PERCENT,
        part,
        "%",
    )
    .detail(format!(
        "{again} for {windows} windows, of which {cold} began before the caches were warm"
    ))
}

/// Returns the target for the host's own wait for a processor during measurements.
fn quiet(measured: &[Measured]) -> Target {
    let starved = measured.iter().map(|one| one.cost.starved_percent);
    Target::at_most(
        "time in which the host itself waited for a processor, the most",
        MAX_STARVED_PERCENT,
        starved.reduce(f64::max),
        "%",
    )
}

/// Returns a possible comparison, for tests of its presentation.
#[cfg(test)]
pub(super) fn sample() -> Comparison {
    use super::measured::sample;

    let mut measured = Vec::new();
    for (number, way) in (1_u32..).zip(Way::ALL) {
        let rate = f64::from(number) * 10.0;
        measured.push(sample(way, "one container", 50, &[rate]));
        let mut fast = sample(way, "one container", 500, &[60.0 - rate]);
        fast.usual = false;
        measured.push(fast);
        for stage in ["east's peak", "west's peak"] {
            let mut peak = sample(way, stage, 50, &[rate]);
            peak.workload = Workload::Peaks;
            measured.push(peak);
        }
    }
    let against = [Way::Guests, Way::PageCache];
    let break_even: Vec<_> = against
        .into_iter()
        .filter_map(|way| BreakEven::new(&measured, "one container", way))
        .collect();
    Comparison {
        kernel: "7.2.12".to_owned(),
        accelerator: "tcg".to_owned(),
        disk: describe(DISK),
        memory_mib: MEMORY_MIB,
        boot_retries: 0,
        targets: targets(SAMPLED, &measured, &break_even),
        measured,
        break_even,
    }
}

/// The workloads of [`sample`].
#[cfg(test)]
const SAMPLED: &[Workload] = &[Workload::One, Workload::Peaks];

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::bench::measured::sample as measured_sample;

    #[test]
    fn goals_name_stage_and_way() {
        let comparison = sample();
        let names: Vec<_> = comparison.targets().iter().map(|one| &one.name).collect();
        assert_eq!(names.len(), 11, "{names:?}");
        assert!(comparison.targets()[..8].iter().all(|target| target.met));
        assert!(!comparison.targets()[8].met);
        let factor = comparison.factor("one container", Way::DoubleDecker, Way::PageCache);
        assert!((factor.unwrap() - 2.0).abs() < 1e-9);
    }

    /// A workload that was chosen has all its goals, whatever was measured.
    #[test]
    fn what_was_not_measured_is_missed() {
        let all = sample();
        let missed = |workloads: &[Workload], measured: &[Measured]| {
            let targets = targets(workloads, measured, &[]);
            let missed = targets.iter().filter(|one| one.measured == "not measured");
            (targets.len(), missed.filter(|one| !one.met).count())
        };
        assert_eq!(missed(&Workload::ALL, &[]), (13, 13));
        assert_eq!(missed(&[Workload::Mix], &[]), (4, 4));
        // Two goals of the mix, and the sweep, which is passed separately.
        assert_eq!(missed(&Workload::ALL, &all.measured), (13, 3));
        let fewer = all.measured.iter().filter(|one| one.way != Way::Fifo);
        let fewer: Vec<Measured> = fewer.cloned().collect();
        assert_eq!(missed(&[Workload::Peaks], &fewer), (8, 2));
    }

    #[test]
    fn repeated_windows_are_counted() {
        let mut measured = [(); 4].map(|()| measured_sample(Way::Fifo, "a", 50, &[1.0]));
        let of = |measured: &[Measured]| {
            let target = repeated(measured);
            (target.measured, target.met)
        };
        assert_eq!(of(&measured), ("0 %".to_owned(), true));
        measured[0].tries = 3;
        assert_eq!(of(&measured), ("50 %".to_owned(), true));
        measured[1].tries = 2;
        measured[1].warm = false;
        assert_eq!(of(&measured), ("75 %".to_owned(), false));
        let detail = repeated(&measured).detail.unwrap();
        assert_eq!(
            detail,
            "3 for 4 windows, of which 1 began before the caches were warm"
        );
    }

    #[test]
    fn a_way_is_compared_with_all_measurements_of_another() {
        let ways = [
            (Way::Fifo, 10.0),
            (Way::DoubleDecker, 20.0),
            (Way::Fifo, 40.0),
        ];
        let measured = ways.map(|(way, rate)| measured_sample(way, "a", 50, &[rate]));
        let by = factor(&measured, "a", Way::DoubleDecker, Way::Fifo);
        assert!((by.unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(factor(&measured, "a", Way::DoubleDecker, Way::Guests), None);
    }

    #[test]
    fn results_are_written_and_summarised() {
        let comparison = sample();
        let text = comparison.summary();
        assert!(text.contains("east's peak\n"), "{text}");
        assert!(text.contains("even with host's page cache"), "{text}");
        let dir = tempfile::tempdir().unwrap();
        comparison.write(dir.path()).unwrap();
        let text = fs::read_to_string(dir.path().join("result.json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["measured"][0]["way"], "guests");
        assert!(json["targets"][0]["met"].is_boolean());
        assert_eq!(json["break_even"][0]["crossing"]["kind"], "at");
    }
}
