// SPDX-License-Identifier: GPL-2.0-only

//! `integrations`: checks the files for other systems with these systems' own tools, and that
//! policyd finds the containers of runtimes.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, bail};

use crate::{chroot::Chroot, kubernetes, package, progress, root, tools, workspace};

/// Check the files for libvirt, Kubernetes, cloud-init, Ansible, RPM and Arch with their tools, and
/// start Docker, containerd, LXC and a cluster of Kubernetes, whose containers policyd must find
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// The files, one folder for each system.
const DIRECTORY: &str = "packaging/integrations";
/// The scripts that check them, of the same names.
const CHECKS: &str = "packaging/checks";

/// The scripts that start runtimes. Files that they share have no name of a runtime.
const RUNTIMES: &str = "packaging/checks/runtimes";
const SHARED: [&str; 2] = ["expect", "node"];
/// Those that need programs of Kubernetes.
const KUBERNETES: [&str; 2] = ["crictl", "kubelet"];

pub(crate) fn run(_: &Args) -> Result<bool> {
    package::install_missing()?;
    let top = workspace::top();
    let mut failed = Vec::new();
    let root = root::integrations()?;
    for name in names(&top.join(CHECKS))? {
        let root = Chroot::new(&root);
        check(Ok(root), &name, &format!("/checks/{name}.sh"), &mut failed);
    }
    let root = root::runtimes()?;
    let tools = tools::build(&["policyd"])?;
    for name in runtimes(&top.join(RUNTIMES))? {
        let mut root = Ok(Chroot::new(&root).bind(&tools, "/tools"));
        if KUBERNETES.contains(&name.as_str()) {
            root =
                kubernetes::programs().and_then(|programs| Ok(root?.bind(programs, "/kubernetes")));
        }
        check(
            root,
            &name,
            &format!("/checks/runtimes/{name}.sh"),
            &mut failed,
        );
    }
    if !failed.is_empty() {
        bail!("the checks of {} failed", failed.join(", "));
    }
    println!("no complaints");
    Ok(true)
}

/// Executes a script in a root, if there is one. Adds the name of a check that fails to `failed`.
fn check(root: Result<Chroot>, name: &str, script: &str, failed: &mut Vec<String>) {
    let execute = || {
        let root = root?
            .bind(workspace::top().join(CHECKS), "/checks")
            .bind(workspace::top().join(DIRECTORY), "/integrations");
        let mut command = root.command("sh");
        command
            .args(["-eux", script])
            .env("PATH", "/tools:/kubernetes:/usr/sbin:/usr/bin:/sbin:/bin");
        let log = workspace::target().join(format!("log/integration-{name}.log"));
        progress::quiet(&mut command, &log)
    };
    if let Err(error) = progress::step(name, execute) {
        eprintln!("{error:#}");
        failed.push(name.to_owned());
    }
}

/// Returns the names of the runtimes that scripts start.
fn runtimes(scripts: &Path) -> Result<Vec<String>> {
    let names = names(scripts)?.into_iter();
    Ok(names
        .filter(|name| !SHARED.contains(&name.as_str()))
        .collect())
}

