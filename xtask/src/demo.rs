// SPDX-License-Identifier: GPL-2.0-only

//! `demo`: shows the cache at work, live.

use anyhow::Result;
use ddlab::report;

use crate::{
    cache,
    image::{self, Content},
    package,
    suite::KernelArgs,
    workspace,
};

/// Show containers and VMs share a cache, live
///
/// Boots a KVM host with two VMs, loads the modules under five running servers, changes weights on
/// both levels, and writes target/demo/report.html and target/demo/result.json.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    kernel: KernelArgs,
    /// Accelerator of the host machine: kvm, tcg or auto
    #[arg(long, default_value = "auto")]
    accel: ddlab::Accel,
    /// Continue with the paper's experiments (figures 13 and 14, global FIFO); takes some minutes
    /// more
    #[arg(long)]
    figures: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    package::install_missing()?;
    let artifacts = image::artifacts(&args.kernel, args.accel, Content::ALL)?;
    // Two labs at a time would starve each other.
    let _lock = cache::lock("vm.lock")?;
    let dir = workspace::target().join("demo");
    let outcome = dddemo::run(
        &artifacts,
        &dddemo::Options {
            accel: args.accel,
            dir: dir.clone(),
            figures: args.figures,
        },
    )?;
    outcome.write(&dir)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&outcome)?);
    } else {
        println!("\n{}", outcome.summary());
    }
    eprintln!("report: {}", dir.join("report.html").display());
    Ok(report::all_met(outcome.targets()))
}
