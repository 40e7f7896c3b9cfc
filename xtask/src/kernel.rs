// SPDX-License-Identifier: GPL-2.0-only

//! `kernel`: lists and prepares kernels to build for.

use anyhow::Result;
use clap::Subcommand;

use crate::{package, release, root, suite::KernelArgs, tree, tree::Kernel};

/// List kernels, or prepare one for building
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the kernels of the mirror that have image, headers and source
    List(KernelArgs),
    /// Fetch the kernel and prepare its tree for Rust modules
    Prepare(KernelArgs),
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    package::install_missing()?;
    match &args.action {
        Action::List(args) => list(args)?,
        Action::Prepare(args) => {
            let kernel = Kernel::prepare(args)?;
            println!("{} is ready", kernel.release.name);
        }
    }
    Ok(true)
}

fn list(args: &KernelArgs) -> Result<()> {
    let root = root::build(args.suite)?;
    tree::update(&root)?;
    let found = release::list(&root, args)?;
    let (chosen, remark) = release::choose(found.clone(), args)?;
    for release in found {
        let mark = if release == chosen { "*" } else { " " };
        println!("{mark} {}  ({})", release.name, release.version);
    }
    if let Some(remark) = remark {
        println!("{remark}");
    }
    Ok(())
}
