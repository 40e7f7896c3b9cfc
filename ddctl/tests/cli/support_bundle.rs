// SPDX-License-Identifier: GPL-2.0-only

//! The archive for support.

use crate::world::World;
use flate2::read::GzDecoder;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

/// Returns the files of an archive.
fn unpack(path: &Path) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(path).unwrap()));
    let read = |entry: std::io::Result<tar::Entry<'_, _>>| {
        let mut entry: tar::Entry<'_, GzDecoder<File>> = entry.unwrap();
        let name = entry.path().unwrap().to_string_lossy().into_owned();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (name, text)
    };
    archive.entries().unwrap().map(read).collect()
}

fn world() -> World {
    let world = World::host();
    for (path, text) in [
        ("/sys/module/doubledecker_host/version", "0.1.0\n"),
        ("/sys/module/doubledecker_host/parameters/max_vms", "1024\n"),
        ("/etc/os-release", "ID=debian\n"),
        ("/etc/doubledecker/host.toml", "# host\n"),
        ("/etc/doubledecker/secret.key", "never\n"),
        ("/etc/modprobe.d/doubledecker-host.conf", "options\n"),
        ("/etc/shadow", "never\n"),
        (
            "/dev/kmsg",
            "6,1,1,-;usb: a device\n6,2,2,-;doubledecker_host: ready\n",
        ),
    ] {
        world.file(path, text);
    }
    world
}

/// The archive has no files but those of the list.
#[test]
fn content_is_a_fixed_list() {
    let world = world();
    let outcome = world.run("support-bundle /bundle.tar.gz");
    insta::assert_snapshot!(outcome);
    let path = world.file_path("/bundle.tar.gz");
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let files = unpack(&path);
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "ddctl-support/advise.txt",
            "ddctl-support/doctor.txt",
            "ddctl-support/doubledecker-host.conf",
            "ddctl-support/doubledecker_host/parameters/max_vms",
            "ddctl-support/doubledecker_host/version",
            "ddctl-support/errors.txt",
            "ddctl-support/host.toml",
            "ddctl-support/kernel.log",
            "ddctl-support/os-release",
            "ddctl-support/ssd.json",
            "ddctl-support/stats.json",
            "ddctl-support/stats.txt",
            "ddctl-support/status.json",
            "ddctl-support/status.txt",
            "ddctl-support/version.txt",
        ]
    );
    let of = |name: &str| files[&format!("ddctl-support/{name}")].as_str();
    assert_eq!(of("kernel.log"), "6,2,2,-;doubledecker_host: ready\n");
    assert_eq!(of("status.txt"), world.outcome("status").out);
    assert_eq!(of("doubledecker_host/parameters/max_vms"), "1024\n");
    assert!(of("errors.txt").contains("$ ddctl stats --curve --json\n{\"error\""));
    assert!(files.values().all(|text| !text.contains("never")));
}

#[test]
fn a_machine_without_modules_has_a_bundle_too() {
    let world = World::new();
    let outcome = world.outcome("support-bundle /bundle.tar.gz --json");
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
    let files = unpack(&world.file_path("/bundle.tar.gz"));
    assert!(files.contains_key("ddctl-support/doctor.txt"));
    assert!(files["ddctl-support/errors.txt"].contains("/dev/kmsg: No such file"));
}

#[test]
fn no_file_is_replaced() {
    let world = world();
    world.file("/bundle.tar.gz", "precious");
    let outcome = world.outcome("support-bundle /bundle.tar.gz");
    assert_eq!(outcome.code, 1);
    assert!(outcome.err.contains("File exists"), "{}", outcome.err);
    let kept = fs::read_to_string(world.file_path("/bundle.tar.gz")).unwrap();
    assert_eq!(kept, "precious");
}
