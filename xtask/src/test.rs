// SPDX-License-Identifier: GPL-2.0-only

//! `test`: runs all tests.

mod cargo;
mod libtest;
mod record;
mod vm;

use std::{num::NonZeroUsize, time::Instant};

use anyhow::{Result, bail};
use clap::ValueEnum;
use ddlab::{Accel, Target, report};
use serde::Serialize;

use crate::{suite::KernelArgs, workspace};

pub(crate) use vm::is_scenario;

/// Run the tests
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Layer to run; all of them when not given
    layer: Option<Layer>,
    /// Scenarios of the vm layer to run; all of them when not given
    #[arg(requires = "layer")]
    scenarios: Vec<String>,
    /// Run the quick subset
    #[arg(long)]
    quick: bool,
    /// Also run the scenarios that otherwise run by name only (hours), except those that need
    /// another kernel; implies --record
    #[arg(long, conflicts_with_all = ["quick", "scenarios"])]
    all: bool,
    /// Add the result of each scenario to docs/results/scenarios.json when it ends, with the commit
    /// and the date
    #[arg(long)]
    pub(crate) record: bool,
    /// Also run this number of them in their short form; others after each commit
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["all", "quick", "scenarios"])]
    rotate: Option<usize>,
    /// List the tests that would run
    #[arg(long)]
    list: bool,
    /// Accelerator of the host machine: kvm, tcg or auto
    #[arg(long, default_value = "auto")]
    pub(crate) accel: Accel,
    /// Labs that run scenarios in parallel; as many as the machine can carry when not given
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Build neither modules nor tools, for work on the lab itself
    #[arg(long)]
    bare: bool,
    #[command(flatten)]
    pub(crate) kernel: KernelArgs,
}

impl Args {
    /// Returns the arguments that run one scenario.
    pub(crate) fn of_scenario(name: &str) -> Self {
        Self {
            layer: Some(Layer::Vm),
            scenarios: vec![name.to_owned()],
            quick: false,
            all: false,
            record: false,
            rotate: None,
            list: false,
            accel: Accel::Auto,
            jobs: None,
            json: false,
            bare: false,
            kernel: KernelArgs::default(),
        }
    }
}

/// A layer of tests, cheapest first.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Layer {
    /// Tests of every crate
    Unit,
    /// The tools as their users call them
    Cli,
    /// Scenarios on real kernels
    Vm,
}

impl Layer {
    fn name(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Cli => "cli",
            Self::Vm => "vm",
        }
    }
}

/// A test and its result.
#[derive(Clone, Debug, Serialize)]
struct Test {
    layer: &'static str,
    name: String,
    passed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A test in the list.
#[derive(Clone, Debug, Serialize)]
struct Listed {
    layer: &'static str,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    about: Option<String>,
    /// Whether it is in the quick subset.
    quick: bool,
}

impl Listed {
    fn new(layer: Layer, name: String) -> Self {
        Self {
            layer: layer.name(),
            name,
            about: None,
            quick: true,
        }
    }
}

/// The content of `result.json`.
#[derive(Debug, Default, Serialize)]
struct Outcome {
    /// `uname -r` of the scenarios' kernel, if it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    release: Option<String>,
    passed: usize,
    failed: usize,
    /// Scenarios that were not run.
    not_run: Vec<&'static str>,
    /// Number of boots of L1 that were repeated.
    boot_retries: usize,
    seconds: f64,
    targets: Vec<Target>,
    tests: Vec<Test>,
    /// Targets of the run itself, which no test judges.
    #[serde(skip)]
    of_run: Vec<Target>,
}

impl Outcome {
    /// Adds a test that failed.
    fn fail(&mut self, layer: Layer, name: &str, error: &str) {
        self.tests.push(Test {
            layer: layer.name(),
            name: name.to_owned(),
            passed: false,
            seconds: None,
            error: Some(error.to_owned()),
        });
    }

    /// Records that a layer cannot run.
    fn give_up(&mut self, layer: Layer, error: &anyhow::Error) {
        let error = format!("{error:#}");
        eprintln!("{error}");
        self.fail(layer, "preparation", &error);
    }

    /// Computes the totals at the end.
    fn close(&mut self, start: Instant) {
        self.targets.splice(..0, self.of_run.iter().cloned());
        self.failed = self.tests.iter().filter(|test| !test.passed).count();
        self.passed = self.tests.len() - self.failed;
        self.seconds = start.elapsed().as_secs_f64();
    }

    /// Returns the last line of a run.
    fn verdict(&self) -> String {
        let mut verdict = format!("{} passed, {} failed", self.passed, self.failed);
        match self.not_run.len() {
            0 => {}
            1 => verdict += ", 1 scenario not run",
            more => verdict += &format!(", {more} scenarios not run"),
        }
        for target in self.missed() {
            let (name, measured, limit) = (&target.name, &target.measured, &target.target);
            verdict += &format!(", target missed: {name}: {measured} instead of {limit}");
        }
        verdict
    }

    /// Returns the missed targets of the run itself. A scenario with a missed target has failed,
    /// and is counted as a test.
    fn missed(&self) -> impl Iterator<Item = &Target> {
        self.of_run.iter().filter(|target| !target.met)
    }

