// SPDX-License-Identifier: GPL-2.0-only

//! Making the disk of a system: a clean Debian, the commands of the page, and the agent.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use ddlab::FileSpec;
use ddscenarios::Side;

use super::{Packages, commands, label};
use crate::{cache, chroot::Chroot, mirror, progress, root, workspace};

/// Answers of the administrator to apt, and settings for a mirror that is far away or frozen.
const APT: &str = "APT::Get::Assume-Yes \"true\";\n\
                   APT::Keep-Downloaded-Packages \"true\";\n\
                   Acquire::Retries \"5\";\n\
                   Acquire::Check-Valid-Until \"false\";\n";
/// Files in the root that the installation alone needs.
const APT_PATH: &str = "etc/apt/apt.conf.d/99answers";
const DPKG_PATH: &str = "etc/dpkg/dpkg.cfg.d/answers";
/// The file with settings of mmdebstrap, which differ from those of a Debian.
const BOOTSTRAP_PATH: &str = "etc/apt/apt.conf.d/99mmdebstrap";
/// Size of an image. The file is sparse.
const SIZE: &str = "6G";
const FORMER: &str = include_str!("former.sh");
const NEXT: &str = include_str!("next.sh");
const PREPARE: &str = include_str!("prepare.sh");
const AGENT_UNIT: &str = include_str!("../../../tests/agent/ddagent.service");

/// What every system is made from.
pub(super) const INPUTS: [&str; 6] = [FORMER, NEXT, PREPARE, AGENT_UNIT, APT, SIZE];

/// Makes the system of one side with the packages, in the directory `dir`.
pub(super) fn system(side: Side, packages: &Packages, dir: &Path) -> Result<()> {
    let staging = dir.join("staging");
    let boot = dir.join("boot");
    fs::create_dir_all(&boot)?;
    let label = label(side);
    progress::step(&format!("make the Debian of an installed {label}"), || {
        fs::create_dir(&staging)?;
        root::clean(super::packages(side), &staging)?;
        furnish(side, &staging)
    })?;
    progress::step(&format!("install the packages of a {label}"), || {
        install(side, &packages.current, &staging)?;
        add_next(side, packages, &staging)?;
        if side == Side::Guest {
            add_former(&staging)?;
        }
        prepare(side, &boot, &staging)
    })?;
    progress::step(&format!("make the disk of an installed {label}"), || {
        let mut pack = Command::new("mke2fs");
        pack.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
            .args(["-q", "-F", "-t", "ext4", "-L", label, "-d"])
            .args([&staging, &dir.join("disk.ext4")])
            .arg(SIZE);
        progress::quiet(&mut pack, &log("disk", side))?;
        cache::remove(&staging)
    })
}

/// Adds the files that a machine has before DoubleDecker comes.
fn furnish(side: Side, staging: &Path) -> Result<()> {
    fs::write(staging.join("etc/hostname"), format!("{}\n", label(side)))?;
    let bootstrap = staging.join(BOOTSTRAP_PATH);
    fs::remove_file(&bootstrap).with_context(|| format!("no {}", bootstrap.display()))?;
    fs::write(staging.join(APT_PATH), APT)?;
    fs::write(staging.join(DPKG_PATH), "force-unsafe-io\n")?;
    if side == Side::Guest {
        let shop = ddscenarios::shop();
        let path = format!("var/www/html/{}", shop.path);
        FileSpec::new(path, shop.len, shop.seed).write_below(staging)?;
    }
    Ok(())
}

/// Executes the commands of the page, in the directory with the packages.
fn install(side: Side, packages: &Path, staging: &Path) -> Result<()> {
    let (downloads, _lock) = cache::apt_downloads()?;
    let commands = commands(side, &mirror::find()?)?;
    let script = format!("set -x\ncd /packages\n{}\n", commands.join("\n"));
    let mut command = Chroot::new(staging)
        .bind(&downloads, "/var/cache/apt/archives")
        .bind(packages, "/packages")
        .command("bash");
    command.args(["-euc", &script]);
    progress::quiet(&mut command, &log("packages", side))?;
    fs::remove_dir(staging.join("packages"))?;
    fs::remove_file(staging.join(APT_PATH))?;
    Ok(fs::remove_file(staging.join(DPKG_PATH))?)
}

/// Adds the packages of the next version, which are not installed.
fn add_next(side: Side, packages: &Packages, staging: &Path) -> Result<()> {
    let mut command = Chroot::new(staging)
        .bind(&packages.current, "/packages/old")
        .bind(&packages.next, "/packages/new")
        .command("bash");
    command.args(["-euc", NEXT, "next", label(side)]);
    progress::quiet(&mut command, &log("next", side))?;
    Ok(fs::remove_dir_all(staging.join("packages"))?)
}

/// Adds a kernel that the module cannot be built for, as a machine has it that was upgraded.
fn add_former(staging: &Path) -> Result<()> {
    let (downloads, _lock) = cache::apt_downloads()?;
    let mut command = Chroot::new(staging)
        .bind(&downloads, "/var/cache/apt/archives")
        .command("bash");
    command.args(["-euc", FORMER]);
    progress::quiet(&mut command, &log("former", Side::Guest))
}

/// Checks the installation, adds the agent, and copies the files to boot from to the directory
/// `boot`.
fn prepare(side: Side, boot: &Path, staging: &Path) -> Result<()> {
    let unit = staging.join("etc/systemd/system/ddagent.service");
    fs::write(unit, AGENT_UNIT)?;
    let mut command = Chroot::new(staging).bind(boot, "/out").command("bash");
    command.args(["-euc", PREPARE, "prepare"]);
    command.arg(format!("doubledecker_{}", label(side)));
    progress::quiet(&mut command, &log("prepare", side))?;
    fs::remove_dir(staging.join("out"))?;
    match boot.join("vmlinuz").is_file() {
        true => Ok(()),
        false => bail!("no kernel was installed"),
    }
}

fn log(what: &str, side: Side) -> PathBuf {
    let name = format!("log/installed-{}-{what}.log", label(side));
    workspace::target().join(name)
}
