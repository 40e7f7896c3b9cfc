// SPDX-License-Identifier: GPL-2.0

//! `bench engine`: the index beside general-purpose caches.

use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};

use crate::workspace;

/// The index beside general-purpose caches, on this machine and without virtual machines
///
/// Takes about ten minutes and 8 GiB of memory, with `--quick` two minutes and 1 GiB. Leaves
/// target/bench-engine/result.json.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Leave the largest size (16 Mi pages) out
    #[arg(long)]
    quick: bool,
    /// Only this mix (may be given more than once): random, runs, zipf, scan, small-file, mixed
    #[arg(long = "mix")]
    mixes: Vec<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let mut command = Command::new(env!("CARGO"));
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
        bail!("the benchmark failed ({status})");
    }
    Ok(ExitCode::SUCCESS)
}
