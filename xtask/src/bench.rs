// SPDX-License-Identifier: GPL-2.0-only

//! `bench`: measures costs, and compares them with alternatives.

mod engine;
mod flash;
mod host;
mod instructions;
mod policyd;
mod scale;
mod tiers;

use anyhow::{Context as _, Result, bail};
use clap::Subcommand;

use crate::workspace;

/// Measure costs and compare them with alternatives
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Debug, Subcommand)]
enum Subject {
    Engine(engine::Args),
    Flash(flash::Args),
    Host(host::Args),
    Policyd(policyd::Args),
    Scale(scale::Args),
    Tiers(tiers::Args),
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    match &args.subject {
        Subject::Engine(args) => engine::run(args),
        Subject::Flash(args) => flash::run(args),
        Subject::Host(args) => host::run(args),
        Subject::Policyd(args) => policyd::run(args),
        Subject::Scale(args) => scale::run(args),
        Subject::Tiers(args) => tiers::run(args),
    }
}

/// Runs `ddbench` with features on this machine, optimised, with its results in a folder
/// of `target`.
fn measure(folder: &str, features: &str, arguments: &[&str]) -> Result<bool> {
    let status = workspace::cargo()
        .args(["run", "--quiet", "--release", "--package", "ddbench"])
        .args(["--features", features, "--"])
        .args(arguments)
        .arg("--out")
        .arg(workspace::target().join(folder))
        // The kernel maps its memory with huge pages, so that all candidates use them.
        .env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("the benchmark failed, or missed a target ({status})");
    }
    Ok(true)
}
