// SPDX-License-Identifier: GPL-2.0-only

//! Dependencies have one direction, from crates that change often to crates that do not, as `cargo
//! metadata` reports them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use super::Source;
use crate::workspace;

/// A crate of the project: its name, the crates that it may depend on, and further ones that its
/// tests may use.
type Ours = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

/// The project's crates from the bottom up. Each names only crates above it in this list.
const OURS: &[Ours] = &[
    ("ddabi", &[], &[]),
    // Its tests use the feature `heap`.
    ("ddcore", &["ddabi"], &["ddcore"]),
    ("ddnl", &["ddabi"], &[]),
    ("ddconf", &["ddabi"], &[]),
    ("ddvm", &["ddabi", "ddconf", "ddnl"], &[]),
    ("dddaemon", &["ddabi", "ddnl"], &[]),
    ("ddsim", &["ddabi", "ddcore"], &[]),
    ("ddctl", &["ddabi", "ddconf", "ddnl", "ddsim", "ddvm"], &[]),
    (
        "ddhostd",
        &["ddabi", "ddconf", "dddaemon", "ddnl", "ddvm"],
        &[],
    ),
    (
        "policyd",
        &["ddabi", "ddconf", "dddaemon", "ddnl"],
        &["ddcore", "ddsim"],
    ),
    ("ddpages", &["ddctl", "ddhostd", "policyd"], &["ddvm"]),
    // The program in the test machines does not depend on the code under test.
    ("ddagent", &[], &[]),
    ("ddload", &[], &[]),
    ("ddhelper", &["ddabi", "ddagent", "ddload"], &[]),
    ("ddlab", &["ddagent"], &[]),
    ("ddreport", &[], &["ddcore", "ddsim"]),
    (
        "ddpapers",
        &["ddabi", "ddcore", "ddnl", "ddreport", "ddsim", "policyd"],
        &[],
    ),
    ("ddbench", &["ddabi", "ddcore", "ddlab"], &[]),
    ("dddemo", &["ddabi", "ddlab", "ddload", "ddreport"], &[]),
    (
        "ddscenarios",
        &["ddabi", "ddhelper", "ddlab", "ddload", "ddnl"],
        &[],
    ),
    ("ddfuzz", &["ddabi", "ddcore", "ddsim"], &[]),
    ("xtask", &["dddemo", "ddlab", "ddscenarios"], &[]),
];
/// Crates that the kernel build compiles as well, and the only external crates that it has.
const IN_KERNEL: [&str; 2] = ["ddabi", "ddcore"];
const KERNELS_OWN: [&str; 2] = ["zerocopy", "zerocopy-derive"];
/// Folders of crates for building and testing. All others are products.
const MACHINERY: [&str; 4] = ["fuzz", "packaging", "tests", "xtask"];
/// The workspaces, by their manifests.
const WORKSPACES: [&str; 2] = ["Cargo.toml", "fuzz/Cargo.toml"];

/// The part of the output of `cargo metadata` that is used here.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    /// Name of its package, whatever the depending crate calls it.
    name: String,
    /// `None` for dependencies of the crate itself.
    kind: Option<Kind>,
    /// Folder of a crate that is not from a registry.
    path: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Build,
    Dev,
}

pub(super) fn check(sources: &[Source], top: &Path) -> Result<Vec<String>> {
    let mut packages = Vec::new();
    for manifest in WORKSPACES {
        packages.extend(metadata(&top.join(manifest))?.packages);
    }
    let is_known = |source: &&Source| {
        let path = top.join(&source.path);
        let mut packages = packages.iter();
        packages.any(|package| package.manifest_path == path)
    };
    let mut broken: Vec<String> = sources
        .iter()
        .filter(|source| source.path.ends_with("/Cargo.toml"))
        .filter(|source| !is_known(source))
        .map(|source| format!("{}: no workspace has this crate", source.path))
        .collect();
    broken.extend(packages.iter().flat_map(|package| complaints(package, top)));
    Ok(broken)
}

