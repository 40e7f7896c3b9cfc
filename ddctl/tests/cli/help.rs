// SPDX-License-Identifier: GPL-2.0-only

use crate::world::World;

#[test]
fn help_of_every_verb() {
    let world = World::new();
    for verb in [
        "",
        "status",
        "vm",
        "vm list",
        "set-weight",
        "set-capacity",
        "ssd",
        "ssd add",
        "ssd remove",
        "ssd list",
        "ssd set",
        "mode",
        "stats",
        "flush",
        "events",
        "doctor",
        "policy",
        "simulate",
        "container",
        "container list",
        "container add",
        "container remove",
        "container set-weight",
        "container set-policy",
        "container set-store",
    ] {
        let line = format!("{verb} --help");
        let name = format!("help {verb}").trim().replace(' ', "_");
        insta::assert_snapshot!(name, world.run(line.trim()));
    }
}

#[test]
fn help_lines_have_no_full_stop() {
    let world = World::new();
    let help = world.outcome("-h").out;
    let commands = help.split("Commands:").nth(1).unwrap();
    for line in commands.lines().take_while(|line| !line.starts_with("Opt")) {
        assert!(!line.ends_with('.'), "{line}");
    }
}

#[test]
fn version() {
    let outcome = World::new().outcome("--version");
    assert_eq!(
        outcome.out,
        concat!("ddctl ", env!("CARGO_PKG_VERSION"), "\n")
    );
    assert_eq!(outcome.code, 0);
}
