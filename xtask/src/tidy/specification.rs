// SPDX-License-Identifier: GPL-2.0-only

//! The specification names tests and scenarios that exist, and the places of numbers in the source.

use super::Source;
use crate::test::is_scenario;

const PAGE: &str = "docs/developers/SPECIFICATION.md";

/// Crates whose folder does not have their name.
const FOLDERS: [(&str, &str); 1] = [("ddpapers", "tests/papers")];

/// Minimum number of words in the name of a test that is named without its crate.
const WORDS: usize = 4;

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let Some(page) = sources.iter().find(|source| source.path == PAGE) else {
        return vec![format!("{PAGE} is not there")];
    };
    spans(&page.text)
        .filter_map(|span| fault(span, sources, is_scenario))
        .map(|fault| format!("{PAGE}: {fault}"))
        .collect()
}

/// Returns the code in rows of tables.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    let rows = text.lines().filter(|line| line.starts_with('|'));
    rows.flat_map(|row| row.split('`').skip(1).step_by(2))
}

/// Returns what is wrong with a span of code, if it names a test, a scenario or a place.
fn fault(span: &str, sources: &[Source], is_scenario: impl Fn(&str) -> bool) -> Option<String> {
    if let Some(name) = span.strip_prefix("vm ") {
        let name = name.split(' ').next().unwrap_or_default();
        return (!is_scenario(name)).then(|| format!("there is no scenario {name}"));
    }
    if let Some((file, text)) = span.split_once(": ") {
        let is_path = [".rs", ".c"].iter().any(|end| file.ends_with(end));
        return is_path.then(|| misplaced(file, text, sources)).flatten();
    }
    let (folder, name) = match span.split_once("::") {
        Some((krate, name)) => (folder(krate), name),
        None if span.split('_').count() >= WORDS => (String::new(), span),
        None => return None,
    };
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let function = format!("fn {name}(");
    let module = format!("/{name}.rs");
    let exists = sources.iter().any(|source| {
        source.path.starts_with(&folder)
            && source.is(&[".rs"])
            && (source.text.contains(&function) || source.path.ends_with(&module))
    });
    (name.chars().all(is_name) && !exists).then(|| format!("there is no {span}"))
}

fn folder(krate: &str) -> String {
    let other = FOLDERS.iter().find(|(name, _)| *name == krate);
    format!("{}/", other.map_or(krate, |(_, folder)| folder))
}

/// Returns what is wrong with the place of a number: `file` is the end of a path that only one file
/// has, and this file has `text`, apart from spaces and ends of lines.
fn misplaced(file: &str, text: &str, sources: &[Source]) -> Option<String> {
    let end = format!("/{file}");
    let is_it = |source: &&Source| source.path == file || source.path.ends_with(&end);
    let mut found = sources.iter().filter(is_it);
    let Some(source) = found.next() else {
        return Some(format!("there is no file {file}"));
    };
    if let Some(other) = found.next() {
        return Some(format!("{file} is {} or {}", source.path, other.path));
    }
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_there = words(&source.text).contains(&words(text));
    (!is_there).then(|| format!("{} does not have: {text}", source.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(cell: &str) -> usize {
        let sources = [
            Source::new("ddcore/src/index.rs", "#[test]\nfn pages_are_kept() {}"),
            Source::new("a/src/limit.rs", "const MAX:\n    u32 = 5;"),
            Source::new("b/src/limit.rs", "const MAX: u32 = 6;"),
        ];
        let text = format!("`vm nothing`\n| promise | `5 s` | {cell} |\n");
        let is_scenario = |name: &str| name == "torture";
        let faults = spans(&text).filter_map(|span| fault(span, &sources, is_scenario));
        faults.count()
    }

    #[test]
    fn tests_exist() {
        assert_eq!(faults("`ddcore::pages_are_kept`, `ddcore::index`"), 0);
        assert_eq!(faults("`ddcore::pages_are_lost`, `ddctl::index`"), 2);
        assert_eq!(faults("`pages_are_kept`, `pages_are_not_lost`"), 1);
    }

    #[test]
    fn scenarios_exist() {
        assert_eq!(faults("`vm torture`, `vm torture --kernel debug`"), 0);
        assert_eq!(faults("`vm tortured`"), 1);
    }

    #[test]
    fn numbers_are_in_the_source() {
        assert_eq!(
            faults("`a/src/limit.rs: MAX: u32 = 5`, `b/src/limit.rs: = 6`"),
            0
        );
        assert_eq!(faults("`a/src/limit.rs: MAX: u32 = 6`"), 1);
        assert_eq!(faults("`limit.rs: MAX: u32 = 5`, `none.rs: 5`"), 2);
    }
}
