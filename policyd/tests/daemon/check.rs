// SPDX-License-Identifier: GPL-2.0-only

//! Tests of `policyd check`: errors of the file, and what the machine lacks.

use assert_cmd::cargo::cargo_bin_cmd;
use insta::assert_snapshot;
use policyd::{check::inspect, config::Config};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

const ID: &str = "3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f";
const A: &str = "[[container]]\nname = \"a\"\ncgroup = \"/a\"\n";

/// A directory in place of the root of a machine, with cgroup version 2 in `cgroup`.
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(TempDir::new().unwrap());
        machine.write("cgroup/cgroup.controllers", "cpu io memory pids\n");
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn cgroup(&self, path: &str) {
        fs::create_dir_all(self.path("cgroup").join(path)).unwrap();
    }

    /// Returns containers, below the machine's root of cgroups.
    fn file(&self, containers: &str) -> String {
        let root = self.path("cgroup");
        format!("cgroup_root = \"{}\"\n{containers}", root.display())
    }

    /// Returns what the machine lacks for containers, without its directory's name.
    fn lacks(&self, containers: &str) -> Vec<String> {
        let config = Config::parse(&self.file(containers)).unwrap();
        let warnings = inspect(&config, self.0.path()).unwrap();
        let place = self.0.path().to_str().unwrap();
        warnings.iter().map(|one| one.replace(place, "")).collect()
    }

    /// Runs `policyd check`. Returns the exit code, and the output without the directory's name.
    fn check(&self, text: &str, more: &[&str]) -> (Option<i32>, String) {
        let file = self.path("policyd.toml");
        fs::write(&file, text).unwrap();
        let mut policyd = cargo_bin_cmd!("policyd");
        let output = policyd.arg("check").args(more).arg(&file).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        let place = format!("{}/", self.0.path().display());
        (output.status.code(), text.replace(&place, ""))
    }
}

fn one(key: &str, value: &str) -> String {
    format!("[[container]]\nname = \"web\"\n{key} = \"{value}\"\n")
}

#[test]
fn check_tells_right_from_wrong() {
    let machine = Machine::new();
    machine.cgroup("a");
    let (code, text) = machine.check(&machine.file(A), &[]);
    assert_eq!(
        (code, text.as_str()),
        (Some(0), "policyd.toml: OK, 1 container\n")
    );
    let (code, text) = machine.check("intervall_s = 1\n[[container]]\nname = \"a\"\n", &[]);
    assert_eq!(code, Some(1));
    assert_snapshot!(text);
}

/// A container that is not there may appear later, so that only `--strict` fails.
#[test]
fn a_container_that_is_not_there_is_told() {
    let machine = Machine::new();
    let file = machine.file(A);
    for (more, expected) in [(&[][..], 0), (&["--strict"], 3)] {
        let (code, text) = machine.check(&file, more);
        assert_eq!(code, Some(expected), "{text}");
        let first = "policyd.toml: valid, 1 container, 1 warning\n\
                     Warning: container `a`: there is no cgroup /a now\nHint: ";
        assert!(text.starts_with(first), "{text}");
    }
    let (code, text) = machine.check(&file, &["--file-only"]);
    let right = "policyd.toml: OK, 1 container\n";
    assert_eq!((code, text.as_str()), (Some(0), right));
    machine.cgroup("a");
    assert_eq!(machine.check(&file, &["--strict"]).0, Some(0));
}

