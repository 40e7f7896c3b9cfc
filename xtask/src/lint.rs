// SPDX-License-Identifier: GPL-2.0

//! `lint`: style and structure.

use std::{
    env,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result, bail};

use crate::{modules, package, progress, suite::KernelArgs, tidy, tree::Kernel, workspace};

/// Check formatting, lints and structure
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    kernel: KernelArgs,
    /// Leave the modules out (no root needed)
    #[arg(long)]
    no_modules: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    progress::step("tidy", || tidy::check(workspace::top()))?;
    progress::step("rustfmt", || cargo(&["fmt", "--all", "--check"]))?;
    progress::step("clippy", || {
        cargo(&[
            "clippy",
            "--quiet",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ])
    })?;
    if !args.no_modules {
        package::install_missing()?;
        let kernel = Kernel::prepare(&args.kernel)?;
        modules::build(&kernel, modules::Mode::Lint)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn cargo(arguments: &[&str]) -> Result<()> {
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(workspace::top())
        .args(arguments)
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("cargo {} failed", arguments[0]);
    }
    Ok(())
}
