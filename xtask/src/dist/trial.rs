// SPDX-License-Identifier: GPL-2.0-only

//! Trying the packages: the scripts of `packaging/trial`, one after the other, in a clean Debian.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{
    cache,
    chroot::Chroot,
    progress, release, root,
    suite::{Flavour, KernelArgs},
    workspace,
};

/// The scripts.
const SCRIPTS: &str = "packaging/trial";
/// Settings of apt and dpkg in the root: downloads are kept for the next trial, and the root need
/// not survive a power failure.
const SETTINGS: [(&str, &str); 2] = [
    (
        "etc/apt/apt.conf.d/trial",
        "APT::Keep-Downloaded-Packages \"true\";\nAcquire::Retries \"5\";\n\
         APT::Install-Recommends \"false\";\n",
    ),
    ("etc/dpkg/dpkg.cfg.d/trial", "force-unsafe-io\n"),
];

/// Tries to install the packages in the directory `current`, and to upgrade them to those in
/// `next`. Returns the names of the scripts that failed.
pub(super) fn run(current: &Path, next: &Path) -> Result<Vec<String>> {
    let dir = workspace::target().join("dist/trial");
    let root = fresh_root(&dir)?;
    let (downloads, _lock) = cache::apt_downloads()?;
    let kernel = pinned()?;
    let mut failed = Vec::new();
    for script in scripts()? {
        let mut command = Chroot::new(&root)
            .bind(&downloads, "/var/cache/apt/archives")
            .bind(current, "/packages/current")
            .bind(next, "/packages/next")
            .bind(workspace::top().join(SCRIPTS), "/trial")
            .command("sh");
        command
            .args(["-eu", &format!("/trial/{script}.sh")])
            .env("KERNEL", &kernel.name)
            .env("KERNEL_VERSION", &kernel.version)
            .env("KERNEL_SOURCE", &kernel.source);
        let log = workspace::target().join(format!("log/trial-{script}.log"));
        let name = format!("trial {script}");
        if let Err(error) = progress::step(&name, || progress::quiet(&mut command, &log)) {
            eprintln!("{error:#}");
            failed.push(script);
        }
    }
    cache::remove(&dir)?;
    Ok(failed)
}

/// Makes a copy of the bare Debian, which is deleted afterwards. Returns its path.
fn fresh_root(dir: &Path) -> Result<PathBuf> {
    let bare = root::bare()?;
    cache::remove(dir)?;
    fs::create_dir_all(dir)?;
    let root = dir.join("root");
    let mut copy = Command::new("cp");
    copy.args(["-a", "--reflink=auto"]).arg(&bare).arg(&root);
    progress::quiet(&mut copy, &workspace::target().join("log/trial-root.log"))?;
    for (path, text) in SETTINGS {
        fs::write(root.join(path), text)?;
    }
    Ok(root)
}

/// Returns the kernel against which the modules were last checked, or its successor on the mirror.
fn pinned() -> Result<release::Release> {
    let args = KernelArgs {
        flavour: Flavour::CloudAmd64,
        ..KernelArgs::default()
    };
    crate::tree::choose(&root::build(args.suite)?, &args)
}

/// Returns the names of the scripts in their order. Names without a number are those of scripts
/// that others read.
fn scripts() -> Result<Vec<String>> {
    let dir = workspace::top().join(SCRIPTS);
    let list = fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let mut names = Vec::new();
    for entry in list {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with(|first: char| first.is_ascii_digit()) {
            names.extend(name.strip_suffix(".sh").map(str::to_owned));
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_installed_first_and_removed_last() {
        let scripts = scripts().unwrap();
        assert!(scripts[0].ends_with("-install"), "{scripts:?}");
        assert!(scripts.last().unwrap().ends_with("-remove"), "{scripts:?}");
    }
}
