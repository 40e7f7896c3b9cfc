// SPDX-License-Identifier: GPL-2.0-only

//! A file whose pages the host has when something changes it, or does not.

use std::{
    fs::{self, File},
    io::Write as _,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use ddhelper::churn::PAGE;
use rustix::fs::OFlags;

use super::{at, content, give_away, wrong};
use crate::{files::open, swap_file::on_disk};

/// A file with known content. No task has it open for writing between two changes, so that its
/// filesystem can become read-only.
pub(super) struct Kept {
    pub(super) path: PathBuf,
    pub(super) file: File,
    /// Its content.
    pub(super) want: Vec<u8>,
}

impl Kept {
    pub(super) fn create(dir: &Path, name: &str, pages: usize) -> Result<Self> {
        let path = dir.join(name);
        fs::write(&path, content(1, pages * PAGE))?;
        Self::open(&path, pages)
    }

    /// Opens a file that was made by [`Kept::create`].
    pub(super) fn open(path: &Path, pages: usize) -> Result<Self> {
        let file = File::open(path)?;
        file.sync_all()?;
        Ok(Self {
            path: path.to_owned(),
            file,
            want: content(1, pages * PAGE),
        })
    }

    /// Returns the number of its pages.
    fn pages(&self) -> u64 {
        (self.want.len() / PAGE) as u64
    }

    /// Returns how many pages come from the host if nothing was forgotten. A container's policy may
    /// have refused some.
    pub(super) fn most(&self) -> RangeInclusive<u64> {
        self.pages() / 2..=self.pages()
    }

    /// Opens it for writing too.
    pub(super) fn writer(&self, flags: OFlags) -> Result<File> {
        Ok(open(&self.path, OFlags::RDWR | flags)?)
    }

    /// Executes a change that keeps the content, and after which the host has the pages. Returns
    /// the number of wrong bytes.
    pub(super) fn stays(&self, what: &str, change: impl FnOnce() -> Result<()>) -> Result<u64> {
        self.after(what, self.most(), change)
    }

    /// Executes a change after which the host has none of the pages.
    pub(super) fn leaves(&self, what: &str, change: impl FnOnce() -> Result<()>) -> Result<u64> {
        self.after(what, 0..=0, change)
    }

    /// Executes a change after which this many pages come from the host. Their content is compared
    /// with the expected one, and so is that on the disk.
    ///
    /// The guest module tells its host later that pages are forgotten, and copies that the host has
    /// got in between are lost. A minimum therefore holds only for pages that no step before has
    /// changed.
    pub(super) fn after(
        &self,
        what: &str,
        expected: RangeInclusive<u64>,
        change: impl FnOnce() -> Result<()>,
    ) -> Result<u64> {
        give_away(&self.file)?;
        change().with_context(|| what.to_owned())?;
        self.look(what, expected)
    }

    /// Reads the file. Returns the number of wrong bytes. Those of pages that must not come from
    /// the host are wrong even if they are equal.
    pub(super) fn look(&self, what: &str, expected: RangeInclusive<u64>) -> Result<u64> {
        let before = hits()?;
        let sum = wrong(&self.file, &self.want)?;
        let came = hits()? - before;
        ensure!(
            came >= *expected.start(),
            "{came} of {} pages came from the host after {what}, not {expected:?}",
            self.pages()
        );
        let disk = on_disk(&self.path)?;
        ensure!(disk == self.want, "the disk is wrong after {what}");
        Ok(sum.max(came.saturating_sub(*expected.end()) * at(1)))
    }
}

/// Returns the number of pages that came from the host so far.
pub(super) fn hits() -> Result<u64> {
    let said = run("ddctl", &["--json", "--guest", "status"], &[])?;
    let status: serde_json::Value = serde_json::from_str(&said)?;
    let counted = &status["guest"]["counters"]["get_hits"];
    counted.as_u64().context("ddctl counts no hits")
}

/// Executes a command of `xfs_io` on a file or directory, and returns what it prints.
pub(super) fn xfs_io(path: &Path, command: &str) -> Result<String> {
    let path = path.to_str().context("the path is not text")?;
    run("xfs_io", &["-x", "-c", command, path], &[])
}

/// Runs a program that must succeed without complaints, and returns what it prints.
pub(super) fn run(program: &str, arguments: &[&str], input: &[u8]) -> Result<String> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {program}"))?;
    let pipe = child.stdin.take();
    pipe.context("there is no pipe")?.write_all(input)?;
    let done = child.wait_with_output()?;
    ensure!(
        done.status.success() && done.stderr.is_empty(),
        "{program} {arguments:?}: {done:?}"
    );
    Ok(String::from_utf8(done.stdout)?)
}
