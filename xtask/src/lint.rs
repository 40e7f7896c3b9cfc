// SPDX-License-Identifier: GPL-2.0-only

//! `lint`: checks style and structure. A failed check does not prevent the others.

mod book;
mod crates;
mod shell;

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::{modules, package, progress, suite::KernelArgs, tidy, tree::Kernel, workspace};

/// Check formatting, lints and structure
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    kernel: KernelArgs,
    /// Do not build the modules (needs no root)
    #[arg(long)]
    no_modules: bool,
}

/// The fuzz targets are a workspace of their own.
const FUZZ: &str = "fuzz/Cargo.toml";

/// Name and function of a check.
type Check<'a> = (&'static str, &'a dyn Fn() -> Result<()>);

pub(crate) fn run(args: &Args) -> Result<bool> {
    let mut checks: Vec<Check<'_>> = vec![
        ("tidy", &|| tidy::check(workspace::top())),
        ("rustfmt", &|| cargo(&["fmt", "--all", "--check"])),
        ("rustfmt of the fuzz targets", &|| {
            cargo(&["fmt", "--manifest-path", FUZZ, "--check"])
        }),
        ("rustfmt of the modules", &modules::check_format),
        ("clippy", &clippy),
        ("clippy of the fuzz targets", &clippy_of_fuzz_targets),
        ("shellcheck", &shell::check),
        ("cargo-deny", &crates::check),
        ("mdbook", &book::check),
    ];
    let in_kernel = || lint_modules(&args.kernel);
    if !args.no_modules {
        checks.push(("clippy and warnings of the modules", &in_kernel));
    }
    // Only root can install packages. Without them, the checks that need one print how to get it.
    if rustix::process::geteuid().is_root() {
        package::install_missing()?;
    }
    let mut failed = Vec::new();
    for (name, check) in checks {
        if let Err(error) = progress::step(name, check) {
            eprintln!("{error:#}\n");
            failed.push(name);
        }
    }
    if failed.is_empty() {
        println!("no complaints");
        return Ok(true);
    }
    println!("complaints: {}", failed.join(", "));
    Ok(false)
}

/// Returns whether a program is installed that builds do not need. Prints how to install it if it
/// is not.
fn is_installed(program: &str, install: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        eprintln!("note: {program} is not installed, and its check is left out; {install}");
    }
    found
}

fn clippy() -> Result<()> {
    let what = ["clippy", "--quiet", "--workspace", "--all-targets"];
    // Errors in one crate must not hide those in another.
    let how = ["--keep-going", "--", "-D", "warnings"];
    cargo(&[what, how].concat())
}

/// Checks the fuzz targets. Nothing is linked, so that a path of libFuzzer saves its compilation.
fn clippy_of_fuzz_targets() -> Result<()> {
    let status = workspace::cargo()
        .args(["clippy", "--quiet", "--manifest-path", FUZZ])
        .args(["--", "-D", "warnings"])
        .env("CUSTOM_LIBFUZZER_PATH", "/nonexistent/libfuzzer.a")
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("clippy of the fuzz targets failed");
    }
    Ok(())
}

fn lint_modules(args: &KernelArgs) -> Result<()> {
    modules::lint(&Kernel::prepare(args)?)
}

fn cargo(arguments: &[&str]) -> Result<()> {
    let status = workspace::cargo()
        .args(arguments)
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("cargo {} failed", arguments[0]);
    }
    Ok(())
}
