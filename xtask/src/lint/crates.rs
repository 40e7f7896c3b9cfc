// SPDX-License-Identifier: GPL-2.0-only

//! Licences, sources and known flaws of crates, by cargo-deny and `deny.toml`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, bail};

use crate::{cache, tools, workspace};

/// Interval between two attempts to fetch the list of known flaws.
const EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// Time limit for fetching the list, in the syntax of timeout(1). Lint continues if it cannot be
/// fetched.
const PATIENCE: &str = "60s";

/// Fails with the findings of cargo-deny. Does nothing if it is not installed and cannot be built.
pub(super) fn check() -> Result<()> {
    let deny = match tools::deny() {
        Ok(program) => Deny(program),
        Err(error) => {
            eprintln!("note: cargo-deny cannot be built, and licences are not checked: {error:#}");
            return Ok(());
        }
    };
    let graph = ["check", "bans", "licenses", "sources"];
    // The crates that cargo has already downloaded suffice, unless crates were added.
    if deny.run(&[&["--offline"], &graph[..]].concat()).is_err() {
        deny.run(&graph)?;
    }
    let state = cache::dir()?.join("advisories");
    fs::create_dir_all(&state)?;
    let asked = state.join("asked");
    if is_due(&asked, SystemTime::now()) {
        fs::write(&asked, "")?;
        let listed = state.join("listed");
        match deny.fetch() {
            Ok(()) => fs::write(&listed, "")?,
            // An older list is better than none.
            Err(error) => fs::write(state.join("reason"), format!("{error:#}"))?,
        }
    }
    if state.join("listed").exists() {
        return deny.run(&["check", "--disable-fetch", "advisories"]);
    }
    eprintln!(
        "note: known flaws of crates are not checked, as their list could not be fetched (tried \
         once a day; the reason is in {})",
        state.join("reason").display()
    );
    Ok(())
}

/// Returns whether a file is missing, or was written some time ago.
fn is_due(file: &Path, now: SystemTime) -> bool {
    let written = fs::metadata(file).and_then(|metadata| metadata.modified());
    let age = written.ok().map(|time| now.duration_since(time));
    // A time in the future counts as none.
    !matches!(age, Some(Ok(age)) if age < EVERY)
}

/// cargo-deny.
struct Deny(PathBuf);

impl Deny {
    fn run(&self, arguments: &[&str]) -> Result<()> {
        run(Command::new(&self.0), arguments)
    }

    /// Fetches the list of known flaws.
    fn fetch(&self) -> Result<()> {
        let mut command = Command::new("timeout");
        command.arg(PATIENCE).arg(&self.0);
        run(command, &["fetch", "db"])
    }
}

fn run(mut command: Command, arguments: &[&str]) -> Result<()> {
    let output = command
        .current_dir(workspace::top())
        .args(["--workspace", "--all-features", "--locked"])
        .args(["--log-level", "error"])
        .args(arguments)
        .output()
        .context("cannot run cargo-deny")?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!("{} ({})", text.trim(), output.status);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_asked_for_once_a_day() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("asked");
        let now = SystemTime::now();
        assert!(is_due(&file, now));
        fs::write(&file, "").unwrap();
        let written = fs::metadata(&file).unwrap().modified().unwrap();
        assert!(!is_due(&file, written + EVERY / 2));
        assert!(is_due(&file, written + EVERY));
        assert!(is_due(&file, written - EVERY));
    }
}
