// SPDX-License-Identifier: GPL-2.0-only

//! Systems of test machines in which the packages were installed as the quick start describes.
//!
//! An emulated machine would compile the modules for an hour. The commands of the quick start are
//! therefore executed in a chroot, up to the reboot, which is the first boot of the image.

mod make;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use ddlab::{Installation, Installed};
use ddscenarios::Side;

use crate::{cache, dist, initrd, tidy, workspace};

/// Folders and files from which the packages are built, apart from the documents.
const SOURCES: [&str; 16] = [
    "Cargo.lock",
    "Cargo.toml",
    "ddabi/",
    "ddconf/",
    "ddcore/",
    "ddctl/",
    "dddaemon/",
    "ddhostd/",
    "ddnl/",
    "ddsim/",
    "ddvm/",
    "guest-module/",
    "host-module/",
    "packaging/",
    "policyd/",
    "shim/",
];
/// The mirror in the commands of the page.
const PAGE_MIRROR: &str = "http://MIRROR/debian";
/// Files of an installed system.
#[derive(Clone, Debug)]
pub(crate) struct System {
    dir: PathBuf,
}

impl System {
    /// Returns the image of its disk.
    pub(crate) fn disk(&self) -> PathBuf {
        self.dir.join("disk.ext4")
    }

    /// Returns the directory with the files from which its kernel boots.
    fn boot(&self) -> PathBuf {
        self.dir.join("boot")
    }

    /// Returns that of its former kernel, which has no module of the project. A guest has one.
    fn former_boot(&self) -> PathBuf {
        self.dir.join("boot/former")
    }
}

/// Returns the kernel in a directory of files to boot from.
fn kernel(boot: &Path) -> PathBuf {
    boot.join("vmlinuz")
}

/// Writes the initial filesystem of a kernel, with the modules that are needed to find the disk in
/// the order in which they are loaded.
fn write_initrd(to: &Path, agent: &Path, boot: &Path) -> Result<()> {
    let list = fs::read_dir(boot.join("modules"))?;
    let mut modules: Vec<PathBuf> = list.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    modules.sort();
    initrd::write(to, agent, &modules)
}

/// Directories of packages.
struct Packages {
    /// Those that are installed.
    current: PathBuf,
    /// The same of a later version.
    next: PathBuf,
}

impl Packages {
    fn build() -> Result<Self> {
        Ok(Self {
            current: dist::packages()?,
            next: dist::next_packages()?,
        })
    }
}

/// Returns the systems of a host and of a guest. They are made again when the sources of the
/// packages or the commands of the quick start change.
pub(crate) fn systems() -> Result<[System; 2]> {
    let sources = digest_of_sources()?;
    let mut built = None;
    let mut system = |side| -> Result<System> {
        let label = label(side);
        let name = format!("installed-{label}-{}", key(side, &sources)?);
        let dir = cache::entry("image", &name, |dir| {
            // The images are large, and the earlier ones are those of an earlier tree.
            cache::remove_others("image", &format!("installed-{label}-"), &name)?;
            if built.is_none() {
                built = Some(Packages::build()?);
            }
            make::system(side, built.as_ref().context("packages were built")?, dir)
        })?;
        Ok(System { dir })
    };
    let guest = system(Side::Guest)?;
    Ok([system(Side::Host)?, guest])
}

/// Returns the key of a system, whose packages have these sources.
fn key(side: Side, sources: &str) -> Result<String> {
    let commands = commands(side, PAGE_MIRROR)?.join("\n");
    let shop = ddscenarios::shop().digest();
    let mut parts = vec![sources, packages(side), &commands, &shop];
    parts.extend(make::INPUTS);
    Ok(cache::key(&parts))
}

/// Makes the initial filesystems of installed systems in the directory `dir`, and adds the files
/// from which a guest boots to those of the image with the project's files.
pub(crate) fn place(
    [host, guest]: &[System; 2],
    agent: &Path,
    dir: &Path,
    files: &mut Vec<(PathBuf, String)>,
) -> Result<Installed> {
    let initrd = |name: &str| dir.join(format!("installed-{name}.initrd"));
    let host_initrd = initrd("host");
    write_initrd(&host_initrd, agent, &host.boot())?;
    for (name, boot, place) in [
        ("guest", guest.boot(), ddlab::INSTALLED),
        ("former", guest.former_boot(), ddlab::FORMER),
    ] {
        write_initrd(&initrd(name), agent, &boot)?;
        files.push((kernel(&boot), format!("{place}/vmlinuz")));
        files.push((initrd(name), format!("{place}/initrd")));
    }
    Ok(Installed {
        host: Installation {
            disk: host.disk(),
            kernel: kernel(&host.boot()),
            initrd: host_initrd,
        },
        guest: guest.disk(),
    })
}

fn label(side: Side) -> &'static str {
    match side {
        Side::Host => "host",
        Side::Guest => "guest",
    }
}

/// Returns the packages that a machine has before DoubleDecker is installed: a host runs VMs, and a
/// guest is a web server.
fn packages(side: Side) -> &'static str {
    match side {
        Side::Host => "qemu-system-x86",
        Side::Guest => "curl nginx-light",
    }
}

/// Returns the commands of the page before the reboot. VMs may use the kernel for clouds, as the
/// page describes.
fn commands(side: Side, mirror: &str) -> Result<Vec<String>> {
    let commands = ddscenarios::installation(side)?.into_iter();
    let commands = commands.map(|command| {
        let command = command.replace(PAGE_MIRROR, mirror);
        match side {
            Side::Host => command,
            Side::Guest => command
                .replace("linux-image-amd64", "linux-image-cloud-amd64")
                .replace("linux-headers-amd64", "linux-headers-cloud-amd64"),
        }
    });
    Ok(commands.collect())
}

/// Returns a digest of the files from which the packages are built. The version of a package is
/// left out, because it changes with every commit.
fn digest_of_sources() -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    let is_source = |path: &str| SOURCES.iter().any(|source| path.starts_with(source));
    for path in tidy::files(workspace::top())? {
        let file = workspace::top().join(&path);
        if is_source(&path) && file.is_file() {
            let content = fs::read(&file)?;
            hasher.update(path.as_bytes());
            hasher.update(&(content.len() as u64).to_le_bytes());
            hasher.update(&content);
        }
    }
    Ok(hasher.finalize().to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_those_of_the_page_with_a_mirror() {
        let host = commands(Side::Host, "http://a/debian").unwrap().join("\n");
        let guest = commands(Side::Guest, "http://a/debian").unwrap().join("\n");
        assert!(host.contains("deb http://a/debian ") && !host.contains("MIRROR"));
        assert!(host.contains("linux-image-amd64 linux-headers-amd64 linux-source"));
        assert!(guest.contains("linux-image-cloud-amd64 linux-headers-cloud-amd64 linux-source"));
    }

    #[test]
    fn sources_exist() {
        for source in SOURCES {
            assert!(workspace::top().join(source).exists(), "{source}");
        }
    }
}
