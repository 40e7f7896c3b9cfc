// SPDX-License-Identifier: GPL-2.0

//! `vm`: a host and a guest to play in.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::suite::KernelArgs;

/// Boot a host with a guest and give me a shell
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    kernel: KernelArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    bail!("not there yet ({args:?})");
}
