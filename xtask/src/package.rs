// SPDX-License-Identifier: GPL-2.0-only

//! Debian packages that this machine needs.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result, bail};

use crate::{progress, workspace};

/// Programs that are run here, with the package of each.
const NEEDED: [(&str, &str); 8] = [
    ("/usr/bin/mmdebstrap", "mmdebstrap"),
    ("/usr/bin/setpriv", "util-linux"),
    ("/usr/bin/unshare", "util-linux"),
    ("/usr/bin/cc", "gcc"),
    ("/usr/bin/make", "make"),
    ("/usr/sbin/mke2fs", "e2fsprogs"),
    ("/usr/bin/shellcheck", "shellcheck"),
    (
        "/usr/share/keyrings/debian-archive-keyring.gpg",
        "debian-archive-keyring",
    ),
];

/// Installs the missing packages.
pub(crate) fn install_missing() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("this needs root (chroot, mounts, packages); run it as root");
    }
    let mut missing: Vec<&str> = NEEDED
        .iter()
        .filter(|(program, _)| !Path::new(program).exists())
        .map(|(_, package)| *package)
        .collect();
    missing.dedup();
    // The static C library is installed only with the headers of the compiler.
    if !Path::new("/usr/lib/x86_64-linux-gnu/libc.a").exists() {
        missing.push("libc6-dev");
    }
    if missing.is_empty() {
        return Ok(());
    }
    progress::step(&format!("install {}", missing.join(", ")), || {
        apt(&["update"]).and_then(|()| {
            let options = ["install", "-y", "--no-install-recommends"];
            apt(&[options.as_slice(), missing.as_slice()].concat())
        })
    })
    .context("install these packages by hand and try again")
}

fn apt(arguments: &[&str]) -> Result<()> {
    let log = workspace::target().join("log/apt.log");
    let mut command = Command::new("apt-get");
    command
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive");
    progress::quiet(&mut command, &log)
}
