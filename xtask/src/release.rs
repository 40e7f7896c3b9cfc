// SPDX-License-Identifier: GPL-2.0-only

//! Choice of a kernel among those of the mirror.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result, bail};

use crate::{
    chroot::Chroot,
    suite::{Flavour, KernelArgs, Suite},
};

/// The kernel against which the modules were last checked. When it has left the mirror, the newest
/// one of its series is used.
pub(crate) const PINNED: &str = "7.2.12+deb13";
/// The series of trixie-backports that is supported.
const SERIES: &str = "7.2";

/// A kernel with the needed packages: image, headers, source.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Release {
    /// `uname -r`.
    pub(crate) name: String,
    /// Debian's version of the package, and of the source.
    pub(crate) version: String,
    /// Name of the source package.
    pub(crate) source: String,
}

impl Release {
    /// Returns the upstream version, `7.2.12` for `7.2.12+deb13-cloud-amd64`.
    pub(crate) fn upstream(&self) -> &str {
        let end = self.name.find(['+', '-']).unwrap_or(self.name.len());
        &self.name[..end]
    }

    /// Returns `LOCALVERSION` of the kernel's own build.
    pub(crate) fn local(&self) -> &str {
        &self.name[self.upstream().len()..]
    }

    fn order(&self) -> Vec<u64> {
        numbers(&self.name)
    }
}

/// Returns all usable kernels in a build root's package lists, oldest first.
pub(crate) fn list(root: &Path, args: &KernelArgs) -> Result<Vec<Release>> {
    let series = match args.suite {
        Suite::TrixieBackports => SERIES,
        Suite::Sid | Suite::Experimental => "",
    };
    let names = apt_cache(root, &["pkgnames", &format!("linux-image-{series}")])?;
    let candidates = names
        .lines()
        .filter_map(|package| release_of(package, args.flavour));
    let mut found = Vec::new();
    for name in candidates {
        if let Some(release) = complete(root, &name)? {
            found.push(release);
        }
    }
    found.sort_by_key(Release::order);
    Ok(found)
}

/// Chooses the kernel. Returns it with a remark if it is not the pinned one.
pub(crate) fn choose(found: Vec<Release>, args: &KernelArgs) -> Result<(Release, Option<String>)> {
    let pinned = format!("{PINNED}-{}", args.flavour.name());
    if args.suite == Suite::TrixieBackports {
        if let Some(release) = found.iter().find(|release| release.name == pinned) {
            return Ok((release.clone(), None));
        }
    }
    let Some(newest) = found.into_iter().next_back() else {
        bail!(
            "the mirror has no {:?} {:?} kernel with image, headers and source",
            args.suite,
            args.flavour
        );
    };
    let remark = (args.suite == Suite::TrixieBackports).then(|| {
        format!(
            "kernel {pinned} has left the mirror; taking {}",
            newest.name
        )
    });
    Ok((newest, remark))
}

/// Returns the release whose image a package has.
fn release_of(package: &str, flavour: Flavour) -> Option<String> {
    let release = package.strip_prefix("linux-image-")?;
    let version = release.strip_suffix(&format!("-{}", flavour.name()))?;
    let plain = version.starts_with(|c: char| c.is_ascii_digit())
        && !version.contains("cloud")
        && !version.contains("rt")
        && version.contains('.');
    plain.then(|| release.to_owned())
}

fn complete(root: &Path, name: &str) -> Result<Option<Release>> {
    let series: Vec<&str> = name.splitn(3, ['.', '+', '-']).collect();
    let source = format!(
        "linux-source-{}.{}",
        series[0],
        series.get(1).unwrap_or(&"0")
    );
    let headers = versions(root, &format!("linux-headers-{name}"))?;
    let sources = versions(root, &source)?;
    let version = headers
        .into_iter()
        .find(|version| sources.contains(version));
    Ok(version.map(|version| Release {
        name: name.to_owned(),
        version,
        source,
    }))
}

fn versions(root: &Path, package: &str) -> Result<Vec<String>> {
    let table = apt_cache(root, &["madison", package])?;
    Ok(table
        .lines()
        .filter_map(|line| line.split('|').nth(1))
        .map(|version| version.trim().to_owned())
        .collect())
}

fn apt_cache(root: &Path, arguments: &[&str]) -> Result<String> {
    let output = Chroot::new(root)
        .command("apt-cache")
        .args(arguments)
        .output()
        .context("cannot run apt-cache in the build root")?;
    if !output.status.success() {
        bail!(
            "apt-cache failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns a command that refreshes a root's package lists.
pub(crate) fn update(root: &Path) -> Command {
    let mut command = Chroot::new(root).command("apt-get");
    command.args(["update", "-o", "Acquire::Retries=5"]);
    command
}

/// Returns the numbers in a name, for sorting.
fn numbers(text: &str) -> Vec<u64> {
    text.split(|c: char| !c.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Checks;

    fn args() -> KernelArgs {
        KernelArgs {
            suite: Suite::TrixieBackports,
            flavour: Flavour::CloudAmd64,
            checks: Checks::Stock,
        }
    }

    fn release(name: &str) -> Release {
        Release {
            name: name.to_owned(),
            version: "1".to_owned(),
            source: "linux-source-7.2".to_owned(),
        }
    }

    #[test]
    fn names_are_taken_apart() {
        let one = release("7.2.12+deb13-cloud-amd64");
        assert_eq!(one.upstream(), "7.2.12");
        assert_eq!(one.local(), "+deb13-cloud-amd64");
        let image = "linux-image-7.2.12+deb13-cloud-amd64";
        assert!(release_of(image, Flavour::CloudAmd64).is_some());
        assert!(release_of(image, Flavour::Amd64).is_none());
        let realtime = "linux-image-7.2.12+deb13-rt-amd64";
        assert!(release_of(realtime, Flavour::Amd64).is_none());
        assert!(release_of(realtime, Flavour::RtAmd64).is_some());
        assert!(release_of(image, Flavour::RtAmd64).is_none());
        assert!(release_of("linux-image-cloud-amd64", Flavour::CloudAmd64).is_none());
    }

    #[test]
    fn the_pin_wins_and_the_newest_follows() {
        let pinned = release(&format!("{PINNED}-cloud-amd64"));
        let older = release("7.2.9+deb13-cloud-amd64");
        let newer = release("7.2.13+deb13-cloud-amd64");
        let all = vec![older.clone(), pinned.clone(), newer.clone()];
        assert_eq!(choose(all, &args()).unwrap(), (pinned, None));
        let (chosen, remark) = choose(vec![older, newer.clone()], &args()).unwrap();
        assert_eq!(chosen, newer);
        assert!(remark.is_some());
        assert!(choose(Vec::new(), &args()).is_err());
    }

    #[test]
    fn versions_sort_by_number() {
        assert!(release("7.2.9+deb13-amd64").order() < release("7.2.12+deb13-amd64").order());
    }
}
