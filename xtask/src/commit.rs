// SPDX-License-Identifier: GPL-2.0-only

//! The state of the tree to which a result belongs.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::workspace;

/// Returns the commit that is checked out, with `-dirty` if files differ from it.
pub(crate) fn name() -> Result<String> {
    let commit = printed("git", &["rev-parse", "--short", "HEAD"])?;
    let changes = printed("git", &["status", "--porcelain", "--untracked-files=no"])?;
    Ok(match changes.is_empty() {
        true => commit,
        false => commit + "-dirty",
    })
}

/// Returns the number of commits up to this one, counting a merge with its branch as one.
pub(crate) fn count() -> Result<usize> {
    let count = printed("git", &["rev-list", "--count", "--first-parent", "HEAD"])?;
    Ok(count.parse()?)
}

/// Returns the time of the commit, in a format of `git log`.
pub(crate) fn time(format: &str) -> Result<String> {
    printed("git", &["log", "-1", &format!("--format={format}")])
}

/// Returns the tags of the commit.
pub(crate) fn tags() -> Result<Vec<String>> {
    let tags = printed("git", &["tag", "--points-at", "HEAD"])?;
    Ok(tags.lines().map(str::to_owned).collect())
}

/// Returns today's date, UTC, as `YYYY-MM-DD`.
pub(crate) fn today() -> Result<String> {
    printed("date", &["-u", "+%F"])
}

/// Returns the output of a command without the line's end.
fn printed(program: &str, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    let output = command
        .args(arguments)
        .current_dir(workspace::top())
        .output()?;
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}
