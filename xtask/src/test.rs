// SPDX-License-Identifier: GPL-2.0

//! `test`: every test there is.

mod cargo;
mod vm;

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::ValueEnum;
use ddlab::{Accel, Target, report};
use serde::Serialize;

use crate::{suite::KernelArgs, workspace};

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
    /// List what would run
    #[arg(long)]
    list: bool,
    /// Accelerator of the host machine: kvm, tcg or auto
    #[arg(long, default_value = "auto")]
    accel: Accel,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Build neither modules nor tools (for work on the lab itself)
    #[arg(long)]
    bare: bool,
    #[command(flatten)]
    kernel: KernelArgs,
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

/// One test and what came of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Test {
    layer: &'static str,
    name: String,
    passed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// `result.json`.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Outcome {
    targets: Vec<Target>,
    tests: Vec<Test>,
}

impl Outcome {
    fn failed(&self) -> usize {
        self.tests.iter().filter(|test| !test.passed).count()
    }

    /// The last line of every run.
    fn verdict(&self) -> String {
        let failed = self.failed();
        format!("{} passed, {failed} failed", self.tests.len() - failed)
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.layer != Some(Layer::Vm) && !args.scenarios.is_empty() {
        bail!(
            "scenarios are of the vm layer: cargo xtask test vm {}",
            args.scenarios.join(" ")
        );
    }
    let layers = match args.layer {
        Some(layer) => vec![layer],
        None => vec![Layer::Unit, Layer::Cli, Layer::Vm],
    };
    let mut outcome = Outcome::default();
    for layer in layers {
        if args.list {
            list(layer, args)?;
            continue;
        }
        match layer {
            Layer::Unit => cargo::unit(&mut outcome)?,
            Layer::Cli => cargo::cli(&mut outcome)?,
            Layer::Vm => vm::run(args, &mut outcome)?,
        }
    }
    if args.list {
        return Ok(ExitCode::SUCCESS);
    }
    finish(args, &outcome)
}

fn list(layer: Layer, args: &Args) -> Result<()> {
    match layer {
        Layer::Unit => println!("unit: tests of every crate (cargo test)"),
        Layer::Cli => println!("cli: integration tests of ddctl and policyd (cargo test)"),
        Layer::Vm => vm::list(args)?,
    }
    Ok(())
}

fn finish(args: &Args, outcome: &Outcome) -> Result<ExitCode> {
    let path = workspace::target().join("test/result.json");
    report::write_json(&path, outcome)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(outcome)?);
    } else {
        print!("{}", report::table(&outcome.targets));
    }
    for test in outcome.tests.iter().filter(|test| !test.passed) {
        let error = test.error.as_deref().unwrap_or("see above");
        eprintln!("FAILED {} {}: {error}", test.layer, test.name);
    }
    let verdict = outcome.verdict();
    if args.json {
        eprintln!("{verdict}");
    } else {
        println!("{verdict}");
    }
    Ok(match outcome.failed() {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}
