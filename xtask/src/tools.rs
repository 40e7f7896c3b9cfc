// SPDX-License-Identifier: GPL-2.0-only

//! The project's programs, linked statically so that they run in any root.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::{cache, progress, workspace};

/// The agent. Each package has a program of the same name.
pub(crate) const AGENT: &str = "ddagent";
/// The benchmark of the engine, which no test needs.
pub(crate) const BENCH: &str = "ddbench";
/// All programs for machines.
pub(crate) const ALL: &[&str] = &[AGENT, "ddctl", "ddhelper", "ddhostd", "ddload", "policyd"];
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Builds `tools` and returns their directory.
pub(crate) fn build(tools: &[&str]) -> Result<PathBuf> {
    // A separate directory is used, because other flags would make cargo rebuild all crates.
    let dir = env::var_os("CARGO_TARGET_DIR")
        .map_or_else(workspace::target, PathBuf::from)
        .join("static");
    progress::step("build the tools", || {
        let mut command = cargo("build", &dir);
        command
            .arg("--release")
            .args(tools.iter().flat_map(|tool| ["--package", tool]));
        let status = command.status().context("cannot run cargo")?;
        if !status.success() {
            bail!("the tools do not compile");
        }
        Ok(())
    })?;
    Ok(dir.join(TARGET).join("release"))
}

/// Version of the file system exerciser on crates.io.
const FSX_VERSION: &str = "0.3.2";

/// Builds the file system exerciser and returns its program.
pub(crate) fn fsx() -> Result<PathBuf> {
    let entry = cache::entry("tools", &format!("fsx-{FSX_VERSION}"), |dir| {
        progress::step("build fsx (some minutes, once)", || {
            let build = dir.join("build");
            let mut command = cargo("install", &build);
            command
                .args(["fsx", "--version", FSX_VERSION, "--locked", "--root"])
                .arg(dir);
            progress::quiet(&mut command, &workspace::target().join("log/fsx.log"))?;
            cache::remove(&build)
        })
    })?;
    Ok(entry.join("bin/fsx"))
}

/// Returns cargo-deny, which checks licences and sources of crates: the one on the path, or one
/// that is built once.
pub(crate) fn deny() -> Result<PathBuf> {
    checker("cargo-deny", "0.20.2", &[])
}

/// Returns mdBook in the same way. The server and the search of the book are left out, and the
/// program is not optimised: it is built in a minute of processor time, and needs half a second for
/// the book.
pub(crate) fn mdbook() -> Result<PathBuf> {
    checker("mdbook", "0.5.4", &["--no-default-features", "--debug"])
}

/// Returns a program that checks this tree: the one on the path, or a version of crates.io, which
/// is built once.
fn checker(name: &str, version: &str, options: &[&str]) -> Result<PathBuf> {
    if Command::new(name).arg("--version").output().is_ok() {
        return Ok(name.into());
    }
    let entry = cache::entry("tools", &format!("{name}-{version}"), |dir| {
        progress::step(&format!("build {name} (a minute or more, once)"), || {
            let build = dir.join("build");
            let mut command = workspace::cargo();
            command
                .args(["install", "--quiet", name, "--locked"])
                .args(["--version", version, "--root"])
                .arg(dir)
                .args(options)
                .env("CARGO_TARGET_DIR", &build)
                .env("CARGO_PROFILE_DEV_DEBUG", "0")
                // Where there is no network, lint goes on without it.
                .env("CARGO_NET_RETRY", "0");
            let log = workspace::target().join(format!("log/{name}.log"));
            progress::quiet(&mut command, &log)?;
            cache::remove(&build)
        })
    })?;
    Ok(entry.join("bin").join(name))
}

/// Returns a command for cargo that builds programs for any machine.
fn cargo(verb: &str, target_dir: &Path) -> Command {
    let mut command = workspace::cargo();
    command
        .args([verb, "--quiet", "--target", TARGET])
        .env("CARGO_TARGET_DIR", target_dir)
        .env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo")
        .env("RUSTFLAGS", "-C target-feature=+crt-static");
    command
}
