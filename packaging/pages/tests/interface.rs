// SPDX-License-Identifier: GPL-2.0-only

//! Scripts rely on the verbs of the programs, and on their arguments, options and values.

use clap::{Arg, Command};
use insta::assert_snapshot;

/// Adds a line for a command, and for each of its verbs.
fn tell(command: &Command, name: &str, lines: &mut Vec<String>) {
    let shown = command.get_arguments().filter(|one| !one.is_hide_set());
    let own = shown.filter(|one| name == command.get_name() || !one.is_global_set());
    let words = own.filter(|one| one.get_id() != "help").map(argument);
    lines.push(
        [name.to_owned()]
            .into_iter()
            .chain(words)
            .collect::<Vec<_>>()
            .join(" "),
    );
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    for verb in verbs.filter(|verb| verb.get_name() != "help") {
        tell(verb, &format!("{name} {}", verb.get_name()), lines);
    }
}

fn argument(argument: &Arg) -> String {
    let mut text = argument.to_string();
    if let (Some(short), Some(_)) = (argument.get_short(), argument.get_long()) {
        text = format!("-{short}/{text}");
    }
    let values = argument.get_possible_values();
    let names: Vec<&str> = values.iter().map(|value| value.get_name()).collect();
    if !names.is_empty() {
        text += &format!("={{{}}}", names.join(","));
    }
    // Flags have a default, too.
    let defaults = argument.get_default_values().iter();
    for default in defaults.filter(|_| argument.get_action().takes_values()) {
        text += &format!("={}", default.to_string_lossy());
    }
    text
}

#[test]
fn verbs_and_options_are_the_recorded_ones() {
    let mut lines = Vec::new();
    for mut program in [
        ddctl::command(),
        ddhostd::cli::command(),
        policyd::cli::command(),
    ] {
        program.build();
        tell(&program, program.get_name(), &mut lines);
    }
    assert_snapshot!(lines.join("\n"));
}
