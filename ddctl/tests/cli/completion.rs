// SPDX-License-Identifier: GPL-2.0-only

//! Candidates for shells.

use crate::world::World;
use ddnl::fake::Mood;
use std::ffi::OsString;

/// Returns the candidates for the last word of a line.
fn candidates(world: &World, line: &str) -> Vec<String> {
    let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
    let last = words.len() - 1;
    let mut command = ddctl::completing(world, words.clone());
    let found = clap_complete::engine::complete(&mut command, words, last, None).unwrap();
    let names = found.iter().map(|one| one.get_value().to_string_lossy());
    names
        .filter(|name| !name.starts_with('-'))
        .map(Into::into)
        .collect()
}

#[test]
fn names_on_a_host() {
    let world = World::host();
    world.file("/dev/nvme0n1", "");
    world.run("ssd add /dev/nvme0n1");
    assert_eq!(
        candidates(&world, "ddctl set-weight "),
        ["mail", "vm3", "web"]
    );
    assert_eq!(candidates(&world, "ddctl set-weight web m"), ["mail"]);
    assert_eq!(candidates(&world, "ddctl stats web"), ["web"]);
    assert_eq!(
        candidates(&world, "ddctl stats web/"),
        ["web/default", "web/nginx"]
    );
    assert_eq!(candidates(&world, "ddctl flush mail/"), ["mail/default"]);
    assert_eq!(
        candidates(&world, "ddctl ssd remove /dev"),
        ["/dev/nvme0n1"]
    );
    assert_eq!(candidates(&world, "ddctl stat"), ["status", "stats"]);
    // A name that two VMs have is refused by the verbs.
    world.file("/proc/4002/cmdline", "qemu\0-name\0web\0");
    assert_eq!(candidates(&world, "ddctl set-weight "), ["vm3"]);
    // Names must not control the terminal.
    world.file("/proc/4001/cmdline", "qemu\0-name\0\u{1b}[2J\0");
    let names = candidates(&world, "ddctl set-weight ").concat();
    assert!(!names.contains('\u{1b}'), "{names}");
}

#[test]
fn names_in_a_guest() {
    let world = World::guest();
    let all = ["default", "nginx", "postgres"];
    assert_eq!(candidates(&world, "ddctl stats "), all);
    assert_eq!(candidates(&world, "ddctl set-weight "), all);
    assert_eq!(candidates(&world, "ddctl container remove n"), ["nginx"]);
    assert_eq!(
        candidates(&world, "ddctl container set-policy nginx "),
        Vec::<String>::new()
    );
}

#[test]
fn no_names_without_a_module_or_permission() {
    let world = World::host();
    world.host.with(|state| state.mood = Mood::Forbidden);
    assert_eq!(candidates(&world, "ddctl flush "), Vec::<String>::new());
    let world = World::new();
    assert_eq!(candidates(&world, "ddctl flush "), Vec::<String>::new());
    assert_eq!(candidates(&world, "ddctl mode w"), ["weighted"]);
}
