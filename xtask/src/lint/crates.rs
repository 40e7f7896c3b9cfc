// SPDX-License-Identifier: GPL-2.0-only

//! Licences, sources and known flaws of crates, by cargo-deny and `deny.toml`.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::is_installed;
use crate::workspace;

/// Fails with what cargo-deny finds; does nothing where it is not installed.
pub(super) fn check() -> Result<()> {
    if !is_installed("cargo-deny", "cargo install cargo-deny --locked") {
        return Ok(());
    }
    deny(&["check", "bans", "licenses", "sources"])?;
    if let Err(error) = deny(&["fetch", "db"]) {
        eprintln!("note: known flaws of crates are not checked, as their list cannot be fetched");
        eprintln!("{error:#}");
        return Ok(());
    }
    deny(&["check", "--disable-fetch", "advisories"])
}

fn deny(arguments: &[&str]) -> Result<()> {
    let output = Command::new("cargo-deny")
        .current_dir(workspace::top())
        .args([
            "--workspace",
            "--all-features",
            "--locked",
            "--log-level",
            "error",
        ])
        .args(arguments)
        .output()
        .context("cannot run cargo-deny")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
