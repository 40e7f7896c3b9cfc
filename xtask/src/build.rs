// SPDX-License-Identifier: GPL-2.0-only

//! `build`: modules and tools.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::{modules, package, suite::KernelArgs, tools, tree::Kernel};

/// Build the kernel modules and the tools
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    kernel: KernelArgs,
    /// Also build modules with patches of tests/mutations: their names, or "all" for those that
    /// scenarios load
    #[arg(long, value_name = "NAME,NAME|all", value_delimiter = ',')]
    mutated: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    package::install_missing()?;
    let kernel = Kernel::prepare(&args.kernel)?;
    let modules = modules::build(&kernel)?;
    for name in &args.mutated {
        let named = BTreeSet::from([name.split('+').collect()]);
        let builds = match name.as_str() {
            "all" => ddscenarios::every_build(),
            _ => named,
        };
        for patches in builds {
            modules::build_mutated(&kernel, &patches)?;
        }
    }
    let tools = tools::build(tools::ALL)?;
    println!("modules: {}", modules.display());
    println!("tools:   {}", tools.display());
    Ok(true)
}
