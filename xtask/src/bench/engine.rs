// SPDX-License-Identifier: GPL-2.0

//! `bench engine`: the index beside general-purpose caches.

use std::fs;

use anyhow::{Context as _, Result, bail};
use ddlab::{Accel, Lab, LabConfig};

use crate::{
    cache,
    image::{self, Content},
    package,
    suite::KernelArgs,
    workspace,
};

/// Where the benchmark leaves its result inside a machine.
const INSIDE: &str = "/run/bench";

/// The index beside general-purpose caches, on this machine and without virtual machines
///
/// Takes about a quarter of an hour and 16 GiB of memory, with `--quick` three minutes and 2 GiB. Leaves
/// target/bench-engine/result.json.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Leave the largest size (16 Mi pages) out
    #[arg(long)]
    quick: bool,
    /// Count instructions in an emulated machine (64 Ki pages), which is the same on any machine;
    /// leaves target/bench-engine/instructions.json
    #[arg(long, conflicts_with = "quick")]
    instructions: bool,
    /// Only this mix (may be given more than once): random, runs, unaligned, parts, zipf, scan, small-file, mixed
    #[arg(long = "mix")]
    mixes: Vec<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<bool> {
    if args.instructions {
        return count(args);
    }
    let mut command = workspace::cargo();
    command
        .args(["run", "--quiet", "--release", "--package", "ddbench", "--"])
        .arg("--out")
        .arg(workspace::target().join("bench-engine"))
        // The kernel maps its memory with huge pages; so do all that are compared.
        .env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");
    if args.quick {
        command.arg("--quick");
    }
    if args.json {
        command.arg("--json");
    }
    for mix in &args.mixes {
        command.args(["--mix", mix]);
    }
    let status = command.status().context("cannot run cargo")?;
    if !status.success() {
        bail!("the benchmark failed, or missed a target ({status})");
    }
    Ok(true)
}

/// Runs it in an emulated machine whose clock counts instructions.
fn count(args: &Args) -> Result<bool> {
    package::install_missing()?;
    let _lock = cache::lock("vm.lock")?;
    let artifacts = image::artifacts(&KernelArgs::default(), Accel::Tcg, Content::Bench)?;
    let dir = workspace::target().join("bench-engine");
    let lab = Lab::boot(LabConfig {
        accel: Accel::Tcg,
        vcpus: 1,
        slots: 0,
        count_instructions: true,
        ..LabConfig::new(artifacts, dir.join("machine"))
    })?;
    let mut words = vec!["ddbench", "--lean", "--pages", "65536", "--out", INSIDE];
    for mix in &args.mixes {
        words.extend(["--mix", mix]);
    }
    if args.json {
        words.push("--json");
    }
    eprintln!("each nanosecond below is an instruction");
    println!("{}", lab.host().exec_ok(words)?);
    let result = lab
        .host()
        .exec_ok(["cat", &format!("{INSIDE}/result.json")])?;
    let path = dir.join("instructions.json");
    fs::write(&path, result).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(true)
}
