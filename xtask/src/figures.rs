// SPDX-License-Identifier: GPL-2.0-only

//! `figures`: policies and the papers' experiments in the simulator.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context as _, Result, bail};
use ddlab::{Target, report};
use serde_json::Value;

use crate::{progress, workspace};

/// Document of the papers' figures, relative to the top of the tree.
const DOCUMENT: &str = "docs/developers/papers.md";

/// Replay the papers' experiments and judge the policies
///
/// Runs the cache's own decisions in a simulator at the papers' sizes, which needs neither root
/// nor VMs, and writes target/figures/report.html and target/figures/result.json. The same source
/// gives the same figures.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A recorded block trace (CSV, compressed or not) for the policy table; without it, the rows
    /// of recorded traces are left out
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print the numbers of one group of experiments only: cooperative, splits, motivation,
    /// flexible, modes, dynamic, unicache or hybrid
    #[arg(long, value_name = "NAME", conflicts_with_all = ["trace", "json"])]
    group: Option<OsString>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    let dir = workspace::target().join("figures");
    progress::step("build the simulator", || cargo("build", &[]))?;
    if let Some(group) = &args.group {
        cargo("run", &["group".into(), group.clone()])?;
        return Ok(true);
    }
    let start = Instant::now();
    progress::step("experiments and policies", || {
        simulate(&dir, args.trace.as_deref())
    })?;
    let took_s = start.elapsed().as_secs_f64();

    let path = dir.join("result.json");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let result: Value = serde_json::from_str(&text)?;
    let mut targets: Vec<Target> = serde_json::from_value(result["targets"].clone())?;
    targets.push(documented(&dir)?);
    let aims: Vec<Target> = serde_json::from_value(result["aims"].clone())?;
    if args.json {
        print!("{text}");
    } else {
        println!("{}", report::table(&targets));
    }
    // What is declared as not reproduced does not fail a run, and must not look reached.
    for aim in aims.iter().filter(|aim| !aim.met) {
        eprintln!(
            "aim that is not reached: {}: {}, {}",
            aim.name, aim.target, aim.measured
        );
    }
    if args.trace.is_none() {
        eprintln!("no --trace: rows of recorded traces are left out, the generated one is judged");
    }
    eprintln!("took {took_s:.0} s");
    eprintln!("report: {}", dir.join("report.html").display());
    Ok(targets.iter().all(|target| target.met))
}

/// Returns whether the document is the same as the run's output.
fn documented(dir: &Path) -> Result<Target> {
    let read = |path: &Path| {
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    let ours = dir.join("papers.md");
    let (run, document) = (read(&ours)?, read(&workspace::top().join(DOCUMENT))?);
    let differ = run.lines().zip(document.lines()).filter(|(a, b)| a != b);
    let lines = differ.count() + run.lines().count().abs_diff(document.lines().count());
    let name = format!("lines of {DOCUMENT} that differ from {}", ours.display());
    Ok(Target::at_most(name, 0.0, lines as f64, "lines"))
}

fn simulate(dir: &Path, trace: Option<&Path>) -> Result<()> {
    let mut arguments = vec!["figures".into(), dir.as_os_str().to_owned()];
    if let Some(trace) = trace {
        arguments.extend(["--trace".into(), trace.as_os_str().to_owned()]);
    }
    cargo("run", &arguments)
}

/// Runs cargo on the simulator, which is a separate program because it has to be optimised.
fn cargo(verb: &str, arguments: &[OsString]) -> Result<()> {
    let mut command = workspace::cargo();
    command
        .arg(verb)
        .args(["--quiet", "--release", "--package", "ddpapers"]);
    if !arguments.is_empty() {
        command.arg("--").args(arguments);
    }
    let status = command.status().context("cannot run cargo")?;
    if !status.success() {
        bail!("the simulator failed ({status})");
    }
    Ok(())
}
