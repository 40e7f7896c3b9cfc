// SPDX-License-Identifier: GPL-2.0-only

use crate::world::World;

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

/// Adds the help of a verb, and of the verbs below it.
fn pages(command: &clap::Command, line: &str, pages: &mut Vec<String>) {
    let words = format!("{line} --help");
    let words = words.trim();
    let help = World::new().outcome(words).out;
    pages.push(format!("$ ddctl {words}\n{help}"));
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        self::pages(verb, format!("{line} {}", verb.get_name()).trim(), pages);
    }
}

/// A change of the text that users read is seen in the change itself.
#[test]
fn the_help_is_the_recorded_one() {
    let mut all = Vec::new();
    pages(&ddctl::command(), "", &mut all);
    insta::assert_snapshot!(all.join("\n"));
}

/// Checks the help of a verb and of the verbs below it.
fn check_help(command: &clap::Command, line: &str) {
    let outcome = World::new().outcome(format!("{line} --help").trim());
    assert_eq!(outcome.code, 0, "{line}: {}", outcome.err);
    let help = outcome.out;
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
