// SPDX-License-Identifier: GPL-2.0-only

//! Debian root directories, for building and for test machines.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::{cache, mirror, progress, suite::Suite, workspace};

/// Packages with compilers and the kernel's build tools.
const BUILD: &str = "\
    bc bindgen bison clang cpio erofs-utils flex gcc kmod libc6-dev libclang-dev libdw-dev \
    libelf-dev libssl-dev make pahole patch python3 rsync rust-clippy rust-src rustc rustfmt \
    xz-utils";

/// Packages to build the emulator, for machines whose KVM cannot carry L1.
const EMULATOR: &str = "\
    binutils bzip2 gcc libc6-dev libfdt-dev libglib2.0-dev meson ninja-build patch pkgconf \
    python3-pycotap python3-venv xz-utils zlib1g-dev";

/// Packages of test machines. Their emulator runs L1 as well.
const RUN: &str = "\
    bcache-tools bpftrace busybox-static dmsetup e2fsprogs fio iproute2 kmod linux-perf procps \
    qemu-system-x86 stress-ng strace trace-cmd mount util-linux xfsprogs";

/// Packages of a complete Debian, for guests with systemd.
pub(crate) const DEBIAN: &str = "\
    conmon crun dbus dbus-user-session mariadb-server netavark nginx-light podman redis-server \
    sqlite3 systemd-sysv";

/// Firmware with Secure Boot, the boot loaders that it accepts, and programs for their keys and
/// disks.
const SECURE_BOOT: &str = "grub-efi-amd64-signed mokutil mtools openssl ovmf shim-signed";

/// Packages that build and check Debian packages. Crates ask for a newer compiler than the stable
/// one.
const DIST: &str = "\
    build-essential cargo/trixie-backports rustc/trixie-backports libstd-rust-dev/trixie-backports \
    debhelper dh-dkms lintian shellcheck";

/// Tools that check files for other systems, and libvirt with an emulator.
const INTEGRATIONS: &str = "\
    ansible-core ansible-lint cloud-init libvirt-clients libvirt-daemon libvirt-daemon-driver-qemu \
    makepkg python3 qemu-system-x86 rpm rpmlint yamllint";

/// Container runtimes, a program for the containers, and what a cluster of Kubernetes needs. Debian
/// has no nerdctl.
const RUNTIMES: &str = "\
    busybox-static containerd docker-cli docker.io etcd-server kubernetes-client lxc mount openssl \
    runc";

/// Returns the root to build for `suite` in.
pub(crate) fn build(suite: Suite) -> Result<PathBuf> {
    make("build", suite, BUILD)
}

/// Returns the root of the test machines, which is of the stable suite for every kernel.
pub(crate) fn run() -> Result<PathBuf> {
    make("run", Suite::TrixieBackports, RUN)
}

/// Returns the root to build the emulator in.
pub(crate) fn emulator() -> Result<PathBuf> {
    make("emulator", Suite::TrixieBackports, EMULATOR)
}

/// Returns the root with what a machine with Secure Boot needs.
pub(crate) fn secure_boot() -> Result<PathBuf> {
    make("secure-boot", Suite::TrixieBackports, SECURE_BOOT)
}

/// Returns the root to build packages in.
pub(crate) fn dist() -> Result<PathBuf> {
    make("dist", Suite::TrixieBackports, DIST)
}

/// Returns the root with Prometheus and its linter. Both run as they are unpacked, so that the
/// tests need not wait for the installation of a Debian.
pub(crate) fn monitoring() -> Result<PathBuf> {
    make_as(
        Variant::Extract,
        "monitoring",
        Suite::TrixieBackports,
        "prometheus",
    )
}

/// Returns the root with tools of other systems that check the files made for these.
pub(crate) fn integrations() -> Result<PathBuf> {
    make("integrations", Suite::TrixieBackports, INTEGRATIONS)
}