fn metadata(manifest: &Path) -> Result<Metadata> {
    let output = workspace::cargo()
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .arg("--manifest-path")
        .arg(manifest)
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!(
            "cargo cannot read {}: {}",
            manifest.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    serde_json::from_slice(&output.stdout).context("cannot parse the output of cargo metadata")
}

/// Returns the violations in the dependencies of a crate.
fn complaints(package: &Package, top: &Path) -> Vec<String> {
    let path = folder(package.manifest_path.parent(), top);
    let name = package.name.as_str();
    let Some((_, ours, in_tests)) = OURS.iter().find(|(known, ..)| *known == name) else {
        return vec![format!(
            "{path}: say in xtask/src/tidy/dependency.rs what {name} may depend on"
        )];
    };
    let is_product = !is_machinery(&path);
    let may = |dependency: &Dependency| {
        let to = dependency.name.as_str();
        let is_for_tests = dependency.kind == Some(Kind::Dev);
        if is_product && is_machinery(&folder(dependency.path.as_deref(), top)) {
            return false;
        }
        match OURS.iter().any(|(known, ..)| *known == to) {
            true => ours.contains(&to) || is_for_tests && in_tests.contains(&to),
            false => is_for_tests || !IN_KERNEL.contains(&name) || KERNELS_OWN.contains(&to),
        }
    };
    let wrong = package.dependencies.iter().filter(|to| !may(to));
    wrong
        .map(|to| match to.kind {
            None => format!("{path}: {name} must not depend on {}", to.name),
            Some(Kind::Build) => format!("{path}: the build of {name} must not use {}", to.name),
            Some(Kind::Dev) => format!("{path}: the tests of {name} must not use {}", to.name),
        })
        .collect()
}

/// Returns a folder relative to the top of the tree; an empty string for a crate from a registry.
fn folder(path: Option<&Path>, top: &Path) -> String {
    let path = path.and_then(|path| path.strip_prefix(top).ok());
    path.map_or_else(String::new, |path| path.display().to_string())
}

fn is_machinery(folder: &str) -> bool {
    let first = folder.split('/').next().unwrap_or(folder);
    MACHINERY.contains(&first)
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    /// Returns the violations of a crate in a folder with one dependency. `path` is the folder of
    /// that dependency if it is not from a registry.
    fn of(name: &str, at: &str, kind: Option<&str>, to: &str, path: Option<&str>) -> Vec<String> {
        let package = from_value(json!({
            "name": name,
            "manifest_path": format!("/top/{at}/Cargo.toml"),
            "dependencies": [{
                "name": to,
                "kind": kind,
                "path": path.map(|path| format!("/top/{path}")),
            }],
        }));
        complaints(&package.expect("a package"), Path::new("/top"))
    }

    #[test]
    fn the_list_points_one_way() {
        for (at, (name, ours, in_tests)) in OURS.iter().enumerate() {
            for to in ours.iter().chain(*in_tests) {
                let below = OURS[..at].iter().any(|(known, ..)| known == to);
                assert!(below || to == name, "{name} and {to}");
            }
        }
    }

    #[test]
    fn a_dependency_on_a_later_crate_is_found() {
        assert!(of("ddcore", "ddcore", None, "ddabi", Some("ddabi")).is_empty());
        assert_eq!(
            of("ddabi", "ddabi", None, "ddcore", Some("ddcore")),
            ["ddabi: ddabi must not depend on ddcore"]
        );
        assert_eq!(
            of("ddcore", "ddcore", Some("dev"), "ddsim", Some("ddsim")),
            ["ddcore: the tests of ddcore must not use ddsim"]
        );
        assert_eq!(
            of("ddnl", "ddnl", Some("build"), "policyd", Some("policyd")),
            ["ddnl: the build of ddnl must not use policyd"]
        );
    }

    #[test]
    fn tests_may_use_more() {
        let dev = |kind| of("policyd", "policyd", kind, "ddsim", Some("ddsim")).len();
        assert_eq!((dev(Some("dev")), dev(None)), (0, 1));
    }

    #[test]
    fn a_product_that_depends_on_a_test_crate_is_noticed() {
        for kind in [None, Some("dev"), Some("build")] {
            assert_eq!(
                of("policyd", "policyd", kind, "ddlab", Some("tests/lab")).len(),
                1
            );
            // Crates of the machinery are refused, also where the name is allowed elsewhere or
            // unknown.
            assert_eq!(
                of("ddctl", "ddctl", kind, "ddsim", Some("tests/sim")).len(),
                1
            );
            assert_eq!(
                of("ddctl", "ddctl", kind, "new", Some("tests/new")).len(),
                1
            );
        }
        assert!(of("ddctl", "ddctl", None, "ddsim", Some("ddsim")).is_empty());
        assert!(of("xtask", "xtask", None, "ddlab", Some("tests/lab")).is_empty());
    }

    #[test]
    fn the_kernel_has_no_other_crates() {
        assert!(of("ddcore", "ddcore", None, "zerocopy", None).is_empty());
        assert!(of("ddcore", "ddcore", Some("dev"), "proptest", None).is_empty());
        assert_eq!(of("ddcore", "ddcore", None, "serde", None).len(), 1);
        assert!(of("policyd", "policyd", None, "serde", None).is_empty());
    }

    #[test]
    fn a_new_crate_is_asked_for_its_place() {
        assert_eq!(of("ddnew", "ddnew", None, "serde", None).len(), 1);
    }
}
