// SPDX-License-Identifier: GPL-2.0-only

//! `bench engine`: compares the index with general-purpose caches.

use anyhow::{Context as _, Result, bail};

use super::instructions;
use crate::workspace;

/// Compare the index with general-purpose caches, on this machine and without virtual machines
///
/// Takes about a quarter of an hour and 16 GiB of memory, with `--quick` three minutes and 2 GiB.
/// Writes target/bench-engine/result.json.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Leave the largest size (16 Mi pages) out
    #[arg(long)]
    quick: bool,
    /// Count instructions in an emulated machine (64 Ki pages), whose number is the same on any
    /// machine; writes target/bench-engine/instructions.json
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
        .args([
            "run",
            "--quiet",
            "--release",
            "--package",
            "ddbench",
            "--",
            "engine",
        ])
        .arg("--out")
        .arg(workspace::target().join("bench-engine"))
        // The kernel maps its memory with huge pages, so that all candidates use them.
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

/// Runs the benchmark in an emulated machine whose clock counts instructions.
fn count(args: &Args) -> Result<bool> {
    let mut words = vec!["engine", "--lean", "--pages", "65536"];
    for mix in &args.mixes {
        words.extend(["--mix", mix]);
    }
    if args.json {
        words.push("--json");
    }
    instructions::count("bench-engine", &words)
}
