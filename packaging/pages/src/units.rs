// SPDX-License-Identifier: GPL-2.0-only

//! Tests that the package has the documentation to which its units refer (`Documentation=`).

use super::{PROGRAMS, man_pages, manuals};
use std::{
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

const INSTALL: &str = "packaging/debian/doubledecker-tools.install";

fn top() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap().to_owned()
}

/// The files of the package: the path or pattern of each in the tree, and its directory in a
/// system.
struct Package(Vec<(String, String)>);

impl Package {
    fn read() -> Self {
        let text = fs::read_to_string(top().join(INSTALL)).unwrap();
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        let files: Vec<_> = lines.map(|(from, to)| (from.into(), to.into())).collect();
        assert!(files.len() > 10, "{files:?}");
        Self(files)
    }

    /// Returns the paths of the units in the tree.
    fn units(&self) -> impl Iterator<Item = &str> {
        let sources = self.0.iter().map(|(from, _)| from.as_str());
        sources.filter(|from| from.ends_with(".service"))
    }

    /// Returns whether it installs a file of the tree as this path.
    fn has(&self, path: &str) -> bool {
        let Some((directory, name)) = path.trim_start_matches('/').rsplit_once('/') else {
            return false;
        };
        self.0.iter().any(|(from, to)| {
            let (place, pattern) = from.rsplit_once('/').unwrap_or(("", from));
            let fits = match pattern.split_once('*') {
                Some((begin, end)) => name.starts_with(begin) && name.ends_with(end),
                None => name == pattern,
            };
            to == directory && fits && top().join(place).join(name).is_file()
        })
    }
}

/// Returns why an entry of `Documentation=` refers to nothing that is installed, or `None` if it is
/// correct.
fn wrong(place: &str, package: &Package, pages: &Path) -> Option<String> {
    if let Some(path) = place.strip_prefix("file:") {
        return (!package.has(path)).then(|| format!("{INSTALL} does not install {path}"));
    }
    let page = place.strip_prefix("man:").and_then(|page| {
        let (name, section) = page.strip_suffix(')')?.split_once('(')?;
        Some(format!("{name}.{section}"))
    });
    match page {
        Some(page) if pages.join(&page).is_file() => None,
        Some(page) => Some(format!("ddpages does not write {page}")),
        None => Some("neither a file nor a man page".into()),
    }
}

fn pages() -> TempDir {
    let out = tempfile::tempdir().unwrap();
    for (command, section) in PROGRAMS {
        man_pages(command(), section, out.path()).unwrap();
    }
    manuals(out.path()).unwrap();
    out
}

#[test]
fn the_documentation_of_units_is_in_the_package() {
    let (package, pages) = (Package::read(), pages());
    let mut units = 0;
    for unit in package.units() {
        let text = fs::read_to_string(top().join(unit)).unwrap();
        let keys = text.lines().filter_map(|line| line.split_once('='));
        let documentation = keys.filter(|(key, _)| *key == "Documentation");
        let places: Vec<&str> = documentation
            .flat_map(|(_, places)| places.split_whitespace())
            .collect();
        assert!(!places.is_empty(), "{unit} names no documentation");
        for place in places {
            assert_eq!(
                wrong(place, &package, pages.path()),
                None,
                "{unit}: {place}"
            );
        }
        units += 1;
    }
    assert_eq!(units, 2);
}

#[test]
fn missing_documentation_is_noticed() {
    let (package, pages) = (Package::read(), pages());
    let docs = "file:/usr/share/doc/doubledecker-tools";
    let wrong = |place: &str| wrong(place, &package, pages.path());
    assert_eq!(wrong(&format!("{docs}/README.md")), None);
    assert_eq!(wrong("man:policyd-dry-run(8)"), None);
    assert_eq!(wrong("man:host.toml(5)"), None);
    for place in [
        format!("{docs}/docs/users/policy.md"),
        format!("{docs}/policyd.md"),
        "man:policyd(1)".into(),
        "man:policyd".into(),
        "https://localhost/".into(),
    ] {
        assert!(wrong(&place).is_some(), "{place}");
    }
}
