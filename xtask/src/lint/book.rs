// SPDX-License-Identifier: GPL-2.0-only

//! The book, by mdBook.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::is_installed;
use crate::workspace;

/// Builds the book in `target/book`. Does nothing if mdBook is not installed.
pub(super) fn check() -> Result<()> {
    if !is_installed("mdbook", "cargo install mdbook --locked") {
        return Ok(());
    }
    let output = Command::new("mdbook")
        .current_dir(workspace::top())
        .args(["build", "docs"])
        .output()
        .context("cannot run mdbook")?;
    let log = String::from_utf8_lossy(&output.stderr);
    // mdBook reports links that it cannot resolve, and still succeeds.
    if !output.status.success() || log.contains("[WARN]") || log.contains("[ERROR]") {
        bail!("{}", log.trim());
    }
    Ok(())
}
