// SPDX-License-Identifier: GPL-2.0-only

//! `bench host`: compares DoubleDecker with current practice.

use anyhow::Result;
use dddemo::bench::{self, Options, Workload};
use ddlab::report;

use crate::{
    cache,
    image::{self, Content},
    package,
    suite::KernelArgs,
    workspace,
};

/// Spend the same memory of a host in four ways on its guests' files
///
/// Boots a KVM host and gives memory to the guests, to the host's page cache (cache=writeback), to
/// one FIFO for all, and to DoubleDecker. Takes about four minutes for each workload under
/// emulation; writes target/bench-host/result.json and report.html.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    kernel: KernelArgs,
    /// Accelerator of the host machine: kvm, tcg or auto
    #[arg(long, default_value = "auto")]
    accel: ddlab::Accel,
    /// Only this workload (may be given more than once): one, mix or peaks
    #[arg(long = "workload")]
    workloads: Vec<Workload>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<bool> {
    package::install_missing()?;
    let artifacts = image::artifacts(&args.kernel, args.accel, Content::ALL)?;
    // Two labs at a time would starve each other.
    let _lock = cache::lock("vm.lock")?;
    let dir = workspace::target().join("bench-host");
    let wanted = |one: &Workload| args.workloads.is_empty() || args.workloads.contains(one);
    let comparison = bench::run(
        &artifacts,
        &Options {
            accel: args.accel,
            dir: dir.clone(),
            workloads: Workload::ALL.into_iter().filter(wanted).collect(),
        },
    )?;
    comparison.write(&dir)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&comparison)?);
    } else {
        println!("\n{}", comparison.summary());
    }
    eprintln!("report: {}", dir.join("report.html").display());
    Ok(report::all_met(comparison.targets()))
}
