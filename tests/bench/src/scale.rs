// SPDX-License-Identifier: GPL-2.0-only

//! The host's engine with many VMs and pools: `cargo xtask bench scale`.
//!
//! - [`population`]: a full tier that many VMs share; [`lock`]: locks that measure how long
//!   they are held; [`course`]: the operations that are timed;
//! - [`outcome`]: the report and its targets.

mod course;
mod lock;
mod outcome;
mod population;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;

use crate::report;

/// Numbers of VMs.
const VMS: [u64; 4] = [1, 10, 100, 1000];

/// Numbers of pools of each VM.
const POOLS: [u64; 3] = [1, 10, 100];

/// Measures the host's engine with many VMs and pools
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Pages of the tier
    #[arg(long, default_value_t = 1 << 22)]
    pages: u64,
    /// Only these numbers of VMs
    #[arg(long = "vms")]
    vms: Vec<u64>,
    /// Only these numbers of pools of each VM
    #[arg(long = "pools")]
    pools: Vec<u64>,
    /// Rounds of each case, after one for warming up
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Folder for the result
    #[arg(long, default_value = "target/bench-scale")]
    out: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let chosen = |all: &[u64], chosen: &[u64]| match chosen {
        [] => all.to_vec(),
        chosen => chosen.to_vec(),
    };
    let mut samples = Vec::new();
    for vms in chosen(&VMS, &args.vms) {
        for pools in chosen(&POOLS, &args.pools) {
            let size = course::Size {
                vms,
                pools,
                pages: args.pages,
            };
            samples.push(course::run(size, args.rounds));
        }
    }
    let outcome = outcome::Outcome::new(args.pages, samples);
    report::show(&args.out, args.json, &outcome, || outcome.summary())?;
    Ok(report::exit(ddlab::report::all_met(&outcome.targets)))
}