/// Returns the root with container runtimes.
pub(crate) fn runtimes() -> Result<PathBuf> {
    make("runtimes", Suite::TrixieBackports, RUNTIMES)
}

/// Returns the root to try packages in, which has no more than Debian itself and apt.
pub(crate) fn bare() -> Result<PathBuf> {
    make("bare", Suite::TrixieBackports, "apt")
}

/// Makes a complete Debian in the empty directory `dir`.
pub(crate) fn debian(dir: &Path) -> Result<()> {
    let suite = Suite::TrixieBackports;
    let sources = suite.sources(&mirror::find()?);
    let packages = DEBIAN.replace(' ', ",");
    mmdebstrap(Variant::Apt, suite.base(), &sources, &packages, dir)
}

/// Makes a Debian as its installer leaves it, with some packages, in the empty directory `dir`. Its
/// sources are those of the stable suite alone.
pub(crate) fn clean(packages: &str, dir: &Path) -> Result<()> {
    let suite = Suite::TrixieBackports;
    let sources = suite.stable_sources(&mirror::find()?);
    let packages = packages.replace(' ', ",");
    mmdebstrap(Variant::Important, suite.base(), &sources, &packages, dir)
}

/// Writes a script that runs a program of another root directory on the files of this machine.
pub(crate) fn launcher(root: &Path, program: &str) -> Result<PathBuf> {
    let directory = workspace::target().join("launcher");
    fs::create_dir_all(&directory)?;
    let path = directory.join(program);
    let root = root.display();
    let script = format!(
        "#!/bin/sh\nexec '{root}/usr/lib64/ld-linux-x86-64.so.2' --library-path \
         '{root}/usr/lib/x86_64-linux-gnu' '{root}/usr/bin/{program}' \"$@\"\n"
    );
    fs::write(&path, script)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// A set of packages that a root has in any case.
#[derive(Clone, Copy, Debug)]
enum Variant {
    /// apt, and what Debian calls essential.
    Apt,
    /// Those of the priority `important` as well, with systemd and udev.
    Important,
    /// None: the packages are unpacked, and not installed.
    Extract,
}

impl Variant {
    fn name(self) -> &'static str {
        match self {
            Self::Apt => "apt",
            Self::Important => "important",
            Self::Extract => "extract",
        }
    }
}

fn make(role: &str, suite: Suite, packages: &str) -> Result<PathBuf> {
    make_as(Variant::Apt, role, suite, packages)
}

fn make_as(variant: Variant, role: &str, suite: Suite, packages: &str) -> Result<PathBuf> {
    let (base, label) = (suite.base(), suite.label());
    let sources = suite.sources(&mirror::find()?);
    let list = packages.replace(' ', ",");
    // The mirror is not part of the key, because all mirrors serve the same packages.
    let name = format!("{role}-{label}-{}", cache::key(&[label, &list]));
    cache::entry("root", &name, |dir| {
        progress::step(&format!("make the {label} root to {role} in"), || {
            mmdebstrap(variant, base, &sources, &list, dir)
        })
    })
}

fn mmdebstrap(
    variant: Variant,
    base: &str,
    sources: &str,
    packages: &str,
    dir: &Path,
) -> Result<()> {
    let log = workspace::target().join("log/mmdebstrap.log");
    fs::create_dir_all(workspace::target().join("log"))?;
    let file = fs::File::create(&log)?;
    let mut child = Command::new("mmdebstrap")
        .arg("--mode=root")
        .arg(format!("--variant={}", variant.name()))
        .arg("--aptopt=APT::Install-Recommends \"false\"")
        .arg("--aptopt=Acquire::Retries \"5\"")
        // Mirrors frozen at a day serve expired lists.
        .arg("--aptopt=Acquire::Check-Valid-Until \"false\"")
        .arg(format!("--include={packages}"))
        .arg(base)
        .arg(dir)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()
        .context("cannot run mmdebstrap")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(sources.as_bytes())?;
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("mmdebstrap failed ({status}); see {}", log.display());
    }
    Ok(())
}
