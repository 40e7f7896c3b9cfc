// SPDX-License-Identifier: GPL-2.0-only

//! The book, by mdBook.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::{tools, workspace};

/// Builds the book in `target/book`. Does nothing if mdBook is not installed and cannot be built.
pub(super) fn check() -> Result<()> {
    let program = match tools::mdbook() {
        Ok(program) => program,
        Err(error) => {
            eprintln!("note: mdBook cannot be built, and the book is not checked: {error:#}");
            return Ok(());
        }
    };
    let output = Command::new(program)
        .current_dir(workspace::top())
        .args(["build", "docs"])
        .output()
        .context("cannot run mdbook")?;
    let log = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || log.lines().any(is_complaint) {
        bail!("{}", log.trim());
    }
    Ok(())
}

/// Returns whether a line of the log is a warning or an error. mdBook reports what it cannot
/// include, and broken HTML, and still succeeds.
fn is_complaint(line: &str) -> bool {
    // Version 0.4 has brackets around the level, and the time in front of it.
    let is_level = |word| ["WARN", "ERROR", "[WARN]", "[ERROR]"].contains(&word);
    line.split_whitespace().take(3).any(is_level)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Tests run where lint does not.
    #[test]
    fn the_book_can_be_built() {
        check().unwrap();
    }

    /// Readers of a telephone, whose page has some 360 columns of pixels, can move wide pictures.
    /// Others are made for it.
    #[test]
    fn wide_pictures_are_in_the_style() {
        const NARROW: f64 = 440.0;
        let docs = workspace::top().join("docs");
        let style = fs::read_to_string(docs.join("book.css")).unwrap();
        let mut wide = 0;
        for entry in fs::read_dir(docs.join("pictures")).unwrap() {
            let path = entry.unwrap().path();
            let picture = fs::read_to_string(&path).unwrap();
            let (_, width) = picture.split_once(" width=\"").unwrap();
            let width: f64 = width.split('"').next().unwrap().parse().unwrap();
            let name = path.file_name().unwrap().display();
            let is_named = style.contains(&format!("img[src$=\"/{name}\"]"));
            assert_eq!(is_named, width > NARROW, "{name} has {width} columns");
            wide += u32::from(is_named);
        }
        assert_eq!(style.matches("img[").count(), wide as usize);
    }

    #[test]
    fn complaints_of_all_versions_are_found() {
        for line in [
            " WARN html parse error in `limits.md`: Saw EOF in state AfterAttributeName",
            "ERROR Error updating \"{{#include a.rs}}\", Could not read file",
            "2026-11-26 14:00:00 [WARN] (mdbook::preprocess::links): Caused By: no such file",
            "2026-11-26 14:00:00 [ERROR] (mdbook::utils): Error: Couldn't open SUMMARY.md",
        ] {
            assert!(is_complaint(line), "{line}");
        }
        for line in [
            " INFO Book building has started",
            " INFO HTML book written to `/tmp/WARN/book`",
            "2026-11-26 14:00:00 [INFO] (mdbook::book): Running the html backend",
            "",
        ] {
            assert!(!is_complaint(line), "{line}");
        }
    }
}
