// SPDX-License-Identifier: GPL-2.0-only

//! `unsafe` is confined to few files, so that a reader knows where memory safety has to be proved.

use super::Source;

/// Files, and folders with a slash at the end, that may hold `unsafe`.
const ALLOWED: &[&str] = &[
    // Objects of the kernel behind safe types, and the functions that C calls.
    "guest-module/src/ffi/",
    "guest-module/src/hooks/entry.rs",
    "guest-module/src/host/call.rs",
    "guest-module/src/main.rs",
    "host-module/src/entry.rs",
    "host-module/src/ffi/",
    "host-module/src/main.rs",
    "host-module/src/tier/page.rs",
    "host-module/src/vm/scratch.rs",
    "host-module/src/vm/shard.rs",
    "shim/genl.rs",
    "shim/published.rs",
    "shim/tracepoint.rs",
    // An allocator that counts.
    "policyd/tests/engine/heap.rs",
    "tests/bench/src/memory.rs",
    // Mappings of files, and system calls that have no safe interface.
    "tests/agent/src/read.rs",
    "tests/helper/src/",
    // The kernel module of a hostile guest.
    "tests/hostile-module/src/draft.rs",
    "tests/hostile-module/src/ffi.rs",
];

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let held: Vec<&str> = sources
        .iter()
        .filter(|source| source.is(&[".rs"]) && holds_unsafe(&source.text))
        .map(|source| source.path.as_str())
        .collect();
    let stray = held
        .iter()
        .filter(|path| !ALLOWED.iter().any(|allowed| covers(allowed, path)))
        .map(|path| {
            format!("{path}: holds `unsafe`; move it to a file of {LIST}, or say there why not")
        });
    let stale = ALLOWED
        .iter()
        .filter(|allowed| !held.iter().any(|path| covers(allowed, path)))
        .map(|allowed| format!("{LIST}: {allowed} holds no `unsafe`; remove it"));
    stray.chain(stale).collect()
}

const LIST: &str = "xtask/src/tidy/confinement.rs";

fn covers(allowed: &str, path: &str) -> bool {
    path == allowed || (allowed.ends_with('/') && path.starts_with(allowed))
}

/// Returns whether the keyword occurs outside of comments and strings.
fn holds_unsafe(text: &str) -> bool {
    text.lines().any(|line| {
        let code = line.split("//").next().unwrap_or_default();
        let words = |part: &str| {
            part.split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(|word| word == "unsafe")
        };
        // Every second part of the line is between quotation marks.
        code.split('"').step_by(2).any(words)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        let mut found = check(&[Source::new(path, text)]);
        found.retain(|complaint| complaint.starts_with(path));
        found
    }

    #[test]
    fn stray_unsafe_is_found() {
        let block = "fn f() {\n    unsafe { g() }\n}\n";
        assert_eq!(complaints("guest-module/src/map.rs", block).len(), 1);
        assert!(complaints("guest-module/src/ffi/folio.rs", block).is_empty());
        assert!(complaints("guest-module/src/main.rs", block).is_empty());
        assert_eq!(complaints("guest-module/src/main.rs.rs", block).len(), 1);
        assert_eq!(complaints("a.rs", "pub(crate) unsafe fn f();\n").len(), 1);
    }

    #[test]
    fn words_in_comments_texts_and_lints_do_not_count() {
        let text = "//! unsafe\n#![forbid(unsafe_code)]\nlet a = \"unsafe\"; // unsafe\n";
        assert!(complaints("a.rs", text).is_empty());
    }

    #[test]
    fn entries_without_unsafe_are_found() {
        let found = check(&[Source::new("shim/genl.rs", "unsafe impl Sync for A {}\n")]);
        assert_eq!(found.len(), ALLOWED.len() - 1);
    }
}
