// SPDX-License-Identifier: GPL-2.0-only

//! Tests of the documents and of the example.

use ddvm::Config;
use std::{collections::BTreeSet, fs, path::Path};

const MEMORY: u64 = 64 << 30;

fn repository(path: &str) -> String {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    fs::read_to_string(top.join(path)).unwrap()
}

/// Returns all keys, which the messages about unknown keys list.
fn keys() -> BTreeSet<String> {
    let wrong = "zzzzzzzz = 1\n[memory]\nzzzzzzzz = 1\n[ssd]\nzzzzzzzz = 1\n\
                 [[ssd.device]]\nzzzzzzzz = 1\n[[vm]]\nzzzzzzzz = 1\n";
    let problems = Config::parse(wrong, MEMORY).unwrap_err();
    let lists = problems.iter().filter_map(|problem| {
        let (_, list) = problem.message.split_once("known are ")?;
        Some(list.split(", ").map(Into::into).collect::<Vec<String>>())
    });
    let keys: BTreeSet<String> = lists.flatten().collect();
    assert_eq!(keys.len(), 24, "{keys:?}");
    keys
}

#[test]
fn the_example_is_right_with_and_without_its_comments() {
    let text = repository("ddhostd/host.toml");
    assert!(Config::parse(&text, MEMORY).is_ok());
    let shown = |line: &str| {
        let line = line.strip_prefix("# ")?;
        let is_toml = line.starts_with('[') || line.contains(" = ");
        is_toml.then(|| line.to_owned())
    };
    let all: Vec<String> = text.lines().filter_map(shown).collect();
    let config = Config::parse(&all.join("\n"), MEMORY).unwrap();
    assert_eq!(config.entries.len(), 3);
    assert!(config.memory.capacity.is_some());
    assert_eq!(config.ssd.devices.len(), 1);
}

#[test]
fn the_playbook_is_right() {
    let text = repository("packaging/integrations/ansible/site.yml");
    let (_, text) = text.split_once("doubledecker_config: |\n").unwrap();
    let lines = text.lines().take_while(|line| !line.starts_with("- name"));
    let text: String = lines.map(|line| format!("{}\n", line.trim())).collect();
    let config = Config::parse(&text, MEMORY).unwrap();
    assert_eq!(config.entries.len(), 1);
    assert!(config.memory.capacity.is_some());
}

/// The examples of the documentation are valid, and its table lists all keys and no others.
#[test]
fn the_documentation_is_valid() {
    let text = repository("docs/users/ddhostd.md");
    let mut examples = 0;
    for block in text.split("```toml\n").skip(1) {
        let example = block.split("```").next().unwrap();
        if let Err(problems) = Config::parse(example, MEMORY) {
            panic!("{problems:?} in\n{example}");
        }
        examples += 1;
    }
    assert!(examples > 0);
    let (_, section) = text.split_once("\n## The file\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let key = |line: &str| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned());
    let told: BTreeSet<String> = section.lines().filter_map(key).collect();
    assert_eq!(told, keys());
}
