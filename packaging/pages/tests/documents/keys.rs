// SPDX-License-Identifier: GPL-2.0-only

//! The documents name all keys of the configuration files and all parameters of the modules, and
//! none that does not exist.

use super::{MEMORY, documents, top};
use std::{collections::BTreeSet, fs};

type Keys = BTreeSet<String>;

fn text(path: &str) -> String {
    fs::read_to_string(top().join(path)).unwrap()
}

/// Returns the keys of each table of a file, which the messages about unknown keys list.
fn listed<'a>(messages: impl Iterator<Item = &'a str>) -> BTreeSet<Keys> {
    let lists = messages.filter_map(|message| message.split_once("known are "));
    let lists = lists.map(|(_, list)| list.split(", ").map(Into::into).collect());
    lists.collect()
}

fn of_policyd() -> BTreeSet<Keys> {
    let wrong = "zzzzzzzz = 1\n[runtimes]\nzzzzzzzz = 1\n[reclaim]\nzzzzzzzz = 1\n[offload]\n\
                 zzzzzzzz = 1\n[[container]]\nzzzzzzzz = 1\n[container.target]\nzzzzzzzz = 1\n\
                 source = { zzzzzzzz = 1 }\n";
    let problems = policyd::config::Config::parse(wrong).unwrap_err();
    listed(problems.iter().map(|problem| problem.message.as_str()))
}

fn of_ddhostd() -> BTreeSet<Keys> {
    let wrong = "zzzzzzzz = 1\n[memory]\nzzzzzzzz = 1\n[ssd]\nzzzzzzzz = 1\n\
                 [[ssd.device]]\nzzzzzzzz = 1\n[[vm]]\nzzzzzzzz = 1\n";
    let problems = ddvm::Config::parse(wrong, MEMORY).unwrap_err();
    listed(problems.iter().map(|problem| problem.message.as_str()))
}

/// Returns the words in code of a part of a line.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the keys of each table of a document: the code in the first column of a table whose
/// first heading begins with this word.
fn tabled(document: &str, heading: &str) -> BTreeSet<Keys> {
    let mut tables = BTreeSet::new();
    let mut keys: Option<Keys> = None;
    for line in document.lines().chain([""]) {
        let first = line
            .strip_prefix("| ")
            .and_then(|line| line.split(" |").next());
        match (first, &mut keys) {
            (Some(first), None) if first.split(' ').next() == Some(heading) => {
                keys = Some(Keys::new());
            }
            (Some(first), Some(keys)) => keys.extend(code(first).map(Into::into)),
            (None, Some(_)) if !line.starts_with('|') => tables.extend(keys.take()),
            _ => {}
        }
    }
    tables
}

/// Asserts that two sets are equal. The message lists the elements that only one of them has.
fn assert_same(what: &str, told: &BTreeSet<Keys>, known: &BTreeSet<Keys>) {
    let extra: Vec<_> = told.difference(known).collect();
    let missing: Vec<_> = known.difference(told).collect();
    assert!(
        extra.is_empty() && missing.is_empty(),
        "{what} has tables of {extra:#?}\nand the program knows {missing:#?}"
    );
}

/// Each table of keys in the page of policyd has the keys of one table of its file.
#[test]
fn keys_of_policyd_are_those_of_its_page() {
    let known = of_policyd();
    assert_eq!(known.len(), 7, "{known:?}");
    assert_same(
        "docs/users/policyd.md",
        &tabled(&text("docs/users/policyd.md"), "key"),
        &known,
    );
}

/// Settings in the prose of all documents, written as `KEY = VALUE`, have keys of one of the files.
#[test]
fn settings_in_prose_have_known_keys() {
    let keys: Keys = of_policyd()
        .into_iter()
        .chain(of_ddhostd())
        .flatten()
        .collect();
    let mut seen = 0;
    for (path, document) in documents() {
        // Blocks are checked as whole files.
        let prose: String = document.split("```").step_by(2).collect();
        for setting in code(&prose) {
            let Some((key, value)) = setting.split_once(" = ") else {
                continue;
            };
            let is_key = key
                .chars()
                .all(|letter| letter.is_ascii_lowercase() || "_-".contains(letter));
            let is_value = value
                .starts_with(|first: char| "\"[{".contains(first) || first.is_ascii_digit())
                || ["true", "false"].contains(&value);
            if is_key && is_value {
                seen += 1;
                assert!(
                    keys.contains(key),
                    "{path}: no file has the key of `{setting}`"
                );
            }
        }
    }
    assert!(seen > 20, "{seen}");
}

/// Returns the names between two marks in a text.
fn between<'a>(text: &'a str, (begin, end): (&str, &str)) -> impl Iterator<Item = &'a str> {
    let parts = text.split(begin).skip(1);
    parts.filter_map(move |part| Some(part.split_once(end)?.0.trim()))
}

/// Returns the parameters of a module, as its sources declare them: in Rust, in a block of the
/// module's macro, and in C.
fn declared(module: &str) -> Keys {
    let directory = format!("{module}-module");
    let source = text(&format!("{directory}/src/main.rs"));
    let block = between(&source, ("    params: {\n", "\n    },\n")).next();
    let lines = block.unwrap_or_default().lines();
    let names = lines.filter_map(|line| line.strip_suffix('{')?.split_once(": "));
    let mut parameters: Keys = names.map(|(name, _)| name.trim().into()).collect();
    for entry in fs::read_dir(top().join(&directory).join("shim")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "c") {
            let source = fs::read_to_string(path).unwrap();
            parameters.extend(between(&source, ("module_param_named(", ",")).map(Into::into));
            parameters.extend(between(&source, ("module_param(", ",")).map(Into::into));
        }
    }
    parameters
}

#[test]
fn parameters_of_the_modules_are_those_of_their_page() {
    let page = text("docs/users/operations.md");
    let rows = page
        .lines()
        .skip_while(|line| !line.starts_with("| parameter |"));
    let rows: Vec<&str> = rows
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .collect();
    for (module, count) in [("host", 3), ("guest", 2)] {
        let declared = declared(module);
        assert_eq!(declared.len(), count, "{declared:?}");
        let of_module = |row: &&&str| row.split(" | ").nth(1) == Some(module);
        let told = rows.iter().filter(of_module);
        let told: Keys = told
            .filter_map(|row| code(row).next())
            .map(Into::into)
            .collect();
        assert_eq!(
            told, declared,
            "docs/users/operations.md, module of the {module}"
        );
        // The file that the packages install shows each with its default.
        let file = text(&format!("packaging/modprobe.d/doubledecker-{module}.conf"));
        let mark = format!("# options doubledecker_{module} ");
        let shown: Keys = between(&file, (&mark, "=")).map(Into::into).collect();
        assert_eq!(shown, declared, "doubledecker-{module}.conf");
    }
}

#[test]
fn tables_of_keys_are_found() {
    let page = "| key | meaning |\n|---|---|\n| `a`, `b` | `c` |\n| one of | |\n\n\
                | key of `[x]` | y |\n|---|---|\n| `d` | |\n\n| word |\n|---|\n| `e` |\n";
    let keys = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Keys>();
    let expected = BTreeSet::from([keys(&["a", "b"]), keys(&["d"])]);
    assert_eq!(tabled(page, "key"), expected);
}
