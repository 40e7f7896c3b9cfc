// SPDX-License-Identifier: GPL-2.0-only

//! The hook of libvirt (`packaging/integrations/libvirt`), with a ddctl that notes how it was
//! called.

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};
use tempfile::TempDir;

const DOMAIN: &str = include_str!("libvirt/web.xml");
const ELEMENT: &str =
    "<dd:cache xmlns:dd=\"urn:doubledecker:1\" weight=\"300\" ssd-weight=\"50\"/>";

/// Runs the hook as libvirt does, with a ddctl that ends with this code. Returns the calls of
/// ddctl, one a line.
fn hook(arguments: &[&str], description: &[u8], code: u8) -> String {
    let directory = TempDir::new().unwrap();
    let [program, calls] = ["ddctl", "calls"].map(|name| directory.path().join(name));
    let script =
        format!("#!/bin/sh\necho \"$*\" >>\"${{0%/*}}/calls\"\necho no >&2\nexit {code}\n");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let path = std::env::var("PATH").unwrap();
    let mut hook = Command::new(top.join("packaging/integrations/libvirt/qemu"))
        .args(arguments)
        .env("PATH", format!("{}:{path}", directory.path().display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the hook needs python3");
    // The hook need not read a description that it does not use.
    let _ = hook.stdin.take().unwrap().write_all(description);
    let output = hook.wait_with_output().unwrap();
    // libvirt takes output for a changed description, and an error for a refusal.
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!((output.status.code(), text.as_str()), (Some(0), ""));
    fs::read_to_string(calls).unwrap_or_default()
}

const START: [&str; 4] = ["web", "start", "begin", "-"];

#[test]
fn a_domain_that_starts_gets_its_weight() {
    let call = "set-weight --save --later --cgroup /machine.slice --ssd 50 name:web 300\n";
    assert_eq!(hook(&START, DOMAIN.as_bytes(), 0), call);
    // The weight in the SSD tier is the same unless it is given.
    let both = DOMAIN.replace(" ssd-weight=\"50\"", "");
    let call = "set-weight --save --later --cgroup /machine.slice name:web 300\n";
    assert_eq!(hook(&START, both.as_bytes(), 0), call);
    // The name is passed as one argument, even if it looks like an option.
    let odd = ["--host", "start", "begin", "-"];
    let call = "set-weight --save --later --cgroup /machine.slice --ssd 50 name:--host 300\n";
    assert_eq!(hook(&odd, DOMAIN.as_bytes(), 0), call);
}

/// The weight is for VMs of libvirt only, because other users can choose the same name.
#[test]
fn the_cgroup_is_that_of_the_partition() {
    assert_eq!(DOMAIN.matches("<partition>/machine</partition>").count(), 1);
    for (partition, cgroup) in [
        ("/machine", "/machine.slice"),
        ("/machine/shop", "/machine.slice"),
        ("/shop", "/shop.slice"),
        ("/shop.slice/a", "/shop.slice"),
    ] {
        let other = DOMAIN.replace(">/machine<", &format!(">{partition}<"));
        let call = format!("set-weight --save --later --cgroup {cgroup} --ssd 50 name:web 300\n");
        assert_eq!(hook(&START, other.as_bytes(), 0), call);
    }
    for wrong in ["", "/", "shop", "/*", "/a-b", "/a{b,c}", "/../shop", "/ /a"] {
        let other = DOMAIN.replace(">/machine<", &format!(">{wrong}<"));
        assert_eq!(hook(&START, other.as_bytes(), 0), "", "{wrong}");
    }
}

#[test]
fn other_operations_are_left_alone() {
    for (operation, step) in [
        ("prepare", "begin"),
        ("started", "begin"),
        ("stopped", "end"),
        ("release", "end"),
        ("migrate", "begin"),
        ("restore", "begin"),
        ("reconnect", "begin"),
        ("attach", "begin"),
    ] {
        let arguments = ["web", operation, step, "-"];
        assert_eq!(hook(&arguments, DOMAIN.as_bytes(), 0), "", "{operation}");
    }
    assert_eq!(hook(&[], b"", 0), "");
}

#[test]
fn a_domain_without_a_weight_is_left_alone() {
    let without = DOMAIN.replace(ELEMENT, "");
    assert_ne!(without, DOMAIN);
    assert_eq!(hook(&START, without.as_bytes(), 0), "");
    assert_eq!(hook(&START, b"<domain type='kvm'/>", 0), "");
}

/// The domain starts in spite of the error.
#[test]
fn errors_do_not_prevent_a_domain_from_starting() {
    for weight in ["", "-1", "10001", "many", "1e3", "٣", "3; reboot"] {
        let wrong = DOMAIN.replace("weight=\"300\"", &format!("weight=\"{weight}\""));
        assert_ne!(wrong, DOMAIN);
        assert_eq!(hook(&START, wrong.as_bytes(), 0), "", "{weight}");
    }
    let nameless = DOMAIN.replace(" weight=\"300\"", "");
    assert_eq!(hook(&START, nameless.as_bytes(), 0), "");
    for text in [
        &b""[..],
        b"<domain>",
        b"\xff\xfe",
        b"<network/>",
        &DOMAIN.as_bytes()[..900],
    ] {
        assert_eq!(hook(&START, text, 0), "");
    }
    // ddctl fails, for example because the file is wrong.
    assert_ne!(hook(&START, DOMAIN.as_bytes(), 1), "");
}
