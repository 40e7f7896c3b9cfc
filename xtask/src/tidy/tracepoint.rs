// SPDX-License-Identifier: GPL-2.0-only

//! `docs/users/tracepoints.md` describes every tracepoint of the modules with every field, and no
//! other. Each tracepoint prints all of its fields, has room for the words that the page names, and
//! can be passed from Rust.

use std::collections::{BTreeMap, BTreeSet};

use super::Source;

const PAGE: &str = "docs/users/tracepoints.md";
/// The folders of the modules, and the headings of their sections in the page.
const MODULES: [(&str, &str); 2] = [
    ("host-module", "## Of a host"),
    ("guest-module", "## Of a guest"),
];

/// Names and types of the fields of an event, as the page has them.
type Fields = BTreeSet<(String, String)>;

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let text = |path: String| {
        let source = sources.iter().find(|source| source.path == path);
        source.map_or("", |source| source.text.as_str())
    };
    let page = text(PAGE.to_owned());
    let of_module = |(folder, heading): (&str, &str)| {
        let path = format!("{folder}/shim/tracepoints.h");
        let header = text(path.clone());
        let events = defined(header);
        let mut broken = unprinted(header);
        if events.is_empty() {
            broken.push("no event is defined".to_owned());
        }
        let passing = [
            text(format!("{folder}/shim/tracepoints.c")),
            text(format!("{folder}/src/ffi/tracepoints.rs")),
        ];
        broken.extend(unpassed(&events, passing));
        broken.extend(differences(&events, &described(page, heading)));
        broken.extend(too_long(header, page, heading));
        let tell = |what: String| format!("{path}: {what}");
        broken.into_iter().map(tell).collect::<Vec<_>>()
    };
    MODULES.into_iter().flat_map(of_module).collect()
}

/// Returns the differences between the events of a header and those of the page.
fn differences(
    defined: &BTreeMap<String, Fields>,
    described: &BTreeMap<String, Fields>,
) -> Vec<String> {
    let names: BTreeSet<_> = defined.keys().chain(described.keys()).collect();
    let mut broken = Vec::new();
    for name in names {
        match (defined.get(name), described.get(name)) {
            (Some(_), None) => broken.push(format!("{PAGE} lacks the event {name}")),
            (None, _) => broken.push(format!("{PAGE} has the event {name}, which is not defined")),
            (Some(fields), Some(told)) => {
                let lacking = fields.difference(told);
                broken.extend(lacking.map(|(field, of_type)| {
                    format!("{PAGE} lacks the field {field} of {name}, a {of_type}")
                }));
                let surplus = told.difference(fields);
                broken.extend(surplus.map(|(field, of_type)| {
                    format!("{PAGE} gives {name} the field {field}, a {of_type}")
                }));
            }
        }
    }
    broken
}

/// Returns the words of the page that do not fit into the array of their field. The event would
/// have only their beginning.
fn too_long(header: &str, page: &str, heading: &str) -> Vec<String> {
    let array = |line: &str| {
        let inner = line.trim().strip_prefix("__array(char, ")?;
        let (name, size) = inner.strip_suffix(')')?.split_once(", ")?;
        Some((name.to_owned(), size.parse::<usize>().ok()?))
    };
    let mut room = BTreeMap::new();
    for (name, size) in header.lines().filter_map(array) {
        let least = room.entry(name).or_insert(size);
        *least = size.min(*least);
    }
    let mut broken = Vec::new();
    for line in section(page, heading).lines() {
        let Some((field, meaning)) = line
            .strip_prefix("| `")
            .and_then(|row| row.split_once("` | word | "))
        else {
            continue;
        };
        // Every second part is in backticks. A word has no space.
        let words = meaning.split('`').skip(1).step_by(2);
        for word in words.filter(|word| !word.contains(' ')) {
            if room.get(field).is_some_and(|size| word.len() >= *size) {
                broken.push(format!("{field} has no room for {word}"));
            }
        }
    }
    broken
}

/// Returns the events whose functions C or Rust does not name.
fn unpassed(events: &BTreeMap<String, Fields>, [c, rust]: [&str; 2]) -> Vec<String> {
    let mut broken = Vec::new();
    for name in events.keys() {
        let short = name.strip_prefix("dd_").unwrap_or(name);
        if !c.contains(&format!("DD_TRACEPOINT({short},")) {
            broken.push(format!("{name} has no DD_TRACEPOINT in tracepoints.c"));
        }
        if !rust.contains(&format!("dd_trace_{short}(")) {
            broken.push(format!("{name} is not in ffi/tracepoints.rs"));
        }
    }
    broken
}

/// Returns the fields that `TP_printk` leaves out.
fn unprinted(header: &str) -> Vec<String> {
    let mut broken = Vec::new();
    for (macro_name, arguments) in blocks(header) {
        if macro_name == "DEFINE_EVENT" {
            continue;
        }
        let printed = arguments.split("TP_printk(").nth(1).unwrap_or_default();
        for (field, _) in fields(arguments) {
            let shown = [format!("\"{field}=%"), format!(" {field}=%")];
            if !shown.iter().any(|shown| printed.contains(shown)) {
                broken.push(format!("{} does not print {field}", first(arguments)));
            }
        }
    }
    broken
}

/// Returns the events that a header defines.
fn defined(header: &str) -> BTreeMap<String, Fields> {
    let mut classes = BTreeMap::new();
    let mut events = BTreeMap::new();
    for (macro_name, arguments) in blocks(header) {
        let name = first(arguments).to_owned();
        match macro_name {
            "TRACE_EVENT" => _ = events.insert(name, fields(arguments)),
            "DECLARE_EVENT_CLASS" => _ = classes.insert(name, fields(arguments)),
            _ => {
                let event = arguments.split(',').nth(1).unwrap_or_default().trim();
                let of_class = classes.get(&name).cloned().unwrap_or_default();
                events.insert(event.to_owned(), of_class);
            }
        }
    }
    events
}

