// SPDX-License-Identifier: GPL-2.0-only

//! Links between documents have a target, and documents that are named exist.

use std::path::Path;

use super::Source;

pub(super) fn check(sources: &[Source], top: &Path) -> Vec<String> {
    [dead_links(sources, top), missing_documents(sources)].concat()
}

fn dead_links(sources: &[Source], top: &Path) -> Vec<String> {
    sources
        .iter()
        .filter(|source| source.path.ends_with(".md"))
        .flat_map(|source| {
            links(&source.text)
                .into_iter()
                .filter(|link| is_internal(link) && !leads_somewhere(sources, top, source, link))
                .map(|link| format!("{}: the link to {link} leads nowhere", source.path))
        })
        .collect()
}

/// Checks paths from the top in prose, code and comments. This file is left out, because it
/// contains made-up ones.
fn missing_documents(sources: &[Source]) -> Vec<String> {
    sources
        .iter()
        .filter(|source| !file!().ends_with(&source.path))
        .flat_map(|source| {
            documents(&source.text)
                .filter(|path| !sources.iter().any(|document| document.path == *path))
                .map(|path| format!("{} names {path}, which does not exist", source.path))
        })
        .collect()
}

fn documents(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || "./_-".contains(c)))
        .filter(|word| word.starts_with("docs/") && word.ends_with(".md"))
}

fn is_internal(link: &str) -> bool {
    !link.contains("://") && !link.starts_with("mailto:")
}

fn leads_somewhere(sources: &[Source], top: &Path, from: &Source, link: &str) -> bool {
    let (path, heading) = match link.split_once('#') {
        Some((path, heading)) => (path, Some(heading)),
        None => (link, None),
    };
    let target = match path {
        "" => from.path.clone(),
        path => resolve(&from.path, path),
    };
    let document = sources.iter().find(|source| source.path == target);
    match (document, heading) {
        (Some(document), Some(heading)) => anchors(&document.text).any(|anchor| anchor == heading),
        (Some(_), None) => true,
        (None, _) => top.join(&target).exists(),
    }
}

/// Returns `link` relative to the directory of `from`, without `..`.
fn resolve(from: &str, link: &str) -> String {
    let dir = from.rsplit_once('/').map_or("", |(dir, _)| dir);
    let mut parts: Vec<&str> = Vec::new();
    for part in dir.split('/').chain(link.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the targets of `[text](target)` outside of code.
fn links(text: &str) -> Vec<&str> {
    prose(text)
        .flat_map(|line| {
            // Every other part between backquotes is code.
            line.split('`')
                .step_by(2)
                .flat_map(|part| part.split("](").skip(1))
        })
        .filter_map(|rest| rest.split([')', ' ']).next())
        .collect()
}

/// Returns the anchors that common renderers give to the headings.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    prose(text)
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            title
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
}

/// Returns the lines outside of fenced code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(text: &str) -> usize {
        let sources = [
            Source::new("README.md", "# Top\n"),
            Source::new("docs/a.md", text),
            Source::new("docs/b.md", "# What it is, and why\n"),
        ];
        check(&sources, Path::new("/nonexistent")).len()
    }

    #[test]
    fn good_links_lead_somewhere() {
        assert_eq!(broken("[b](b.md) and [top](../README.md#top)"), 0);
        assert_eq!(broken("[b](b.md#what-it-is-and-why)"), 0);
        assert_eq!(broken("# Here\n[here](#here) [out](https://kernel.org)"), 0);
    }

    #[test]
    fn dead_links_are_found() {
        assert_eq!(broken("[c](c.md), [b](../b.md)"), 2);
        assert_eq!(broken("[b](b.md#elsewhere) [here](#there)"), 2);
    }

    #[test]
    fn named_documents_are_there() {
        assert_eq!(broken("as `docs/b.md` says (docs/a.md)."), 0);
        assert_eq!(broken("as `docs/c.md` says,\n```\ncat docs/d.md\n```\n"), 2);
    }

    #[test]
    fn code_holds_no_links() {
        assert_eq!(broken("`a[0](x)`\n```\n[c](c.md)\n```\n"), 0);
    }
}
