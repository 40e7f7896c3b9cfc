// SPDX-License-Identifier: GPL-2.0

//! `build`: modules and tools.

use std::process::ExitCode;

use anyhow::Result;

use crate::{modules, package, suite::KernelArgs, tools, tree::Kernel};

/// Build the kernel modules and the tools
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    kernel: KernelArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    package::install_missing()?;
    let kernel = Kernel::prepare(&args.kernel)?;
    let modules = modules::build(&kernel)?;
    let tools = tools::build(tools::ALL)?;
    println!("modules: {}", modules.display());
    println!("tools:   {}", tools.display());
    Ok(ExitCode::SUCCESS)
}