/// Returns the definitions of a header: the macro, and its arguments.
fn blocks(header: &str) -> impl Iterator<Item = (&str, &str)> {
    header.split("\n);").filter_map(|part| {
        let begin = ["TRACE_EVENT(", "DECLARE_EVENT_CLASS(", "DEFINE_EVENT("]
            .into_iter()
            .find_map(|macro_name| Some((part.rfind(&format!("\n{macro_name}"))?, macro_name)))?;
        let (at, macro_name) = begin;
        let arguments = &part[at + 1 + macro_name.len()..];
        Some((macro_name.trim_end_matches('('), arguments))
    })
}

/// Returns the first argument.
fn first(arguments: &str) -> &str {
    arguments.split(',').next().unwrap_or_default().trim()
}

/// Returns the fields of a record. Arrays of characters are words.
fn fields(arguments: &str) -> Fields {
    let field = |line: &str| {
        let line = line.trim().strip_suffix(')')?;
        if let Some(inner) = line.strip_prefix("__field(") {
            let (of_type, name) = inner.split_once(", ")?;
            return Some((name.to_owned(), of_type.to_owned()));
        }
        let inner = line.strip_prefix("__array(char, ")?;
        Some((inner.split(',').next()?.to_owned(), "word".to_owned()))
    };
    arguments.lines().filter_map(field).collect()
}

/// Returns the events that a section of the page describes.
fn described(page: &str, heading: &str) -> BTreeMap<String, Fields> {
    let event = |part: &str| {
        let (name, rest) = part.split_once('`')?;
        let row = |line: &str| {
            let (field, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
            let (of_type, _) = rest.split_once(" | ")?;
            Some((field.to_owned(), of_type.to_owned()))
        };
        Some((name.to_owned(), rest.lines().filter_map(row).collect()))
    };
    let parts = section(page, heading).split("\n### `").skip(1);
    parts.filter_map(event).collect()
}

/// Returns the section of the page with this heading.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let rest = page.split(&format!("\n{heading}\n")).nth(1);
    rest.and_then(|rest| rest.split("\n## ").next())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"
TRACE_EVENT(dd_put,
	TP_STRUCT__entry(
		__field(u64, latency_ns)
		__array(char, reason, 8)
	),
	TP_printk("latency_ns=%llu reason=%s", __entry->latency_ns, __entry->reason)
);

DECLARE_EVENT_CLASS(dd_move,
	TP_STRUCT__entry(
		__field(u32, vm)
	),
	TP_printk("vm=%u", __entry->vm)
);

DEFINE_EVENT(dd_move, dd_demote,
	TP_PROTO(u32 vm)
);
"#;
    const TEXT: &str = "# Tracepoints\n\n## Of a host\n\n### `dd_put`\n\nA put.\n\n\
        | field | type | meaning |\n|---|---|---|\n| `latency_ns` | u64 | time |\n\
        | `reason` | word | why |\n\n### `dd_demote`\n\n| `vm` | u32 | VM |\n\n## Of a guest\n";
    const C: &str = "DD_TRACEPOINT(put, ...)\nDD_TRACEPOINT(demote, ...)\n";
    const RUST: &str = "put = dd_trace_put(latency: u64);\ndemote = dd_trace_demote(vm: u32);\n";

    fn complaints(header: &str, text: &str, c: &str, rust: &str) -> Vec<String> {
        let sources = [
            Source::new("host-module/shim/tracepoints.h", header),
            Source::new("host-module/shim/tracepoints.c", c),
            Source::new("host-module/src/ffi/tracepoints.rs", rust),
            Source::new(PAGE, text),
        ];
        let mut broken = check(&sources);
        broken.retain(|complaint| complaint.starts_with("host-module"));
        broken
    }

    #[test]
    fn a_page_that_agrees_is_right() {
        assert!(complaints(HEADER, TEXT, C, RUST).is_empty());
    }

    #[test]
    fn words_have_room() {
        let with = |word: &str| TEXT.replace("| why |", &format!("| `{word}`: why |"));
        assert!(complaints(HEADER, &with("no-host"), C, RUST).is_empty());
        let cut = complaints(HEADER, &with("unproven"), C, RUST);
        assert_eq!(
            cut,
            ["host-module/shim/tracepoints.h: reason has no room for unproven"]
        );
    }

    #[test]
    fn every_difference_is_found() {
        let cases = [
            (HEADER.replace("u32, vm", "u64, vm"), TEXT.to_owned(), 2),
            (
                HEADER.replace("dd_demote", "dd_promote"),
                TEXT.to_owned(),
                4,
            ),
            (
                HEADER.to_owned(),
                TEXT.replace("| `reason` | word | why |\n", ""),
                1,
            ),
            (HEADER.to_owned(), TEXT.replace("`reason`", "`reasons`"), 2),
            (HEADER.replace("vm=%u", "%u"), TEXT.to_owned(), 1),
            (String::new(), TEXT.to_owned(), 3),
        ];
        for (header, text, expected) in cases {
            let found = complaints(&header, &text, C, RUST);
            assert_eq!(found.len(), expected, "{found:?}");
        }
        assert_eq!(complaints(HEADER, TEXT, "", RUST).len(), 2);
        assert_eq!(complaints(HEADER, TEXT, C, "").len(), 2);
    }
}
