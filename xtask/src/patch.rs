// SPDX-License-Identifier: GPL-2.0-only

//! Patches of `tests/mutations`. Each makes the modules break a rule, or behave like modules of
//! another version.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use crate::workspace;

/// The folder of the patches, relative to the top of the tree.
pub(crate) const FOLDER: &str = "tests/mutations";
/// Suffix of their names.
const SUFFIX: &str = ".patch";

/// A unified diff against the tree, preceded by a description of the invariant that it breaks.
#[derive(Debug)]
pub(crate) struct Patch {
    path: PathBuf,
    text: String,
}

/// Returns the names of all patches.
pub(crate) fn names() -> Result<BTreeSet<String>> {
    let folder = workspace::top().join(FOLDER);
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot list {FOLDER}"))?;
    let mut names = BTreeSet::new();
    for entry in entries {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        names.extend(name.strip_suffix(SUFFIX).map(str::to_owned));
    }
    Ok(names)
}

impl Patch {
    pub(crate) fn read(name: &str) -> Result<Self> {
        let path = format!("{FOLDER}/{name}{SUFFIX}");
        let text = fs::read_to_string(workspace::top().join(&path))
            .with_context(|| format!("cannot read {path}"))?;
        Ok(Self {
            path: workspace::top().join(path),
            text,
        })
    }

    /// Returns the description.
    pub(crate) fn words(&self) -> &str {
        self.text.split("--- a/").next().unwrap_or_default().trim()
    }

    /// Returns the files that it changes, relative to the top of the tree.
    pub(crate) fn files(&self) -> impl Iterator<Item = &str> {
        let lines = self.text.lines();
        lines.filter_map(|line| line.strip_prefix("--- a/"))
    }

    /// Applies it to a copy of the tree. Fails if the context of a change differs.
    pub(crate) fn apply(&self, copy: &Path) -> Result<()> {
        let mut command = Command::new("git");
        // Git must not treat the copy as a part of the repository that contains it.
        command
            .current_dir(copy)
            .env("GIT_CEILING_DIRECTORIES", copy.parent().unwrap_or(copy))
            .env_remove("GIT_DIR")
            .env_remove("GIT_WORK_TREE")
            .env_remove("GIT_INDEX_FILE")
            .args(["apply", "--whitespace=nowarn"])
            .arg(&self.path);
        let output = command.output().context("cannot run git")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}", said.trim());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Two and two are five.\n\
        --- a/sum\n+++ b/sum\n@@ -1 +1 @@\n-4\n+5\n";

    /// Returns a patch in a separate directory, and a copy of a tree with one file.
    fn stage(content: &str) -> (tempfile::TempDir, PathBuf, Patch) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("five.patch");
        let copy = dir.path().join("copy");
        fs::create_dir(&copy).unwrap();
        fs::write(&path, TEXT).unwrap();
        fs::write(copy.join("sum"), content).unwrap();
        let text = TEXT.to_owned();
        (dir, copy, Patch { path, text })
    }

    #[test]
    fn a_patch_changes_a_copy() {
        let (_dir, copy, patch) = stage("4\n");
        assert_eq!(patch.words(), "Two and two are five.");
        assert_eq!(patch.files().collect::<Vec<_>>(), ["sum"]);
        patch.apply(&copy).unwrap();
        assert_eq!(fs::read_to_string(copy.join("sum")).unwrap(), "5\n");
    }

    #[test]
    fn a_patch_of_another_text_fails() {
        let (_dir, copy, patch) = stage("3\n");
        let error = patch.apply(&copy).unwrap_err().to_string();
        assert!(error.contains("sum"), "{error}");
    }
}