/// Neither the store nor guest memory can help these targets, on any machine.
#[test]
fn a_target_that_policyd_cannot_help_is_an_error() {
    let machine = Machine::new();
    machine.cgroup("a");
    let error = |cause: &str| {
        format!(
            "Error: container `a`: policyd can never meet its target: {cause} keeps no page of it \
             at the host, and guest memory is only changed with `manage_memory = true`\n\
             Hint: set `manage_memory = true`, let the host keep pages, or remove the target\n"
        )
    };
    let target = "target = { io_pressure = 5 }\n";
    for (keys, cause) in [
        ("store = \"none\"\n", Some("`store = \"none\"`")),
        ("cache_ceiling = 0\n", Some("`cache_ceiling` of 0")),
        ("cache_ceiling = \"0%\"\n", Some("`cache_ceiling` of 0")),
        ("cache_ceiling = \"1%\"\n", None),
        ("store = \"none\"\nmanage_memory = true\n", None),
        ("store = \"hybrid\"\ncache_ceiling = 0\n", None),
        ("", None),
    ] {
        let file = machine.file(&format!("{A}{keys}{target}"));
        for more in [&[][..], &["--file-only"]] {
            let (code, text) = machine.check(&file, more);
            match cause {
                Some(cause) => assert_eq!((code, text), (Some(3), error(cause)), "{keys}"),
                None => assert_eq!(code, Some(0), "{keys}{text}"),
            }
        }
    }
    // Without a target there is nothing to miss.
    let file = machine.file(&format!("{A}store = \"none\"\nclass = \"gold\"\n"));
    assert_eq!(machine.check(&file, &[]).0, Some(0));
}

#[test]
fn a_machine_without_cgroups_is_not_ready() {
    let machine = Machine::new();
    machine.cgroup("a");
    let file = machine.file(A);
    machine.write("cgroup/cgroup.controllers", "cpu pids\n");
    let (code, text) = machine.check(&file, &[]);
    assert_eq!(code, Some(3));
    let start = "Error: cgroup v2 in cgroup has no memory controller: ";
    assert!(text.starts_with(start), "{text}");
    fs::remove_file(machine.path("cgroup/cgroup.controllers")).unwrap();
    let (code, text) = machine.check(&file, &[]);
    let error = "Error: cgroup is not the root of cgroup v2: mount it, or set `cgroup_root`\n";
    assert_eq!((code, text.as_str()), (Some(3), error));
    // The file itself is right.
    assert_eq!(machine.check(&file, &["--file-only"]).0, Some(0));
}

#[test]
fn each_container_with_a_name_is_looked_for() {
    let machine = Machine::new();
    machine.write("var/lib/docker/containers/x", "");
    let tasks = "run/containerd/io.containerd.runtime.v2.task/k8s.io";
    machine.write(&format!("{tasks}/x"), "");
    let user = "user.slice/user-1000.slice/user@1000.service/app.slice";
    let pod = "kubepods.slice/kubepods-podx.slice";
    let bundle = json!({ "annotations": {
        "io.kubernetes.cri.container-type": "container",
        "io.kubernetes.cri.container-name": "nginx",
        "io.kubernetes.cri.sandbox-name": "web-0",
        "io.kubernetes.cri.sandbox-namespace": "shop",
    }});
    for (key, value, cgroup, file, missing) in [
        (
            "cgroup",
            "/x/web",
            "x/web",
            None,
            "there is no cgroup /x/web",
        ),
        (
            "unit",
            "web",
            "system.slice/web.service",
            None,
            "unit web.service has no cgroup",
        ),
        (
            "user_unit",
            "1000/web",
            &format!("{user}/web.service"),
            None,
            "unit 1000/web.service of a user has no cgroup",
        ),
        (
            "lxc",
            "web",
            "lxc.payload.web",
            None,
            "`lxc web` does not run",
        ),
        (
            "docker",
            "web",
            &format!("system.slice/docker-{ID}.scope"),
            Some((
                format!("var/lib/docker/containers/{ID}/config.v2.json"),
                json!({ "Name": "/web" }),
            )),
            "`docker web` does not run",
        ),
        (
            "pod",
            "shop/web-0",
            &format!("{pod}/cri-containerd-{ID}.scope"),
            Some((format!("{tasks}/{ID}/config.json"), bundle)),
            "`pod shop/web-0/*` does not run",
        ),
    ] {
        let warning = format!("container `web`: {missing} now");
        assert_eq!(
            machine.lacks(&one(key, value)),
            std::slice::from_ref(&warning),
            "{key}"
        );
        machine.cgroup(cgroup);
        if let Some((path, content)) = file {
            // The cgroup alone does not tell the name.
            assert_eq!(machine.lacks(&one(key, value)), [warning], "{key}");
            machine.write(&path, &content.to_string());
        }
        assert_eq!(machine.lacks(&one(key, value)), [""; 0], "{key}");
    }
}

