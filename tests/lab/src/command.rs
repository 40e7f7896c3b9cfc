// SPDX-License-Identifier: GPL-2.0-only

//! Programs for machines to run.

use std::collections::BTreeMap;

/// A program with its circumstances.
///
/// ```
/// # use ddlab::Command;
/// let reader = Command::new(["cat", "/mnt/a"]).cgroup("one").env("LC_ALL", "C");
/// ```
#[derive(Clone, Debug)]
pub struct Command(pub(crate) ddagent::protocol::Command);

impl Command {
    /// Program and arguments, without a shell.
    pub fn new<I>(argv: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        Self(ddagent::protocol::Command {
            argv: argv.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            stdin: Vec::new(),
            cgroup: None,
            cwd: None,
        })
    }

    /// A line for the shell, which stops at the first failing command.
    pub fn shell(line: impl Into<String>) -> Self {
        Self::new(["/bin/sh".to_owned(), "-euc".to_owned(), line.into()])
    }

    /// Enters a cgroup (path below the mount) first.
    #[must_use]
    pub fn cgroup(mut self, path: impl Into<String>) -> Self {
        self.0.cgroup = Some(path.into());
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.env.insert(name.into(), value.into());
        self
    }

    /// Gives it standard input.
    #[must_use]
    pub fn stdin(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.0.stdin = data.into();
        self
    }

    /// Sets its working directory.
    #[must_use]
    pub fn cwd(mut self, dir: impl Into<String>) -> Self {
        self.0.cwd = Some(dir.into());
        self
    }
}
