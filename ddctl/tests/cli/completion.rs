// SPDX-License-Identifier: GPL-2.0-only

//! Candidates for shells.

use crate::world::World;
use ddnl::fake::{Fault, HostState};
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
    let numbers = ["id:1", "id:2", "vm3"];
    assert_eq!(candidates(&world, "ddctl set-weight "), numbers);
}

/// Shells insert candidates without quotes, and users choose names.
#[test]
fn names_that_a_shell_would_execute_are_replaced_by_numbers() {
    let world = World::host();
    let hostile = [
        "a$(id)",
        "a`id`",
        "a;b",
        "a|b",
        "a&b",
        "a>b",
        "a b",
        "a'b",
        "a\"b",
        "a\\b",
        "a*",
        "~a",
        "#a",
        "!a",
        "{a,b}",
        "-a",
        "2",
        "id:2",
        "a/b",
        "\u{1b}[2J",
    ];
    for name in hostile {
        world.file("/proc/4001/cmdline", &format!("qemu\0-name\0{name}\0"));
        let wanted = ["id:1", "mail", "vm3"];
        assert_eq!(candidates(&world, "ddctl set-weight "), wanted, "{name}");
        let container = |state: &mut HostState| state.pools[2].name = name.into();
        world.host.with(container);
        let found = candidates(&world, "ddctl stats mail/");
        let wanted = match name {
            // A container may have a name like a path.
            "id:2" | "a/b" => format!("mail/{name}"),
            _ => "mail/0".into(),
        };
        assert_eq!(found, [wanted], "{name}");
    }
    world.file("/dev/a;b", "");
    world.run("ssd add /dev/a;b");
    assert_eq!(candidates(&world, "ddctl ssd remove "), ["0"]);
    // The VM before the slash is what the user typed.
    world.file("/proc/4001/cmdline", "qemu\0-name\0a;b\0");
    assert!(candidates(&world, "ddctl stats a;b/").is_empty());
    assert_eq!(
        candidates(&world, "ddctl stats id:1/"),
        ["id:1/default", "id:1/nginx"]
    );
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
    world.host.with(|state| state.fault = Fault::Forbidden);
    assert_eq!(candidates(&world, "ddctl flush "), Vec::<String>::new());
    let world = World::new();
    assert_eq!(candidates(&world, "ddctl flush "), Vec::<String>::new());
    assert_eq!(candidates(&world, "ddctl mode w"), ["weighted"]);
}
