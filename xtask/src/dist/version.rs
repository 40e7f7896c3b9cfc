// SPDX-License-Identifier: GPL-2.0-only

//! Versions and dates of packages.

use anyhow::Result;

use crate::commit;

/// The version of the workspace, which is the only place that has it.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The maintainer, as `packaging/debian/control` has it.
const CONTROL: &str = include_str!("../../../packaging/debian/control");

/// A release, or a state of the tree between two.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Version {
    number: String,
    commits: usize,
    commit: String,
    /// Time of the commit, in seconds since 1970.
    pub(crate) epoch: u64,
    /// The date in the format of a changelog.
    date: String,
    is_tagged: bool,
}

impl Version {
    /// Returns the version of the commit that is checked out.
    pub(crate) fn of_tree() -> Result<Self> {
        let commit = commit::name()?;
        let is_tagged = commit::tags()?.contains(&format!("v{VERSION}"));
        Ok(Self {
            number: VERSION.to_owned(),
            commits: commit::count()?,
            is_tagged: is_tagged && !commit.ends_with("-dirty"),
            commit: commit.replace('-', "."),
            epoch: commit::time("%ct")?.parse()?,
            date: commit::time("%cD")?,
        })
    }

    /// Returns the version of the next commit, for a test of upgrades.
    pub(crate) fn successor(&self) -> Self {
        Self {
            commits: self.commits + 1,
            is_tagged: false,
            // The next version comes after a release.
            number: match self.is_tagged {
                true => format!("{}.1", self.number),
                false => self.number.clone(),
            },
            ..self.clone()
        }
    }

    /// Returns the version of packages and modules: `0.1.0` for the tag `v0.1.0`, and
    /// `0.1.0~git123.4567abc`, which sorts before it, for the 123rd commit.
    pub(crate) fn upstream(&self) -> String {
        match self.is_tagged {
            true => self.number.clone(),
            false => format!("{}~git{}.{}", self.number, self.commits, self.commit),
        }
    }

    /// Returns Debian's changelog, from which its tools take the version.
    pub(crate) fn changelog(&self) -> String {
        let maintainer = CONTROL
            .lines()
            .find_map(|line| line.strip_prefix("Maintainer: "))
            .unwrap_or_default();
        format!(
            "doubledecker ({}-1) unstable; urgency=medium\n\n  \
             * What changes for users is in the upstream changelog.\n\n \
             -- {maintainer}  {}\n",
            self.upstream(),
            self.date
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(is_tagged: bool) -> Version {
        Version {
            number: "0.1.0".to_owned(),
            commits: 123,
            commit: "4567abc.dirty".to_owned(),
            epoch: 0,
            date: "Thu, 1 Jan 1970 00:00:00 +0000".to_owned(),
            is_tagged,
        }
    }

    #[test]
    fn versions_say_what_they_are_of() {
        assert_eq!(of(true).upstream(), "0.1.0");
        assert_eq!(of(false).upstream(), "0.1.0~git123.4567abc.dirty");
        assert_eq!(
            of(false).successor().upstream(),
            "0.1.0~git124.4567abc.dirty"
        );
        assert_eq!(
            of(true).successor().upstream(),
            "0.1.0.1~git124.4567abc.dirty"
        );
    }

    #[test]
    fn the_changelog_names_version_and_maintainer() {
        let changelog = of(true).changelog();
        assert!(changelog.starts_with("doubledecker (0.1.0-1) unstable;"));
        assert!(changelog.contains("\n -- DoubleDecker developers <"));
    }
}