/// No cgroup of a glob needs to be there.
#[test]
fn globs_may_select_nothing() {
    let machine = Machine::new();
    machine.write("run/containerd/io.containerd.runtime.v2.task/x", "");
    for (key, value) in [
        ("cgroup", "/x/*"),
        ("unit", "web*"),
        ("user_unit", "*/web"),
        ("pod", "shop/*"),
    ] {
        assert_eq!(machine.lacks(&one(key, value)), [""; 0], "{key}");
    }
}

/// Without the files of a runtime none of its containers is found, whatever its name is.
#[test]
fn runtimes_without_files_are_told() {
    let machine = Machine::new();
    let warning = |key: &str, reasons: &str| {
        format!(
            "no container is found by `{key}` now: {reasons}. Start the runtime, or name its \
             directories in [runtimes]"
        )
    };
    let twice = format!("{}{}", one("docker", "web"), one("docker", "db*")).replacen("web", "a", 1);
    let docker = warning("docker", "there is no /var/lib/docker/containers");
    assert_eq!(machine.lacks(&twice), [docker]);
    let storages = "there is no /run/containers/storage, there is no /var/lib/containers/storage";
    let podman = warning("podman", storages);
    assert_eq!(machine.lacks(&one("podman", "*")), [podman]);
    let storage = "var/lib/containers/storage";
    fs::create_dir_all(machine.path(storage)).unwrap();
    let storages = "there is no /run/containers/storage, there is no \
                    /var/lib/containers/storage/*-containers";
    let podman = warning("podman", storages);
    assert_eq!(machine.lacks(&one("podman", "*")), [podman]);
    machine.write(
        &format!("{storage}/overlay-containers/containers.json"),
        "[]",
    );
    assert_eq!(machine.lacks(&one("podman", "*")), [""; 0]);
    // Pods are those of containerd or of CRI-O.
    let both = "there is no /run/containerd/io.containerd.runtime.v2.task, there is no \
                /run/containers/storage, there is no \
                /run/k3s/containerd/io.containerd.runtime.v2.task";
    assert_eq!(machine.lacks(&one("pod", "*")), [warning("pod", both)]);
    machine.write("run/containers/storage/overlay-containers/x", "");
    assert_eq!(machine.lacks(&one("pod", "*")), [""; 0]);
    assert_eq!(machine.lacks(&one("lxc", "*")), [""; 0]);
}

#[test]
fn runtimes_are_looked_for_where_the_file_says() {
    let machine = Machine::new();
    machine.write("var/lib/docker/containers/x", "");
    let file = format!(
        "[runtimes]\ndocker = [\"/srv/docker\"]\n{}",
        one("docker", "*")
    );
    let warnings = machine.lacks(&file);
    let reason = "there is no /srv/docker/containers. ";
    assert!(warnings[0].contains(reason), "{warnings:?}");
    machine.write("srv/docker/containers/x", "");
    assert_eq!(machine.lacks(&file), [""; 0]);
}

/// A directory that cannot be listed is another matter than one that is missing.
#[test]
fn the_reason_is_told() {
    let machine = Machine::new();
    machine.write("var/lib/docker/containers", "");
    let warnings = machine.lacks(&one("docker", "*"));
    let reason = "/var/lib/docker/containers cannot be read: Not a directory";
    assert!(warnings[0].contains(reason), "{warnings:?}");
    let absent = Config::parse("cgroup_root = \"/proc/1/status\"\n").unwrap();
    let error = inspect(&absent, Path::new("/")).unwrap_err().to_string();
    let start = "cannot read /proc/1/status/cgroup.controllers: Not a directory";
    assert!(error.starts_with(start), "{error}");
}
