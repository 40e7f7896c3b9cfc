// SPDX-License-Identifier: GPL-2.0-only

//! A file has the name of its subject.

use super::Source;

/// Names without meaning. `foo.rs` beside `foo/` replaces `foo/mod.rs`.
const EMPTY: [&str; 6] = [
    "common.rs",
    "helpers.rs",
    "misc.rs",
    "mod.rs",
    "util.rs",
    "utils.rs",
];

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    sources
        .iter()
        .filter(|source| EMPTY.contains(&source.name()))
        .map(|source| {
            format!(
                "{}: the name must be that of the file's subject",
                source.path
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_content_are_found() {
        let sources = ["a/mod.rs", "a/utils.rs", "a/model.rs"].map(|path| Source::new(path, ""));
        assert_eq!(check(&sources).len(), 2);
    }
}
