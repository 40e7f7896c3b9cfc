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
        "schema",
        "advise",
        "support-bundle",
        "top",
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
        let mut help = world.run(line.trim());
        if !verb.is_empty() {
            help = without_global_options(&help);
        }
        insta::assert_snapshot!(name, help);
    }
}

/// Returns a help without the options of all verbs, which [`check_help`] looks for.
fn without_global_options(help: &str) -> String {
    const LAST: &str = "Use the guest module if both modules are loaded\n";
    let (own, rest) = help.split_once("\nGlobal options:\n").unwrap();
    let (_, rest) = rest.split_once(LAST).unwrap();
    format!("{own}{rest}")
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

/// Checks the help of a verb and of the verbs below it.
fn check_help(command: &clap::Command, line: &str) {
    let help = World::new().outcome(&format!("{line} --help")).out;
    let (_, examples) = help
        .split_once("\nExamples:\n")
        .unwrap_or_else(|| panic!("{line}: {help}"));
    let first = examples.lines().next().unwrap();
    assert!(first.starts_with(&format!("  ddctl {line}").trim_end().to_owned()) || line.is_empty());
    for text in help.lines() {
        assert!(text.chars().count() <= 80, "{line}: {text}");
    }
    // Options of all commands come last.
    let (own, global) = help.split_once("\nGlobal options:\n").unwrap();
    for option in ["  --json", "  --host", "  --guest"] {
        assert!(!own.contains(option) && global.contains(option), "{help}");
    }
    for verb in command.get_subcommands() {
        check_help(verb, format!("{line} {}", verb.get_name()).trim());
    }
}

#[test]
fn every_help_has_examples_and_fits() {
    check_help(&ddctl::command(), "");
}

#[test]
fn tables_fit() {
    let host = World::host();
    host.file("/dev/nvme0n1", "");
    host.run("ssd add /dev/nvme0n1");
    let guest = World::guest();
    let report = crate::policy::REPORT.replace("\\u001b[2J", "");
    crate::policy::daemon(&guest, report.leak());
    for (world, line) in [
        (&host, "status"),
        (&host, "vm list"),
        (&host, "stats"),
        (&host, "stats --watch --count 2"),
        (&host, "stats web/nginx"),
        (&host, "ssd list"),
        (&guest, "stats"),
        (&guest, "stats --curve"),
        (&guest, "container list"),
        (&guest, "policy"),
        (&guest, "status"),
    ] {
        for text in world.outcome(line).out.lines() {
            assert!(text.chars().count() <= 80, "{line}: {text}");
        }
    }
}
