// SPDX-License-Identifier: GPL-2.0

//! Every source file names its licence.

use super::Source;

const HEADER: &str = "SPDX-License-Identifier: GPL-2.0";
const WITH_HEADER: [&str; 6] = [".rs", ".c", ".h", ".sh", "/Kbuild", "/Makefile"];

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    sources
        .iter()
        .filter(|source| source.is(&WITH_HEADER) && !has_header(&source.text))
        .map(|source| format!("{}: does not begin with {HEADER}", source.path))
        .collect()
}

/// Returns whether the header is in the first line, or in the second after an interpreter's.
fn has_header(text: &str) -> bool {
    text.lines()
        .find(|line| !line.starts_with("#!/"))
        .and_then(|line| line.split_once(HEADER))
        .is_some_and(|(_, end)| matches!(end, "" | " */"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_a_licence_are_found() {
        let first = format!("// {HEADER}\n\n//! x\n");
        let script = format!("#!/bin/sh\n# {HEADER}\n");
        let header = format!("/* {HEADER} */\n");
        let good = [
            Source::new("a.rs", &first),
            Source::new("a.sh", &script),
            Source::new("a.h", &header),
            Source::new("a.md", "no code"),
        ];
        assert!(check(&good).is_empty());
        let late = format!("//! x\n// {HEADER}\n");
        let other = "// SPDX-License-Identifier: GPL-2.0-or-later\n";
        assert_eq!(
            check(&[Source::new("a.rs", &late), Source::new("b.c", other)]).len(),
            2
        );
    }
}
