// SPDX-License-Identifier: GPL-2.0-only

//! Commands for machines to run.

use std::collections::BTreeMap;

/// A program with its arguments and environment.
///
/// ```
/// # use ddlab::Command;
/// let reader = Command::new(["cat", "/mnt/a"]).cgroup("one").env("LC_ALL", "C");
/// ```
#[derive(Clone, Debug)]
pub struct Command(pub(crate) ddagent::protocol::Command);

impl Command {
    /// Returns a command of a program and its arguments, without a shell.
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

    /// Returns a line for the shell, which stops at the first failing command.
    pub fn shell(line: impl Into<String>) -> Self {
        Self::new(["/bin/sh".to_owned(), "-euc".to_owned(), line.into()])
    }

    /// Makes the program enter a cgroup (path below the mount) first.
    #[must_use]
    pub fn cgroup(mut self, path: impl Into<String>) -> Self {
        self.0.cgroup = Some(path.into());
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.env.insert(name.into(), value.into());
        self
    }

    /// Sets the standard input.
    #[must_use]
    pub fn stdin(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.0.stdin = data.into();
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn cwd(mut self, dir: impl Into<String>) -> Self {
        self.0.cwd = Some(dir.into());
        self
    }
}
