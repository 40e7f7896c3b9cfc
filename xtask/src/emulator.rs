// SPDX-License-Identifier: GPL-2.0-only

//! The emulator for L1 where this machine's KVM cannot carry it: the source of the stable suite
//! with the patches of `patches/qemu`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::{cache, chroot::Chroot, progress, root, workspace};

/// The patches in the order in which they are applied. Each states its reason and whether it is fit
/// for upstream.
const PATCHES: &str = concat!(
    include_str!("../patches/qemu/0001-interrupt.patch"),
    include_str!("../patches/qemu/0002-event.patch"),
    include_str!("../patches/qemu/0003-translations.patch"),
    include_str!("../patches/qemu/0004-clock.patch"),
    include_str!("../patches/qemu/0005-firmware.patch"),
);
/// The emulator is built for the lab's machines only, which shortens the build.
const CONFIGURE: &str = "--target-list=x86_64-softmmu --without-default-features --enable-tcg \
                         --without-default-devices --with-devices-x86_64=lab \
                         --disable-debug-info --disable-docs --disable-tools \
                         --disable-guest-agent --disable-install-blobs";
/// The devices of [`CONFIGURE`]'s `lab`.
const DEVICES: &str = "CONFIG_Q35=y\nCONFIG_VIRTIO_PCI=y\nCONFIG_VIRTIO_BLK=y\n\
                       CONFIG_VIRTIO_SERIAL=y\n";
/// Name of the program.
const PROGRAM: &str = "qemu-system-x86_64";

/// Returns the emulator's program, after building it if it is not in the cache.
pub(crate) fn build() -> Result<PathBuf> {
    let root = root::emulator()?;
    let root_name = root.file_name().unwrap_or_default().to_string_lossy();
    let key = cache::key(&[PATCHES, CONFIGURE, DEVICES, &root_name]);
    let dir = cache::entry("emulator", &format!("qemu-{key}"), |dir| {
        progress::step("download the emulator's source", || download(&root, dir))?;
        progress::step("build the emulator (some minutes, once)", || {
            compile(&root, dir)
        })
    })?;
    Ok(dir.join(PROGRAM))
}

fn download(root: &Path, dir: &Path) -> Result<()> {
    let script = "sed -n '/backports/!s/^deb /deb-src /p' /etc/apt/sources.list > \
                      /etc/apt/sources.list.d/source.list\n\
                  apt-get -qq update\n\
                  cd /emulator\n\
                  apt-get -o Acquire::Retries=5 -o APT::Sandbox::User=root \
                      source --download-only qemu\n\
                  mkdir source\n\
                  tar -xf qemu_*.orig.tar.xz -C source --strip-components=1\n\
                  rm qemu_*\n";
    run(root, dir, script, "emulator-download.log")
}

fn compile(root: &Path, dir: &Path) -> Result<()> {
    fs::write(dir.join("qemu.patch"), PATCHES)?;
    fs::write(
        dir.join("source/configs/devices/x86_64-softmmu/lab.mak"),
        DEVICES,
    )?;
    let jobs = std::thread::available_parallelism()?;
    let script = format!(
        "cd /emulator/source\n\
         patch -p1 < ../qemu.patch\n\
         mkdir build\n\
         cd build\n\
         ../configure {CONFIGURE}\n\
         ninja -j{jobs} {PROGRAM}\n\
         strip -o /emulator/{PROGRAM} {PROGRAM}\n\
         rm -r /emulator/source\n"
    );
    run(root, dir, &script, "emulator-build.log").context("the emulator could not be built")
}

fn run(root: &Path, dir: &Path, script: &str, log: &str) -> Result<()> {
    let log = workspace::target().join("log").join(log);
    let mut command = Chroot::new(root).bind(dir, "/emulator").command("sh");
    progress::quiet(command.args(["-euc", script]), &log)
}
