// SPDX-License-Identifier: GPL-2.0-only

//! Writes the tables of `docs/users/netlink.md` from `docs/netlink/*.yaml` and compares them with
//! the page. What the specification cannot say, errors and senders of events, is compared with the
//! sources of the modules.

use ddabi::genl::{GUEST_FAMILY, HOST_FAMILY};
use std::{collections::BTreeSet, env, fmt::Write as _, fs, path::PathBuf};
use yaml_rust2::{Yaml, YamlLoader};

const PAGE: &str = "docs/users/netlink.md";
/// Set to write the tables instead of comparing them.
const WRITE: &str = "DD_WRITE_REFERENCE";

fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(file)
}

fn text(file: &str) -> String {
    fs::read_to_string(path(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn specification(family: &str) -> Yaml {
    let text = text(&format!("docs/netlink/{family}.yaml"));
    YamlLoader::load_from_str(&text).unwrap().remove(0)
}

fn list<'a>(yaml: &'a Yaml, key: &str) -> &'a [Yaml] {
    yaml[key].as_vec().map_or(&[], Vec::as_slice)
}

fn word<'a>(yaml: &'a Yaml, key: &str) -> &'a str {
    yaml[key].as_str().unwrap_or_default()
}

/// Returns a documentation as one line that is safe in a table.
fn doc(yaml: &Yaml) -> String {
    let text = word(yaml, "doc");
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace('|', "\\|")
}

/// Returns names in code, or a dash.
fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.is_empty() {
        true => "–".into(),
        false => names.join(", "),
    }
}

fn attributes_of(part: &Yaml) -> Vec<&str> {
    let names = list(part, "attributes").iter();
    names.filter_map(Yaml::as_str).collect()
}

/// Returns the commands of a family, with the attributes of requests and replies.
fn commands(specification: &Yaml) -> String {
    let mut table = String::from(
        "| number | command | request | reply | what it does |\n|---|---|---|---|---|\n",
    );
    for command in list(&specification["operations"], "list") {
        let [act, dump, event] = ["do", "dump", "event"].map(|kind| &command[kind]);
        let (kind, request, reply) = match (act.is_badvalue(), dump.is_badvalue()) {
            (false, _) => ("", &act["request"], &act["reply"]),
            (_, false) => (" (dump)", &dump["request"], &dump["reply"]),
            _ => (" (notification)", &Yaml::BadValue, event),
        };
        let _ = writeln!(
            table,
            "| {} | `{}`{kind} | {} | {} | {} |",
            command["value"].as_i64().unwrap(),
            word(command, "name"),
            names(attributes_of(request)),
            names(attributes_of(reply)),
            doc(command),
        );
    }
    table
}

/// Returns the attributes that a family uses.
fn used(specification: &Yaml) -> BTreeSet<&str> {
    let commands = list(&specification["operations"], "list").iter();
    commands
        .flat_map(|command| {
            [
                &command["do"]["request"],
                &command["do"]["reply"],
                &command["dump"]["request"],
                &command["dump"]["reply"],
                &command["event"],
            ]
        })
        .flat_map(attributes_of)
        .collect()
}

/// Returns the attributes of both families, which have the same numbers.
fn attributes(host: &Yaml, guest: &Yaml) -> String {
    let mut table =
        String::from("| number | attribute | type | family | meaning |\n|---|---|---|---|---|\n");
    let [of_host, of_guest] = [host, guest].map(used);
    for attribute in list(&host["attribute-sets"][0], "attributes") {
        let name = word(attribute, "name");
        let kind = match word(attribute, "enum") {
            "" => word(attribute, "type").to_owned(),
            values => format!("{}, [{values}](#{values})", word(attribute, "type")),
        };
        let family = match (of_host.contains(name), of_guest.contains(name)) {
            (true, true) => "both",
            (true, false) => "host",
            (false, true) => "guest",
            (false, false) => panic!("no command has the attribute {name}"),
        };
        let _ = writeln!(
            table,
            "| {} | `{name}` | {kind} | {family} | {} |",
            attribute["value"].as_i64().unwrap(),
            doc(attribute),
        );
    }
    table
}

/// Returns constants and enumerations, which are the same in both families.
fn values(host: &Yaml) -> String {
    let of_kind = |kind: &'static str| {
        let all = list(host, "definitions").iter();
        all.filter(move |one| word(one, "type") == kind)
    };
    let mut text = String::from("| constant | value | meaning |\n|---|---|---|\n");
    for constant in of_kind("const") {
        let value = constant["value"].as_i64().unwrap();
        let _ = writeln!(
            text,
            "| `{}` | {value} | {} |",
            word(constant, "name"),
            doc(constant)
        );
    }
    for values in of_kind("enum") {
        let _ = writeln!(text, "\n### {}\n\n{}\n", word(values, "name"), doc(values));
        text.push_str("| value | name | meaning |\n|---|---|---|\n");
        for entry in list(values, "entries") {
            let value = entry["value"].as_i64().unwrap();
            let _ = writeln!(
                text,
                "| {value} | `{}` | {} |",
                word(entry, "name"),
                doc(entry)
            );
        }
    }
    text
}

