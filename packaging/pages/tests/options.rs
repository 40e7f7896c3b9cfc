// SPDX-License-Identifier: GPL-2.0-only

//! Every option of `ddctl` is in its page: `documents.rs` checks the opposite direction.

use clap::Command;
use std::fs;

/// The page.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/users/ddctl.md");

/// Options that the introduction of the page describes for all verbs.
const COMMON: [&str; 6] = ["json", "host", "guest", "watch", "count", "help"];

/// Returns the options of a command and of the verbs below it, each as `VERB --OPTION`, that a text
/// does not name.
fn undescribed(command: &Command, text: &str) -> Vec<String> {
    let options = command.get_arguments().filter_map(|it| it.get_long());
    let is_named = |option: &str| {
        text.match_indices(option).any(|(at, _)| {
            let next = text[at + option.len()..].chars().next();
            next.is_none_or(|next| next != '-' && !next.is_alphanumeric())
        })
    };
    let own = options.filter(|option| !COMMON.contains(option));
    let own = own.map(|option| format!("--{option}"));
    let missing = own.filter(|option| !is_named(option));
    let mut missing: Vec<String> = missing
        .map(|option| format!("{} {option}", command.get_name()))
        .collect();
    for verb in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        missing.extend(undescribed(verb, text));
    }
    missing
}

/// The section of a verb describes all its options, and those of the verbs below it.
#[test]
fn options_of_ddctl_are_described() {
    let page = fs::read_to_string(PAGE).unwrap();
    let sections: Vec<&str> = page.split("\n### ").collect();
    for option in COMMON.iter().filter(|option| **option != "help") {
        assert!(sections[0].contains(&format!("`--{option}")), "{option}");
    }
    let mut missing = Vec::new();
    let program = ddctl::command();
    for verb in program.get_subcommands().filter(|it| !it.is_hide_set()) {
        let name = verb.get_name();
        let is_of_verb = |section: &&&str| section.split_whitespace().next() == Some(name);
        match sections[1..].iter().find(is_of_verb) {
            Some(section) => missing.extend(undescribed(verb, section)),
            None => missing.push(format!("no section about {name}")),
        }
    }
    assert!(
        missing.is_empty(),
        "docs/users/ddctl.md: {}",
        missing.join(", ")
    );
}

#[test]
fn options_without_description_are_noticed() {
    let arg = |name: &'static str| clap::Arg::new(name).long(name);
    let verb = Command::new("verb").arg(arg("ssd")).arg(arg("json"));
    let program = Command::new("program").subcommand(verb);
    for text in ["`--ssd WEIGHT`", "--ssd", "`--ssd=1`"] {
        assert!(undescribed(&program, text).is_empty(), "{text}");
    }
    for text in ["ssd", "`--ssd-admit`", "--ssds"] {
        assert_eq!(undescribed(&program, text), ["verb --ssd"], "{text}");
    }
}
