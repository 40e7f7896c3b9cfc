// SPDX-License-Identifier: GPL-2.0-only

//! Tests of names of VMs, which come from the command lines of all processes that may use KVM.

use crate::world::World;
use insta::assert_snapshot;
use serde_json::Value;
use std::{
    process::Command,
    time::{Duration, Instant},
};

/// Returns the names of all VMs in the JSON output.
fn names(world: &World) -> Vec<Value> {
    let outcome = world.outcome("vm list --json");
    assert!(
        outcome
            .out
            .chars()
            .all(|letter| letter == '\n' || !letter.is_control())
    );
    let json: Value = serde_json::from_str(&outcome.out).unwrap();
    let vms = json["vms"].as_array().unwrap();
    vms.iter().map(|vm| vm["name"].clone()).collect()
}

/// Returns the weights of all VMs.
fn weights(world: &World) -> Vec<u32> {
    let vms = world.host.with(|state| state.vms.clone());
    vms.iter().map(|vm| vm.weight).collect()
}

/// A user's VM has the name, or the uuid, of another VM.
#[test]
fn a_name_of_two_vms_is_refused() {
    let uuid = "6b0a5e44-1f0e-4b62-9d0c-0d9e6f6f0a11";
    for (arguments, wanted) in [
        ("-name\0web\0".to_owned(), "web"),
        (format!("-uuid\0{uuid}\0"), uuid),
        (format!("-name\0{uuid}\0"), uuid),
    ] {
        let world = World::host();
        world.file("/proc/4002/cmdline", &format!("qemu\0{arguments}"));
        for line in ["set-weight", "flush"] {
            let weight = if line == "flush" { "" } else { "5" };
            let outcome = world.outcome(&format!("{line} {wanted} {weight}"));
            assert_eq!(outcome.code, 5, "{}", outcome.out);
            let hint = "id:1 (pid 4001, uid 107), id:2 (pid 4002, uid 1000)";
            assert!(outcome.err.contains(hint), "{}", outcome.err);
        }
        assert_eq!(weights(&world), [60, 40, 0]);
    }
}

/// A user has named a VM after the number, or the process id, of a VM that is gone.
#[test]
fn a_number_is_not_a_name() {
    for name in ["9", "4711", "4001"] {
        let world = World::host();
        world.file("/proc/4002/cmdline", &format!("qemu\0-name\0{name}\0"));
        let outcome = world.outcome(&format!("set-weight {name} 77"));
        let expected = if name == "4001" { 0 } else { 5 };
        assert_eq!(outcome.code, expected, "{}", outcome.err);
        assert_eq!(weights(&world)[1], 40);
        let outcome = world.outcome(&format!("set-weight name:{name} 78"));
        assert_eq!(outcome.code, 0, "{}", outcome.err);
        assert_eq!(weights(&world)[1], 78);
    }
}

/// The VMM has ended, and another process may have its process id.
#[test]
fn a_vm_without_a_process_has_no_name() {
    let world = World::host();
    world.host.with(|state| state.vms[1].pid = 0);
    world.file("/proc/0/cmdline", "qemu\0-name\0web\0");
    assert_snapshot!(world.run("vm list"));
    assert_eq!(
        names(&world),
        [Value::from("web"), Value::Null, Value::Null]
    );
    for target in ["0", "pid:0", "mail"] {
        assert_eq!(world.outcome(&format!("set-weight {target} 9")).code, 5);
    }
    assert_eq!(world.outcome("set-weight vm2 9").code, 0);
}

#[test]
fn names_do_not_steer_terminals() {
    let world = World::host();
    let wild = "a\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}b\u{200b}\nc";
    world.file("/proc/4001/cmdline", &format!("qemu\0-name\0{wild}\0"));
    let shown = "a\\u{1b}]0;owned\\u{7}\\u{1b}[2J\\u{9b}31m\\u{202e}b\\u{200b}\\u{a}c";
    assert_eq!(names(&world)[0], shown);
    for line in ["vm list", "stats", "stats 1", "set-weight 1 5", "flush 1"] {
        let outcome = world.outcome(line);
        assert!(outcome.out.contains(shown), "{}", outcome.out);
        let steers = |letter: char| letter != '\n' && ddnl::is_hidden(letter);
        assert_eq!(outcome.out.find(steers), None, "{}", outcome.out);
    }
    // The VM is found by the name that is shown.
    assert_eq!(world.outcome(&format!("set-weight {shown} 6")).code, 0);
    world.file(
        "/proc/4001/cmdline",
        &format!("qemu\0-name\0{}\0", "x".repeat(256)),
    );
    assert_eq!(names(&world)[0], Value::Null);
}

/// A process may withhold the memory that its command line is read from. The names of other VMs are
/// shown, and the error for the missing name gives the reason.
#[test]
fn a_withheld_command_line_is_reported_and_delays_nothing() {
    let world = World::host();
    let path = world.file_path("/proc/4001/cmdline");
    std::fs::remove_file(&path).unwrap();
    let made = Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let start = Instant::now();
    assert_eq!(
        names(&world),
        [Value::Null, Value::from("mail"), Value::Null]
    );
    assert!(start.elapsed() < Duration::from_secs(30));
    let outcome = world.outcome("set-weight web 5");
    assert_eq!(outcome.code, 5);
    let silent = "of id:1 (pid 4001, uid 107) could not be read within 5 s: try again, or name";
    assert!(outcome.err.contains(silent), "{}", outcome.err);
}
