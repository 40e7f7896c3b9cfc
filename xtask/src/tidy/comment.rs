// SPDX-License-Identifier: GPL-2.0-only

//! Lines of comments are as short as rustfmt makes those of code. rustfmt does not wrap comments.

use super::Source;

/// Maximum number of characters of a line.
const WIDTH: usize = 100;
const CODE: [&str; 3] = [".rs", ".c", ".h"];

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let code = sources.iter().filter(|source| source.is(&CODE));
    let broken = code.flat_map(|source| {
        let lines = source.text.lines().enumerate();
        let long = lines.filter(|(_, line)| is_long(line));
        long.map(|(number, line)| {
            let (path, width) = (&source.path, line.chars().count());
            let number = number + 1;
            format!("{path}:{number}: a comment of {width} columns; at most {WIDTH}")
        })
    });
    broken.collect()
}

/// Returns whether a line is a comment that is too long and can be wrapped. Rows of tables and
/// addresses cannot.
fn is_long(line: &str) -> bool {
    let trimmed = line.trim_start();
    let marks = ["///", "//!", "//", "/*", "*"];
    let text = marks.iter().find_map(|mark| trimmed.strip_prefix(mark));
    text.map(str::trim).is_some_and(|text| {
        line.chars().count() > WIDTH && !text.starts_with('|') && text.contains(' ')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, line: &str) -> Vec<String> {
        check(&[Source::new(path, &format!("fn a() {{}}\n{line}\n"))])
    }

    #[test]
    fn long_comments_are_found() {
        let line = |mark: &str, columns: usize| {
            let words = "ab ".repeat(columns);
            format!("{mark} {words}").chars().take(columns).collect()
        };
        for mark in ["//", "///", "//!", "    /// -", "/*", " *"] {
            let (fits, long): (String, String) = (line(mark, 100), line(mark, 101));
            assert!(found("a.rs", &fits).is_empty(), "{mark}");
            let name = "a.c:2: a comment of 101 columns; at most 100";
            assert_eq!(found("a.c", &long), [name], "{mark}");
            assert!(found("a.md", &long).is_empty());
        }
        // Characters count, not bytes.
        assert!(found("a.rs", &format!("// a {}", "é".repeat(95))).is_empty());
    }

    #[test]
    fn what_cannot_be_wrapped_may_be_long() {
        let long = "ab".repeat(60);
        assert!(found("a.rs", &format!("/// | a | {long} |")).is_empty());
        assert!(found("a.rs", &format!("// https://{long}")).is_empty());
        assert!(found("a.rs", &format!("let a = \"b {long}\"; // as is")).is_empty());
    }
}
