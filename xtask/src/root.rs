// SPDX-License-Identifier: GPL-2.0

//! Debian root directories: one to build in, one to run.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::{cache, mirror, progress, suite::Suite, workspace};

/// Compilers and kernel build tools.
const BUILD: &[&str] = &[
    "bc",
    "bindgen",
    "bison",
    "clang",
    "cpio",
    "erofs-utils",
    "flex",
    "gcc",
    "kmod",
    "libc6-dev",
    "libclang-dev",
    "libdw-dev",
    "libelf-dev",
    "libssl-dev",
    "make",
    "pahole",
    "patch",
    "python3",
    "rsync",
    "rust-clippy",
    "rust-src",
    "rustc",
    "rustfmt",
    "xz-utils",
];

/// What test machines run. Its emulator runs L1 as well.
const RUN: &[&str] = &[
    "busybox-static",
    "dmsetup",
    "e2fsprogs",
    "fio",
    "iproute2",
    "kmod",
    "procps",
    "qemu-system-x86",
    "stress-ng",
    "strace",
    "mount",
    "util-linux",
    "xfsprogs",
];

/// Sources of the emulator. Stable's loses nested guests with two busy
/// processors to triple faults.
const EMULATOR: &[&str] = &["qemu", "seabios"];

/// The root to build for `suite` in.
pub(crate) fn build(suite: Suite) -> Result<PathBuf> {
    make("build", suite, BUILD, &[])
}

/// The root of the test machines: the stable suite, whatever kernel they run.
pub(crate) fn run() -> Result<PathBuf> {
    make("run", Suite::TrixieBackports, RUN, EMULATOR)
}

/// Makes a root of `packages`; those of the sources in `backported` come from
/// backports.
fn make(role: &str, suite: Suite, packages: &[&str], backported: &[&str]) -> Result<PathBuf> {
    let base = suite.base();
    let sources = suite.sources(&mirror::find()?);
    let list = packages.join(",");
    // The mirror is no part of the key: all serve the same.
    let mut key = vec![base, &list];
    key.extend(backported);
    let name = format!("{role}-{base}-{}", cache::key(&key));
    cache::entry("root", &name, |dir| {
        progress::step(&format!("make the {base} root to {role} in"), || {
            mmdebstrap(base, &sources, &list, &preferences(backported), dir)
        })
    })
}

/// apt's preferences that take the packages of some sources from backports.
fn preferences(sources: &[&str]) -> String {
    sources
        .iter()
        .map(|source| {
            format!("Package: src:{source}\nPin: release n=trixie-backports\nPin-Priority: 600\n\n")
        })
        .collect()
}

fn mmdebstrap(
    base: &str,
    sources: &str,
    packages: &str,
    preferences: &str,
    dir: &Path,
) -> Result<()> {
    let log = workspace::target().join("log/mmdebstrap.log");
    std::fs::create_dir_all(workspace::target().join("log"))?;
    let file = std::fs::File::create(&log)?;
    let mut child = Command::new("mmdebstrap")
        .args(["--mode=root", "--variant=apt"])
        .arg("--aptopt=APT::Install-Recommends \"false\"")
        .arg("--aptopt=Acquire::Retries \"5\"")
        .arg("--setup-hook=mkdir -p \"$1\"/etc/apt/preferences.d")
        .arg("--setup-hook=printf %s \"$PREFERENCES\" > \"$1\"/etc/apt/preferences.d/backported")
        .env("PREFERENCES", preferences)
        .arg(format!("--include={packages}"))
        .arg(base)
        .arg(dir)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()
        .context("cannot run mmdebstrap")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(sources.as_bytes())?;
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("mmdebstrap failed ({status}); see {}", log.display());
    }
    Ok(())
}
