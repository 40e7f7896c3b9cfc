// SPDX-License-Identifier: GPL-2.0-only

//! Shell scripts, by shellcheck.

use std::{fs, process::Command};

use anyhow::{Context as _, Result, bail};

use super::is_installed;
use crate::{tidy, workspace};

/// Endings of scripts that are read by other programs, and need not name an interpreter.
const SCRIPTS: [&str; 2] = [".sh", ".dkms"];

/// Fails with the findings of shellcheck. Does nothing if it is not installed.
pub(super) fn check() -> Result<()> {
    if !is_installed("shellcheck", "apt install shellcheck") {
        return Ok(());
    }
    let top = workspace::top();
    let scripts = tidy::files(top)?.into_iter().filter(|path| {
        let text = fs::read_to_string(top.join(path)).unwrap_or_default();
        is_script(path, &text)
    });
    // Paths in directives are from the top.
    let output = Command::new("shellcheck")
        .current_dir(top)
        .args(["--external-sources", "--format=gcc"])
        .args(scripts)
        .output()
        .context("cannot run shellcheck")?;
    if !output.status.success() {
        bail!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

fn is_script(path: &str, text: &str) -> bool {
    let interpreter = text.lines().next().unwrap_or_default();
    let is_shell = interpreter.starts_with("#!")
        && interpreter
            .split(['/', ' '])
            .any(|word| matches!(word, "sh" | "bash"));
    is_shell || SCRIPTS.iter().any(|end| path.ends_with(end)) && !text.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_known_by_ending_or_interpreter() {
        assert!(is_script("a.sh", "true\n"));
        assert!(is_script("debian/x.postinst", "#!/bin/sh\nset -e\n"));
        assert!(is_script(".ci/run", "#!/usr/bin/env bash\n"));
        assert!(!is_script("debian/rules", "#!/usr/bin/make -f\n"));
        assert!(!is_script("a.rs", "#![forbid(unsafe_code)]\n"));
        // A file that was deleted, but is still listed.
        assert!(!is_script("gone.sh", ""));
    }
}
