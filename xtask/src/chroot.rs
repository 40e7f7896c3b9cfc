// SPDX-License-Identifier: GPL-2.0-only

//! Running programs inside a root directory.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// A root directory with additional mounts.
#[derive(Clone, Debug)]
pub(crate) struct Chroot {
    root: PathBuf,
    binds: Vec<(PathBuf, String)>,
}

impl Chroot {
    /// Returns a root directory without further mounts.
    pub(crate) fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            binds: Vec::new(),
        }
    }

    /// Mounts `from` at `to` (absolute, in the root).
    pub(crate) fn bind(mut self, from: impl AsRef<Path>, to: &str) -> Self {
        self.binds.push((from.as_ref().to_owned(), to.to_owned()));
        self
    }

    /// Returns a command for a program in the root directory. Its mounts and child processes are in
    /// separate namespaces, which end with it, however this process ends.
    pub(crate) fn command(&self, program: &str) -> Command {
        let script = r#"
            root=$1; shift
            # Container runtimes change the mount at /, which a plain directory has not. It becomes
            # that of the namespace, from which programs enter a running container.
            mount --bind "$root" "$root"
            while [ "$1" != -- ]; do
                mkdir -p "$root$2"
                mount --bind "$1" "$root$2"
                shift 2
            done
            shift
            mount -t proc proc "$root/proc"
            cd "$root"
            mount --move . /
            exec chroot . "$@"
        "#;
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .args(["unshare", "--mount", "--propagation", "private"])
            .args(["--pid", "--fork", "--kill-child", "--"])
            .args(["sh", "-euc", script, "chroot"])
            .arg(&self.root);
        for (from, to) in &self.binds {
            command.arg(from).arg(to);
        }
        command
            .arg("--")
            .arg(program)
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .env("LC_ALL", "C.UTF-8")
            .env("HOME", "/root")
            // Cargo's own settings do not apply to builds inside.
            .env_remove("CARGO_TARGET_DIR")
            .env_remove("RUSTFLAGS")
            .env_remove("RUSTUP_TOOLCHAIN")
            .env_remove("LD_LIBRARY_PATH")
            // The directory need not exist inside.
            .env_remove("TMPDIR");
        command
    }
}
