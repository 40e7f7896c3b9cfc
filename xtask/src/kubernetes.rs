// SPDX-License-Identifier: GPL-2.0-only

//! Programs of Kubernetes, which Debian does not have. They are built from Go modules.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::{cache, progress, workspace};

/// Version of Debian's kubectl.
const VERSION: &str = "1.32.3";
const PROGRAMS: [&str; 4] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
];
const CRICTL: &str = "sigs.k8s.io/cri-tools/cmd/crictl@v1.34.0";

/// Builds the programs, linked statically, and returns their directory.
pub(crate) fn programs() -> Result<PathBuf> {
    let key = cache::key(&[VERSION, &PROGRAMS.join(" "), CRICTL]);
    cache::entry("tools", &format!("kubernetes-{key}"), |dir| {
        progress::step("build Kubernetes (ten minutes or more, once)", || {
            let build = dir.join("build");
            fs::create_dir(&build)?;
            fs::write(build.join("go.mod"), module(&build)?)?;
            let log = workspace::target().join("log/kubernetes.log");
            let version = format!("-s -w -X k8s.io/component-base/version.gitVersion=v{VERSION}");
            let mut command = go(&build);
            command
                .args(["build", "-mod=mod", "-trimpath", "-ldflags", &version, "-o"])
                .arg(dir)
                .args(PROGRAMS.map(|name| format!("k8s.io/kubernetes/cmd/{name}")));
            progress::quiet(&mut command, &log)?;
            let mut command = go(&build);
            command
                .args(["install", "-trimpath", "-ldflags", "-s -w", CRICTL])
                .env("GOBIN", dir);
            progress::quiet(&mut command, &log)?;
            cache::remove(&build)
        })
    })
}

/// Returns a command for Go that leaves nothing but modules outside of `build`.
fn go(build: &Path) -> Command {
    let mut command = Command::new("go");
    command
        .current_dir(build)
        .env("CGO_ENABLED", "0")
        .env("GOCACHE", build.join("cache"))
        .env("GOTMPDIR", build);
    command
}

/// What Go says of a module.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Module {
    go_mod: PathBuf,
}

/// Returns the description of a module that requires Kubernetes. The modules of Kubernetes' own
/// repository are required by directories, which are not in Kubernetes' module, but are modules of
/// the registry as well.
fn module(build: &Path) -> Result<String> {
    let output = go(build)
        .args(["mod", "download", "-json"])
        .arg(format!("k8s.io/kubernetes@v{VERSION}"))
        .output()
        .context("cannot run go, which builds Kubernetes: install golang-go 1.24 or later")?;
    if !output.status.success() {
        bail!(
            "Go cannot download Kubernetes: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let module: Module = serde_json::from_slice(&output.stdout)?;
    Ok(description(&fs::read_to_string(module.go_mod)?))
}

/// Returns the description for that of Kubernetes.
fn description(kubernetes: &str) -> String {
    let minor = VERSION.trim_start_matches("1.");
    let mut text =
        format!("module checks\n\ngo 1.23.0\n\nrequire k8s.io/kubernetes v{VERSION}\n\n");
    for line in kubernetes.lines() {
        if let Some((name, _)) = line.trim().split_once(" => ./staging/") {
            text += &format!("replace {name} v0.0.0 => {name} v0.{minor}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_replaced_by_modules() {
        let of_kubernetes = "module k8s.io/kubernetes\n\nrequire k8s.io/api v0.0.0\n\nreplace (\n\
            \tk8s.io/api => ./staging/src/k8s.io/api\n)\n";
        assert!(description(of_kubernetes).ends_with(
            "require k8s.io/kubernetes v1.32.3\n\nreplace k8s.io/api v0.0.0 => k8s.io/api v0.32.3\n"
        ));
    }
}