    /// Returns whether all tests passed, there was at least one, and the run met its own targets.
    fn is_good(&self) -> bool {
        self.failed == 0 && self.passed > 0 && self.missed().next().is_none()
    }
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    if args.layer != Some(Layer::Vm) && !args.scenarios.is_empty() {
        bail!(
            "scenarios are of the vm layer: cargo xtask test vm {}",
            args.scenarios.join(" ")
        );
    }
    // A mistyped name is reported before anything runs.
    let scenarios = vm::selected(args)?;
    let wanted = |layer: &Layer| args.layer.is_none_or(|only| only == *layer);
    let cargo: Vec<Layer> = [Layer::Unit, Layer::Cli]
        .into_iter()
        .filter(wanted)
        .collect();
    let vm = wanted(&Layer::Vm);
    if args.list {
        let mut listed = match cargo.as_slice() {
            [] => Vec::new(),
            layers => cargo::list(layers)?,
        };
        if vm {
            listed.extend(vm::list(&scenarios));
        }
        return show(args, &listed);
    }
    let start = Instant::now();
    let mut outcome = Outcome::default();
    if let Some(&first) = cargo.first() {
        if let Err(error) = cargo::run(&cargo, &mut outcome) {
            outcome.give_up(first, &error);
        }
    }
    outcome.not_run = vm::not_run(vm, &scenarios);
    if vm {
        if let Err(error) = vm::run(args, &scenarios, &mut outcome) {
            outcome.give_up(Layer::Vm, &error);
        }
    }
    outcome.close(start);
    finish(args, &outcome)
}

fn show(args: &Args, listed: &[Listed]) -> Result<bool> {
    if args.json {
        println!("{}", serde_json::to_string_pretty(listed)?);
        return Ok(true);
    }
    for Listed {
        layer,
        name,
        about,
        quick,
    } in listed
    {
        let about = about.as_ref().map_or(String::new(), |about| {
            format!(": {about}{}", if *quick { " (quick)" } else { "" })
        });
        println!("{layer} {name}{about}");
    }
    Ok(true)
}

fn finish(args: &Args, outcome: &Outcome) -> Result<bool> {
    let path = workspace::target().join("test/result.json");
    report::write_json(&path, outcome)?;
    for test in outcome.tests.iter().filter(|test| !test.passed) {
        let error = gist(test.error.as_deref().unwrap_or("no reason given"));
        eprintln!("FAILED {} {}: {error}", test.layer, test.name);
    }
    let verdict = outcome.verdict();
    if args.json {
        println!("{}", serde_json::to_string_pretty(outcome)?);
        eprintln!("{verdict}");
    } else {
        print!("{}", report::table(&outcome.targets));
        println!("{verdict}");
    }
    Ok(outcome.is_good())
}

/// Returns the most informative line of an error: the message of a panic, or the first line.
fn gist(error: &str) -> &str {
    let mut lines = error.lines().filter(|line| !line.trim().is_empty());
    lines
        .clone()
        .skip_while(|line| !line.contains(" panicked at "))
        .nth(1)
        .or_else(|| lines.next())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gist_is_the_panic_message() {
        let panic = "said\n\nthread 'a' panicked at a.rs:1:1:\nleft != right\nnote: no";
        assert_eq!(gist(panic), "left != right");
        assert_eq!(gist("L1 died\nits console"), "L1 died");
        assert_eq!(gist(""), "");
    }

    #[test]
    fn a_run_without_tests_fails() {
        let mut outcome = Outcome::default();
        outcome.close(Instant::now());
        assert!(!outcome.is_good());
        outcome.fail(Layer::Vm, "boot", "no");
        outcome.close(Instant::now());
        assert_eq!(outcome.verdict(), "0 passed, 1 failed");
        outcome.not_run = vec!["a", "b"];
        let verdict = outcome.verdict();
        assert_eq!(verdict, "0 passed, 1 failed, 2 scenarios not run");
        assert!(!outcome.is_good());
    }

    /// Returns the outcome of a run whose only scenario passed after these repeated boots.
    fn after_retries(retries: usize) -> Outcome {
        let mut outcome = Outcome::default();
        outcome.tests.push(Test {
            layer: Layer::Vm.name(),
            name: "boot".to_owned(),
            passed: true,
            seconds: None,
            error: None,
        });
        vm::count_retries(retries, &mut outcome);
        outcome.close(Instant::now());
        outcome
    }

    #[test]
    fn a_missed_target_of_the_run_fails_it() {
        let good = after_retries(3);
        assert!(good.is_good());
        assert_eq!(good.verdict(), "1 passed, 0 failed");
        let bad = after_retries(4);
        assert!(!bad.is_good());
        assert_eq!(
            bad.verdict(),
            "1 passed, 0 failed, target missed: boots of L1 that gave no sign of life and were \
             tried again: 4 instead of ≤ 3"
        );
        // The table and the file show it too.
        assert_eq!((bad.boot_retries, bad.targets.len()), (4, 1));
    }
}
