// SPDX-License-Identifier: GPL-2.0-only

//! Our programs, linked statically: they run in any root.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::{cache, progress, workspace};

/// The agent; a package with a program of the same name, like the others.
pub(crate) const AGENT: &str = "ddagent";
/// The benchmark of the engine; no test needs it.
pub(crate) const BENCH: &str = "ddbench";
/// Everything that is built.
pub(crate) const ALL: &[&str] = &[AGENT, "ddctl", "ddhelper", "ddhostd", "ddload", "policyd"];
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Builds `tools`; returns the directory they are in.
pub(crate) fn build(tools: &[&str]) -> Result<PathBuf> {
    // A directory of its own: other flags would make cargo build all again.
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

/// Of the file system exerciser on crates.io.
const FSX_VERSION: &str = "0.3.2";

/// Builds the file system exerciser; returns its program.
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

/// Cargo, for programs that run anywhere.
fn cargo(verb: &str, target_dir: &Path) -> Command {
    let mut command = workspace::cargo();
    command
        .args([verb, "--quiet", "--target", TARGET])
        .env("CARGO_TARGET_DIR", target_dir)
        .env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo")
        .env("RUSTFLAGS", "-C target-feature=+crt-static");
    command
}
