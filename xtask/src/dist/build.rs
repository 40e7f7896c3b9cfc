// SPDX-License-Identifier: GPL-2.0-only

//! Building the packages, with Debian's own compiler and tools in a root of their own.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use super::{stage, version::Version};
use crate::{cache, chroot::Chroot, progress, root, workspace};

/// The kinds of remarks of lintian that a package must not cause.
const REFUSED: &str = "error,warning";
/// Remarks that concern uploads to Debian's archive alone.
const SUPPRESSED: &str = "initial-upload-closes-no-bugs";

/// Checks the scripts in the packages: maintainer scripts, with the parts that debhelper adds, and
/// scripts that are installed.
const SHELLCHECK: &str = r#"
    for package in ../*.deb; do
        rm -rf /tmp/scripts
        dpkg-deb --raw-extract "$package" /tmp/scripts
        find /tmp/scripts -type f -exec sh -c 'head -n 1 "$1" | grep -qE "^#!/bin/(ba)?sh"' - {} \; \
            -exec shellcheck --severity=warning --external-sources --source-path=SCRIPTDIR {} +
    done
"#;

/// Builds the packages of a version. Returns their directory.
pub(super) fn packages(version: &Version) -> Result<PathBuf> {
    let root = root::dist()?;
    let vendor = vendor()?;
    let dir = workspace::target().join("dist");
    let out = dir.join(version.upstream());
    let _lock = {
        fs::create_dir_all(&dir)?;
        cache::lock_in(&dir)?
    };
    let build = dir.join("build");
    let tree = build.join("doubledecker");
    stage::lay_out(version, &tree)?;
    let cargo = dir.join("cargo");
    fs::create_dir_all(&cargo)?;
    fs::write(cargo.join("config.toml"), CARGO_CONFIG)?;
    progress::step(
        &format!("build the packages {}", version.upstream()),
        || {
            let script = format!(
                "cd /build/doubledecker\n\
             rm -f ../*.deb ../*.buildinfo ../*.changes\n\
             dpkg-buildpackage --build=binary --no-sign\n\
             lintian --fail-on {REFUSED} --suppress-tags {SUPPRESSED} --allow-root ../*.changes\n\
             {SHELLCHECK}"
            );
            let mut command = Chroot::new(&root)
                .bind(&build, "/build")
                .bind(&vendor, "/vendor")
                .bind(&cargo, "/cargo")
                .command("sh");
            command
                .args(["-euc", &script])
                .env("CARGO_HOME", "/cargo")
                .env("CARGO_INCREMENTAL", "0")
                .env("DEB_BUILD_OPTIONS", "noautodbgsym")
                .env("SOURCE_DATE_EPOCH", version.epoch.to_string());
            progress::quiet(&mut command, &workspace::target().join("log/dist.log"))
        },
    )?;
    gather(&build, &out)?;
    Ok(out)
}

/// Crates are read from a directory, so that nothing is downloaded during a build.
const CARGO_CONFIG: &str = "[source.crates-io]\nreplace-with = \"vendored\"\n\n\
                            [source.vendored]\ndirectory = \"/vendor\"\n";

/// Returns the directory with the sources of all crates that the lock file names.
fn vendor() -> Result<PathBuf> {
    let lock = fs::read_to_string(workspace::top().join("Cargo.lock"))?;
    cache::entry("vendor", &cache::key(&[&lock]), |dir| {
        progress::step("download the crates", || {
            let mut command = workspace::cargo();
            command
                .args(["vendor", "--locked", "--quiet", "--versioned-dirs"])
                .arg(dir);
            progress::quiet(&mut command, &workspace::target().join("log/vendor.log"))
        })
    })
}

/// Moves the packages to the directory `out`, which then has no others.
fn gather(build: &Path, out: &Path) -> Result<()> {
    cache::remove(out)?;
    fs::create_dir_all(out)?;
    for entry in fs::read_dir(build)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            let name = path.file_name().context("a package without a name")?;
            fs::rename(&path, out.join(name))?;
        }
    }
    Ok(())
}
