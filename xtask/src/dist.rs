// SPDX-License-Identifier: GPL-2.0-only

//! `dist`: Debian packages of the modules' sources and of the tools.

mod build;
mod stage;
mod trial;
mod version;

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::package;

use version::Version;

/// Build the Debian packages
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Install, upgrade, downgrade and remove them in a clean Debian, with kernels that the modules
    /// can and cannot be built for
    #[arg(long = "try")]
    trial: bool,
}

/// Builds the packages of the tree and returns their directory.
pub(crate) fn packages() -> Result<PathBuf> {
    build::packages(&Version::of_tree()?)
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    package::install_missing()?;
    let version = Version::of_tree()?;
    let packages = build::packages(&version)?;
    if args.trial {
        let successor = build::packages(&version.successor())?;
        let failed = trial::run(&packages, &successor)?;
        if !failed.is_empty() {
            bail!("these trials failed: {}", failed.join(", "));
        }
    }
    println!("packages: {}", packages.display());
    Ok(true)
}
