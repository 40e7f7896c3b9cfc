// SPDX-License-Identifier: GPL-2.0-only

//! What the documents show exists in the programs: commands, their options, and files.

mod keys;

use clap::Command;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Memory of the machine that files for hosts are checked for, in bytes.
const MEMORY: u64 = 64 << 30;

fn top() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap().to_owned()
}

/// Returns the documents for users, by their paths.
fn documents() -> Vec<(String, String)> {
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path.display().to_string(), text)
    };
    let mut documents: Vec<_> = ["README.md", "CHANGELOG.md"]
        .map(|name| read(top().join(name)))
        .into();
    for directory in [
        "docs",
        "docs/users",
        "docs/developers",
        "docs/developers/decisions",
    ] {
        for entry in fs::read_dir(top().join(directory)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "md") {
                documents.push(read(path));
            }
        }
    }
    assert!(documents.len() > 30);
    documents
}

/// Returns commands in code, inline and in blocks, without prompts.
fn commands(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut is_block = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
        } else if is_block {
            let line = ["host#", "guest#", "both#", "#", "$"]
                .iter()
                .find_map(|prompt| line.strip_prefix(prompt))
                .unwrap_or(line);
            commands.push(line.trim().to_owned());
        }
    }
    // Code in prose may go on in the next line.
    let blocks: Vec<&str> = text.split("```").step_by(2).collect();
    let prose = blocks.join(" ");
    let inline = prose.split('`').skip(1).step_by(2);
    commands.extend(inline.map(|code| code.split_whitespace().collect::<Vec<_>>().join(" ")));
    commands
}

/// Returns what is wrong with a command: an option, or a verb, that the program does not have.
fn wrong(program: &Command, words: &[&str]) -> Option<String> {
    let mut options: BTreeSet<String> = BTreeSet::new();
    let mut command = program;
    let mut is_first = true;
    for word in words {
        let longs = command
            .get_arguments()
            .filter_map(|argument| argument.get_long());
        options.extend(longs.map(|long| format!("--{long}")));
        options.extend(["--help".into(), "--version".into()]);
        if let Some(option) = word.strip_prefix("--").map(|_| word) {
            let name = option.split(['=', ',', ']', ')', '.', ';']).next()?;
            if !options.contains(name) {
                return Some(format!("no option {name}"));
            }
        } else if let Some(verb) = command.find_subcommand(word) {
            command = verb;
        } else if is_first {
            return Some(format!("no verb {word}"));
        } else if command.has_subcommands() {
            return Some(format!("no verb {word} of {}", command.get_name()));
        }
        is_first &= word.starts_with('-');
    }
    None
}

#[test]
fn commands_exist() {
    let programs = [
        ddctl::command(),
        ddhostd::cli::command(),
        policyd::cli::command(),
    ];
    let mut seen = 0;
    let mut broken = Vec::new();
    for (path, text) in documents() {
        for command in commands(&text) {
            let mut words = command.split_whitespace();
            let name = words.next().unwrap_or_default();
            let Some(program) = programs.iter().find(|one| one.get_name() == name) else {
                continue;
            };
            // What follows is another command, a comment, or an explanation in columns.
            let line = command.split(" #").next().unwrap_or_default();
            let line = line.split("   ").next().unwrap_or_default();
            let line = line.replace(['[', ']', '(', ')'], " ");
            let words: Vec<&str> = line
                .split_whitespace()
                .skip(1)
                .take_while(|word| !["|", "&&", "…", "...", ">"].contains(word))
                .collect();
            seen += 1;
            if let Some(wrong) = wrong(program, &words) {
                broken.push(format!("{path}: `{command}`: {wrong}"));
            }
        }
    }
    assert!(seen > 100, "{seen}");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn wrong_commands_are_noticed() {
    let ddctl = ddctl::command();
    for right in [
        "stats --watch",
        "container set-store web none",
        "--json status",
        "ssd list",
    ] {
        let words: Vec<&str> = right.split(' ').collect();
        assert_eq!(wrong(&ddctl, &words), None, "{right}");
    }
    for broken in [
        "stat",
        "stats --wach",
        "container set-colour web",
        "ssd lst",
    ] {
        let words: Vec<&str> = broken.split(' ').collect();
        assert!(wrong(&ddctl, &words).is_some(), "{broken}");
    }
}

/// Returns the problems of a file. Its first line may tell for which program it is; otherwise one
/// of them must accept it.
fn problems(file: &str) -> Option<String> {
    let guest = || policyd::config::Config::parse(file).err();
    let host = || ddvm::Config::parse(file, MEMORY).err();
    match file.lines().next() {
        Some("# policyd.toml") => guest().map(|problems| format!("{problems:?}")),
        Some("# host.toml") => host().map(|problems| format!("{problems:?}")),
        _ => {
            let (guest, host) = (guest()?, host()?);
            Some(format!("policyd: {guest:?}; ddhostd: {host:?}"))
        }
    }
}

/// Pages with files that readers copy. These say by their first line for which program they are.
const COPIED: [&str; 4] = ["install", "recipes", "sizing", "troubleshooting"];

#[test]
fn files_are_accepted() {
    let (mut names, mut files) = (BTreeSet::new(), 0);
    for (path, text) in documents() {
        for block in text.split("```toml\n").skip(1) {
            let file = block.split("```").next().unwrap();
            if let Some(problems) = problems(file) {
                panic!("{path}: {problems} in\n{file}");
            }
            if COPIED
                .iter()
                .any(|page| path.ends_with(&format!("docs/users/{page}.md")))
            {
                names.insert(file.lines().next().unwrap().to_owned());
            }
            files += 1;
        }
    }
    let expected = ["# host.toml", "# policyd.toml"].map(str::to_owned);
    assert_eq!(names, BTreeSet::from(expected));
    assert!(files > 12, "{files}");
}

#[test]
fn wrong_files_are_noticed() {
    for right in [
        "metrics = \"127.0.0.1\"\n",
        "[memory]\ncapacity = \"8GiB\"\n",
        "[[container]]\nname = \"a\"\ncgroup = \"/a\"\n",
    ] {
        assert_eq!(problems(right), None, "{right}");
    }
    for broken in [
        "metric = \"127.0.0.1\"\n",
        "[memory]\ncapacity = \"8GiB\"\n[[container]]\nname = \"a\"\ncgroup = \"/a\"\n",
        "# policyd.toml\n[memory]\ncapacity = \"8GiB\"\n",
        "# host.toml\n[[container]]\nname = \"a\"\ncgroup = \"/a\"\n",
    ] {
        assert!(problems(broken).is_some(), "{broken}");
    }
}
