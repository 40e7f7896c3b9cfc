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

/// Builds the same packages with the version of the next commit, and returns their directory.
pub(crate) fn next_packages() -> Result<PathBuf> {
    build::packages(&Version::of_tree()?.successor())
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    package::install_missing()?;
    let packages = packages()?;
    if args.trial {
        let failed = trial::run(&packages, &next_packages()?)?;
        if !failed.is_empty() {
            bail!("these trials failed: {}", failed.join(", "));
        }
    }
    println!("packages: {}", packages.display());
    Ok(true)
}