/// Returns the names of the scripts in a folder, in their order.
fn names(checks: &Path) -> Result<Vec<String>> {
    let list = fs::read_dir(checks).with_context(|| format!("cannot list {}", checks.display()))?;
    let mut names = Vec::new();
    for entry in list {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(".sh").map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt as _, process::Command};

    use super::*;

    fn text(path: &str) -> String {
        fs::read_to_string(workspace::top().join(path)).unwrap()
    }

    /// An integration that is not checked by a tool could break unnoticed.
    #[test]
    fn every_integration_is_checked_and_described() {
        let top = workspace::top();
        let list = fs::read_dir(top.join(DIRECTORY)).unwrap();
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let mut folders: Vec<String> = list.map(|entry| name(entry.unwrap())).collect();
        folders.sort();
        assert_eq!(names(&top.join(CHECKS)).unwrap(), folders);
        let page = text("docs/users/integrations.md");
        for folder in folders {
            let link = format!("packaging/integrations/{folder}");
            assert!(
                page.contains(&link),
                "{link} is not in docs/users/integrations.md"
            );
        }
    }

    /// The page says of each runtime whether policyd was tried with it.
    #[test]
    fn every_runtime_that_is_started_is_described() {
        let found = runtimes(&workspace::top().join(RUNTIMES)).unwrap();
        assert_eq!(found, ["containerd", "crictl", "docker", "kubelet", "lxc"]);
        let page = text("docs/users/integrations.md");
        for name in found {
            assert!(page.contains(&format!("`packaging/checks/runtimes/{name}.sh`")));
        }
    }

    #[test]
    fn versions_are_that_of_the_workspace() {
        let version = env!("CARGO_PKG_VERSION");
        let spec = text("packaging/integrations/rpm/doubledecker.spec");
        assert!(spec.contains(&format!("\nVersion:        {version}\n")));
        let pkgbuild = text("packaging/integrations/arch/PKGBUILD");
        assert!(pkgbuild.contains(&format!("\npkgver={version}\n")));
        let manifest = text("packaging/integrations/kubernetes/policyd.yaml");
        assert!(manifest.contains(&format!("/policyd:{version}\n")));
    }

    /// Other packages install what Debian's do, by `packaging/install.sh`.
    #[test]
    fn the_files_of_a_package_are_installed() {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path().join("tree");
        let root = directory.path().join("root");
        for path in ["packaging", "ddhostd", "policyd", "docs", "README.md"] {
            let mut copy = Command::new("cp");
            copy.arg("-R").arg("--parents").arg(path).arg(&tree);
            fs::create_dir_all(&tree).unwrap();
            assert!(
                copy.current_dir(workspace::top())
                    .status()
                    .unwrap()
                    .success()
            );
        }
        for (path, mode) in [
            ("release/ddctl", 0o755),
            ("release/ddhostd", 0o755),
            ("release/policyd", 0o755),
            ("pages/man/ddctl.1", 0o644),
            ("pages/man/ddhostd.8", 0o644),
            ("pages/man/host.toml.5", 0o644),
            ("pages/bash/ddctl.bash", 0o644),
            ("pages/fish/ddctl.fish", 0o644),
            ("pages/zsh/_ddctl", 0o644),
        ] {
            let path = tree.join("target").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "x").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let install = |package: &str| {
            Command::new("sh")
                .arg("packaging/install.sh")
                .arg(&root)
                .args(["1.2.3", package])
                .current_dir(&tree)
                .output()
                .unwrap()
        };
        let output = install("doubledecker-tools");
        assert!(output.status.success(), "{output:?}");
        for path in [
            "usr/bin/ddctl",
            "usr/sbin/ddhostd",
            "usr/lib/systemd/system/doubledecker-ddhostd.service",
            "etc/doubledecker/host.toml",
            "etc/doubledecker/policyd.toml",
            "usr/share/doubledecker/examples/host.toml",
            "usr/share/man/man1/ddctl.1",
            "usr/share/man/man8/ddhostd.8",
            "usr/share/man/man5/host.toml.5",
            "usr/share/doubledecker/doubledecker.json",
            "usr/share/doubledecker/netlink/dd_host.yaml",
            "usr/share/doubledecker/integrations/libvirt/qemu",
        ] {
            assert!(root.join(path).is_file(), "{path}");
        }
        let mode = |path: &str| fs::metadata(root.join(path)).unwrap().permissions().mode();
        assert_eq!(mode("usr/bin/ddctl") & 0o777, 0o755);
        // A program that was not built is an error, and so is an unknown package.
        fs::remove_file(tree.join("target/release/ddctl")).unwrap();
        assert!(!install("doubledecker-tools").status.success());
        assert!(!install("doubledecker-nothing").status.success());
    }
}
