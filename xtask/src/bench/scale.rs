// SPDX-License-Identifier: GPL-2.0-only

//! `bench scale`: measures the host's engine with many VMs and pools.

use anyhow::{Context as _, Result, bail};

use super::instructions;
use crate::workspace;

/// Measure the host's engine with 1 to 1000 VMs of 1 to 100 pools, without virtual machines
///
/// Takes about five minutes and 4 GiB of memory. Writes target/bench-scale/result.json.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Pages of the tier
    #[arg(long, default_value_t = 1 << 22)]
    pages: u64,
    /// Count instructions in an emulated machine (4 Mi pages), whose number is the same on any
    /// machine; writes target/bench-scale/instructions.json
    #[arg(long, conflicts_with = "pages")]
    instructions: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<bool> {
    if args.instructions {
        let mut words = vec!["scale", "--pages", "4194304", "--rounds", "1"];
        if args.json {
            words.push("--json");
        }
        return instructions::count("bench-scale", &words);
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
            "scale",
        ])
        .arg("--out")
        .arg(workspace::target().join("bench-scale"))
        .args(["--pages", &args.pages.to_string()])
        // The kernel maps its memory with huge pages.
        .env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");
    if args.json {
        command.arg("--json");
    }
    let status = command.status().context("cannot run cargo")?;
    if !status.success() {
        bail!("the benchmark failed, or missed a target ({status})");
    }
    Ok(true)
}
