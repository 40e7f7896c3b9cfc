// SPDX-License-Identifier: GPL-2.0-only

//! Titles of commits name a component and the change, in a line that git shows completely.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};

use super::Source;

/// The file that lists the components, and the words before its list.
const FILE: &str = "CONTRIBUTING.md";
const LIST: &str = "Components of titles: ";
/// Columns of a title that git shows without wrapping.
const MAX_COLUMNS: usize = 72;

/// Checks the commits that were made after this rule.
pub(super) fn check(sources: &[Source], top: &Path) -> Result<Vec<String>> {
    let contributing = sources.iter().find(|source| source.path == FILE);
    let components = components(contributing.map_or("", |file| &file.text));
    let first = git(
        top,
        &["log", "--format=%H", "--reverse", "-S", LIST, "--", FILE],
    )?;
    let Some(first) = first.lines().next() else {
        return Ok(Vec::new());
    };
    let since = format!("{first}..HEAD");
    let titles = git(top, &["log", "--no-merges", "--format=%h %s", &since])?;
    let titles = titles.lines().filter_map(|line| line.split_once(' '));
    Ok(titles
        .filter_map(|(commit, title)| {
            let wrong = wrong(title, &components)?;
            Some(format!("commit {commit}: \"{title}\": {wrong}"))
        })
        .collect())
}

/// Returns the components that a document lists, up to the end of the sentence.
fn components(text: &str) -> Vec<&str> {
    let list = text.split_once(LIST).map_or("", |(_, rest)| rest);
    let list = list.split_once('.').map_or(list, |(list, _)| list);
    list.split(',')
        .map(|name| name.trim().trim_matches('`'))
        .collect()
}

/// Returns the fault of a title, if it has one.
fn wrong(title: &str, components: &[&str]) -> Option<String> {
    let columns = title.chars().count();
    if columns > MAX_COLUMNS {
        return Some(format!("it has {columns} columns; at most {MAX_COLUMNS}"));
    }
    let Some((names, what)) = title.split_once(": ") else {
        return Some("it has no component; write \"component: do what\"".to_owned());
    };
    let mut names = names.split(", ");
    if let Some(name) = names.find(|name| !components.contains(name)) {
        return Some(format!("{FILE} lists no component {name}"));
    }
    let starts_small = what.starts_with(|first: char| !first.is_uppercase());
    (!starts_small || what.ends_with('.'))
        .then(|| "the text after the component must begin with a small letter and end without a full stop".to_owned())
}

fn git(top: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .current_dir(top)
        .args(arguments)
        .output()
        .context("cannot run git")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "git {}: {}",
        arguments[0],
        error.trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_components_is_read() {
        let text = "Titles.\n  Components of titles: `guest`, `host`,\n  `docs`. More, of it.";
        assert_eq!(components(text), ["guest", "host", "docs"]);
    }

    #[test]
    fn titles_are_judged() {
        let wrong = |title: &str| wrong(title, &["guest", "host"]);
        assert_eq!(wrong("guest, host: bound flush calls"), None);
        for title in [
            "bound flush calls",
            "gast: bound flush calls",
            "guest: Bound flush calls",
            "guest: bound flush calls.",
            &format!("guest: {}", "x".repeat(66)),
        ] {
            assert!(wrong(title).is_some(), "{title}");
        }
    }
}
