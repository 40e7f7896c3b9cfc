// SPDX-License-Identifier: GPL-2.0-only

//! Rules of the source tree, one file for each.

mod book;
mod comment;
mod confinement;
mod conflict;
mod dependency;
mod licence;
mod link;
mod mutation;
mod name;
mod result;
mod size;
mod specification;
mod title;
mod tracepoint;

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, bail};

/// A file of the source tree.
#[derive(Debug)]
struct Source {
    /// Path from the top.
    path: String,
    text: String,
}

impl Source {
    /// Returns the last part of its path.
    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Returns whether its name ends in one of `ends`.
    fn is(&self, ends: &[&str]) -> bool {
        ends.iter().any(|end| self.path.ends_with(end))
    }

    #[cfg(test)]
    fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }
}

/// Fails with a list of all broken rules.
pub(crate) fn check(top: &Path) -> Result<()> {
    let sources = sources(top)?;
    let broken = [
        book::check(&sources),
        comment::check(&sources),
        confinement::check(&sources),
        conflict::check(&sources),
        size::check(&sources),
        specification::check(&sources),
        name::check(&sources),
        licence::check(&sources),
        dependency::check(&sources, top)?,
        link::check(&sources, top),
        mutation::check(top)?,
        result::check(&sources),
        title::check(&sources, top)?,
        tracepoint::check(&sources),
    ]
    .concat();
    eprintln!("{}", size::report(&sources));
    if broken.is_empty() {
        return Ok(());
    }
    bail!("{}", broken.join("\n"));
}

/// Returns the text files that git tracks or would track.
fn sources(top: &Path) -> Result<Vec<Source>> {
    let mut sources: Vec<Source> = files(top)?
        .into_iter()
        .filter_map(|path| {
            Some(Source {
                text: fs::read_to_string(top.join(&path)).ok()?,
                path,
            })
        })
        .collect();
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

/// Returns the paths of files that git tracks or would track.
pub(crate) fn files(top: &Path) -> Result<Vec<String>> {
    let output = Command::new("git")
        .current_dir(top)
        .args(["ls-files", "-z", "--cached", "--others"])
        .arg("--exclude-standard")
        .output()
        .context("cannot run git")?;
    if !output.status.success() {
        bail!(
            "git cannot list the source tree: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let list = String::from_utf8(output.stdout)?;
    Ok(list.split_terminator('\0').map(str::to_owned).collect())
}
