// SPDX-License-Identifier: GPL-2.0-only

//! Every verb and every option of the programs is in the program's page: `documents.rs` checks the
//! opposite direction.

use clap::Command;
use std::fs;

/// Returns the page of a program.
fn page(program: &Command) -> String {
    let top = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/users");
    fs::read_to_string(format!("{top}/{}.md", program.get_name())).unwrap()
}

/// Options that the introduction of the page describes for all verbs.
const COMMON: [&str; 6] = ["json", "host", "guest", "watch", "count", "help"];

/// Returns whether a text has an option, and not only a longer one.
fn names(text: &str, option: &str) -> bool {
    text.match_indices(option).any(|(at, _)| {
        let next = text[at + option.len()..].chars().next();
        next.is_none_or(|next| next != '-' && !next.is_alphanumeric())
    })
}

/// Returns the options of a command and of the verbs below it, each as `VERB --OPTION`, that a text
/// does not name.
fn undescribed(command: &Command, text: &str) -> Vec<String> {
    let options = command.get_arguments().filter_map(|it| it.get_long());
    let own = options.filter(|option| !COMMON.contains(option));
    let own = own.map(|option| format!("--{option}"));
    let missing = own.filter(|option| !names(text, option));
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
    let program = ddctl::command();
    let page = page(&program);
    let sections: Vec<&str> = page.split("\n### ").collect();
    for option in COMMON.iter().filter(|option| **option != "help") {
        assert!(sections[0].contains(&format!("`--{option}")), "{option}");
    }
    let mut missing = Vec::new();
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

/// The section `Commands` of a daemon's page has its verbs and their options.
#[test]
fn verbs_and_options_of_the_daemons_are_described() {
    for program in [policyd::cli::command(), ddhostd::cli::command()] {
        let page = page(&program);
        let (_, section) = page.split_once("\n## Commands\n").unwrap();
        let section = section.split("\n## ").next().unwrap();
        let mut missing = Vec::new();
        for verb in program.get_subcommands().filter(|it| !it.is_hide_set()) {
            let line = format!("\n{} {} ", program.get_name(), verb.get_name());
            if !section.contains(&line) {
                missing.push(format!("no line about {}", verb.get_name()));
            }
            let options = verb.get_arguments().filter_map(|it| it.get_long());
            let is_named = |option: &&str| names(section, &format!("--{option}"));
            let options = options.filter(|option| *option != "help" && !is_named(option));
            missing.extend(options.map(|option| format!("{} --{option}", verb.get_name())));
        }
        assert!(
            missing.is_empty(),
            "docs/users/{}.md: {}",
            program.get_name(),
            missing.join(", ")
        );
    }
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
