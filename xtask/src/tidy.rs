// SPDX-License-Identifier: GPL-2.0

//! Rules about the source tree itself.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, bail};

/// Longest source file.
const MAX_LINES: usize = 800;
/// Crates that may depend on these of ours only; anything else is foreign.
const DEPENDENCIES: [(&str, &[&str]); 2] = [
    ("ddabi", &["zerocopy", "zerocopy-derive"]),
    ("ddcore", &["ddabi", "zerocopy", "zerocopy-derive"]),
];

/// Fails with every broken rule.
pub(crate) fn check(top: &Path) -> Result<()> {
    let mut broken = Vec::new();
    for path in tracked(top)? {
        broken.extend(too_long(top, &path));
    }
    for (name, allowed) in DEPENDENCIES {
        let manifest = fs::read_to_string(top.join(name).join("Cargo.toml"))?;
        broken.extend(
            dependencies(&manifest)
                .into_iter()
                .filter(|dependency| !allowed.contains(&dependency.as_str()))
                .map(|dependency| format!("{name} must not depend on {dependency}")),
        );
    }
    if broken.is_empty() {
        return Ok(());
    }
    bail!("{}", broken.join("\n"));
}

fn tracked(top: &Path) -> Result<Vec<String>> {
    let output = Command::new("git")
        .current_dir(top)
        .args(["ls-files", "--", "*.rs", "*.c", "*.h"])
        .output()
        .context("cannot run git")?;
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn too_long(top: &Path, path: &str) -> Option<String> {
    // A file just deleted is still tracked.
    let lines = fs::read_to_string(top.join(path)).ok()?.lines().count();
    (lines > MAX_LINES).then(|| format!("{path} has {lines} lines; at most {MAX_LINES}"))
}

/// Names below `[dependencies]`.
fn dependencies(manifest: &str) -> Vec<String> {
    manifest
        .lines()
        .skip_while(|line| line.trim() != "[dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', '=', ' ']).next())
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_found() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\n# why\na.workspace = true\n\
            b = \"1\"\n\n[dev-dependencies]\nc = \"1\"\n";
        assert_eq!(dependencies(manifest), ["a", "b"]);
    }
}
