// SPDX-License-Identifier: GPL-2.0-only

//! The book has every document, documents for users and for developers are apart, and the questions
//! of administrators are answered.

use super::Source;

const CONTENTS: &str = "docs/SUMMARY.md";
const QUESTIONS: &str = "docs/users/questions.md";
/// Documents that are for all readers.
const COMMON: [&str; 2] = [CONTENTS, "docs/README.md"];
/// Folders of the other documents.
const FOLDERS: [&str; 2] = ["docs/users/", "docs/developers/"];
/// Minimum number of questions.
const MIN_QUESTIONS: usize = 10;

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    [misplaced(sources), missing(sources), unanswered(sources)].concat()
}

/// Complains about documents that are neither for users nor for developers.
fn misplaced(sources: &[Source]) -> Vec<String> {
    let paths = sources.iter().map(|source| source.path.as_str());
    paths
        .filter(|path| path.starts_with("docs/") && path.ends_with(".md"))
        .filter(|path| !COMMON.contains(path))
        .filter(|path| !FOLDERS.iter().any(|folder| path.starts_with(folder)))
        .map(|path| format!("{path}: documents are in {}", FOLDERS.join(" or ")))
        .collect()
}

/// Complains about documents that the contents do not link exactly once. The rule of links checks
/// that the links have targets.
fn missing(sources: &[Source]) -> Vec<String> {
    let Some(contents) = sources.iter().find(|source| source.path == CONTENTS) else {
        return vec![format!("{CONTENTS} is not there")];
    };
    sources
        .iter()
        .filter(|source| source.path.ends_with(".md") && source.path != CONTENTS)
        .filter_map(|source| Some((source, source.path.strip_prefix("docs/")?)))
        .filter(|(_, path)| contents.text.matches(&format!("]({path})")).count() != 1)
        .map(|(source, _)| format!("{}: is not linked exactly once in {CONTENTS}", source.path))
        .collect()
}

/// Complains about questions without an answer. Each question is a numbered item with a link to a
/// heading, or to a document as a whole.
fn unanswered(sources: &[Source]) -> Vec<String> {
    let Some(questions) = sources.iter().find(|source| source.path == QUESTIONS) else {
        return vec![format!("{QUESTIONS} is not there")];
    };
    let mut items: Vec<String> = Vec::new();
    for line in questions.text.lines() {
        let is_new = line.starts_with(|first: char| first.is_ascii_digit());
        match items.last_mut() {
            _ if is_new => items.push(line.to_owned()),
            Some(item) => item.push_str(line),
            None => {}
        }
    }
    let mut broken: Vec<String> = items
        .iter()
        .filter(|item| !item.contains('?') || !item.contains("]("))
        .map(|item| format!("{QUESTIONS}: no answer is linked: {item}"))
        .collect();
    if items.len() < MIN_QUESTIONS {
        broken.push(format!(
            "{QUESTIONS}: {} questions; at least {MIN_QUESTIONS}",
            items.len()
        ));
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(contents: &str, questions: &str) -> usize {
        let sources = [
            Source::new(CONTENTS, contents),
            Source::new(QUESTIONS, questions),
            Source::new("docs/users/limits.md", "# A\n"),
            Source::new("README.md", "# Top\n"),
        ];
        check(&sources).len()
    }

    #[test]
    fn documents_are_in_the_book_once() {
        let questions = "1. How? [So](limits.md#a).\n".repeat(10);
        let list = "[Q](users/questions.md) [A](users/limits.md)";
        assert_eq!(broken(list, &questions), 0);
        assert_eq!(broken("[Q](users/questions.md)", &questions), 1);
        assert_eq!(broken(&list.repeat(2), &questions), 2);
    }

    #[test]
    fn documents_for_users_and_for_developers_are_apart() {
        let placed =
            |path: &str| misplaced(&[Source::new(&["docs", path].join("/"), "")]).is_empty();
        assert!(placed("README.md") && placed("developers/decisions/0001-a.md"));
        assert!(!placed("limits.md") && !placed("book/limits.md"));
    }

    #[test]
    fn questions_have_answers() {
        let list = "[Q](users/questions.md) [A](users/limits.md)";
        let questions = "1. How,\n   then? [So](limits.md#a).\n".repeat(9);
        assert_eq!(broken(list, &questions), 1);
        assert_eq!(broken(list, &format!("{questions}10. Why?\n")), 1);
        assert_eq!(
            broken(list, &format!("{questions}10. Why? [A](limits.md)\n")),
            0
        );
    }
}