/// Replaces the text between the marks of a part.
fn replace(page: &str, part: &str, table: &str) -> String {
    let [begin, end] = ["begin", "end"].map(|word| format!("<!-- {part}: {word} -->"));
    let (before, rest) = page.split_once(&begin).expect(&begin);
    let (_, after) = rest.split_once(&end).expect(&end);
    format!("{before}{begin}\n\n{}\n\n{end}{after}", table.trim_end())
}

#[test]
fn the_tables_are_those_of_the_specification() {
    let [host, guest] = [HOST_FAMILY, GUEST_FAMILY].map(specification);
    let there = text(PAGE);
    let mut page = there.clone();
    for (part, table) in [
        ("commands of dd_host", commands(&host)),
        ("commands of dd_guest", commands(&guest)),
        ("attributes", attributes(&host, &guest)),
        ("values", values(&host)),
    ] {
        page = replace(&page, part, &table);
    }
    if env::var_os(WRITE).is_some() {
        fs::write(path(PAGE), &page).unwrap();
        return;
    }
    assert!(
        there == page,
        "{PAGE} does not have the tables of docs/netlink/*.yaml: run \
         `{WRITE}=1 cargo test -p ddnl --test reference`"
    );
}

/// The page has one table of attributes and values for both families.
#[test]
fn both_families_describe_attributes_and_values_alike() {
    let [host, guest] = [HOST_FAMILY, GUEST_FAMILY].map(specification);
    assert_eq!(host["attribute-sets"], guest["attribute-sets"]);
    assert_eq!(host["definitions"], guest["definitions"]);
}

/// Returns the rows of the table below a heading, each as its cells, without the names of columns.
fn rows<'a>(page: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let (_, section) = page.split_once(&format!("{heading}\n")).expect(heading);
    let lines = section.lines().take_while(|line| !line.starts_with('#'));
    let rows = lines.filter(|line| line.starts_with("| ")).skip(1);
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

/// Returns the messages of a source.
fn messages(source: &str) -> BTreeSet<&str> {
    let literals = source.split("c\"").skip(1);
    let ends = literals.filter_map(|rest| rest.split_once('"'));
    ends.map(|(message, _)| message).collect()
}

/// Returns whether an error number stands beside a message in a source.
fn is_beside(source: &str, message: &str, number: &str) -> bool {
    let lines: Vec<&str> = source.lines().collect();
    let at = lines.iter().position(|line| line.contains(message));
    at.is_some_and(|at| {
        let end = (at + 3).min(lines.len());
        lines[at.saturating_sub(2)..end]
            .iter()
            .any(|line| line.contains(number))
    })
}

#[test]
fn the_page_has_all_messages() {
    let page = text(PAGE);
    for (heading, sources) in [
        (
            "### Errors of dd_host",
            &[
                "host-module/src/control.rs",
                "host-module/src/control/devices.rs",
            ][..],
        ),
        ("### Errors of dd_guest", &["guest-module/src/control.rs"]),
    ] {
        let source: String = sources.iter().map(|file| text(file)).collect();
        let rows = rows(&page, heading);
        let shown: BTreeSet<&str> = rows.iter().map(|row| row[0]).collect();
        assert_eq!(shown, messages(&source), "{heading}");
        for row in rows {
            let (message, number) = (row[0], row[1].trim_matches('`'));
            assert!(
                number == "others" || is_beside(&source, message, number),
                "{message}: {number}"
            );
        }
    }
}

/// Returns the events that the sources of a module send, by their names in the specification.
fn sent(module: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut directories = vec![path(&format!("{module}/src"))];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let source = fs::read_to_string(&path).unwrap();
            for rest in source.split("Event::").skip(1) {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric());
                found.insert(kebab(&rest[..end.unwrap_or(rest.len())]));
            }
        }
    }
    found
}

/// Converts a name such as `VmCame` to `vm-came`.
fn kebab(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push('-');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

#[test]
fn the_page_says_who_sends_events() {
    let page = text(PAGE);
    let rows = rows(&page, "## Events");
    for (column, module) in [(1, "host-module"), (2, "guest-module")] {
        let marked = rows.iter().filter(|row| row[column] == "yes");
        let marked: BTreeSet<String> = marked.map(|row| row[0].trim_matches('`').into()).collect();
        let mut sent = sent(module);
        sent.retain(|name| rows.iter().any(|row| row[0].trim_matches('`') == name));
        assert_eq!(marked, sent, "{module}");
    }
    let events = &specification(HOST_FAMILY)["definitions"];
    let events = events.as_vec().unwrap().iter();
    let events = events.filter(|one| word(one, "name") == "event");
    let known: usize = events.map(|one| list(one, "entries").len()).sum();
    assert_eq!(rows.len(), known);
}
