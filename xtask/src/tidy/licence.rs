// SPDX-License-Identifier: GPL-2.0-only

//! Every source file names its licence, and the text of every licence that is named exists.

use super::Source;

const TAG: &str = "SPDX-License-Identifier: ";
/// The licence of the project's code. `GPL-2.0` alone is a deprecated name for it.
const OURS: &str = "GPL-2.0-only";
const WITH_HEADER: [&str; 6] = [".rs", ".c", ".h", ".sh", "/Kbuild", "/Makefile"];
/// Words of SPDX expressions that are not names of licences.
const OPERATORS: [&str; 3] = ["AND", "OR", "WITH"];

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let missing = sources
        .iter()
        .filter(|source| source.is(&WITH_HEADER) && !has_header(&source.text))
        .map(|source| format!("{}: does not begin with {TAG}{OURS}", source.path));
    missing.chain(without_text(sources)).collect()
}

/// Returns whether the header is in the first line, or in the second after an interpreter's.
fn has_header(text: &str) -> bool {
    header(text).is_some_and(|licences| licences == OURS)
}

/// Returns the expression in the tag at the top of a file.
fn header(text: &str) -> Option<&str> {
    let line = text.lines().find(|line| !line.starts_with("#!/"))?;
    let (_, licences) = line.split_once(TAG)?;
    Some(licences.trim_end_matches("*/").trim_end())
}

/// Complains about licences and exceptions that have no file in `LICENSES`.
fn without_text(sources: &[Source]) -> impl Iterator<Item = String> {
    let tagged = sources
        .iter()
        .filter_map(|source| Some((source, header(&source.text)?)));
    tagged.flat_map(|(source, licences)| {
        names(licences)
            .map(|name| format!("LICENSES/{name}.txt"))
            .filter(|path| !sources.iter().any(|text| text.path == *path))
            .map(|path| {
                format!(
                    "{}: the text of its licence, {path}, is missing",
                    source.path
                )
            })
    })
}

/// The licences and exceptions of an SPDX expression.
fn names(expression: &str) -> impl Iterator<Item = &str> {
    expression
        .split([' ', '(', ')'])
        .filter(|word| !word.is_empty() && !OPERATORS.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_texts(files: &[(&str, &str)]) -> Vec<String> {
        let text = Source::new("LICENSES/GPL-2.0-only.txt", "GNU GENERAL PUBLIC LICENSE");
        let files = files.iter().map(|(path, text)| Source::new(path, text));
        check(&files.chain([text]).collect::<Vec<_>>())
    }

    #[test]
    fn files_without_a_licence_are_found() {
        let first = format!("// {TAG}{OURS}\n\n//! x\n");
        let script = format!("#!/bin/sh\n# {TAG}{OURS}\n");
        let header = format!("/* {TAG}{OURS} */\n");
        let good = [
            ("a.rs", first.as_str()),
            ("a.sh", &script),
            ("a.h", &header),
            ("a.md", "no code"),
        ];
        assert!(with_texts(&good).is_empty());
        let late = format!("//! x\n// {TAG}{OURS}\n");
        let deprecated = format!("// {TAG}GPL-2.0\n");
        assert_eq!(with_texts(&[("a.rs", &late)]).len(), 1);
        // It is not the project's licence, and it has no text.
        assert_eq!(with_texts(&[("b.c", &deprecated)]).len(), 2);
    }

    #[test]
    fn licences_without_a_text_are_found() {
        let dual = format!("# {TAG}(({OURS} WITH Linux-syscall-note) OR BSD-3-Clause)\n");
        assert_eq!(
            with_texts(&[("a.yaml", &dual)]),
            [
                "a.yaml: the text of its licence, LICENSES/Linux-syscall-note.txt, is missing",
                "a.yaml: the text of its licence, LICENSES/BSD-3-Clause.txt, is missing",
            ]
        );
    }
}
