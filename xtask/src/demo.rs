// SPDX-License-Identifier: GPL-2.0

//! `demo`: the cache at work, live.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::suite::KernelArgs;

/// Show two containers share a cache, live
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    kernel: KernelArgs,
    /// Accelerator of the host machine: kvm, tcg or auto
    #[arg(long, default_value = "auto")]
    accel: ddlab::Accel,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    bail!("the demo is not there yet ({args:?})");
}
