// SPDX-License-Identifier: GPL-2.0-only

//! The kernel's own selftests, built from the source of the kernel under test.

use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::{cache, progress, tree::Kernel, workspace};

/// Collections of tests that the modules could disturb.
const COLLECTIONS: [&str; 4] = ["cachestat", "cgroup", "kvm", "mm"];
/// Headers that some of them need.
const PACKAGES: &str = "libcap-dev libnuma-dev";
/// The first bytes of programs. Scripts are left out, because they need more than test machines
/// have.
const ELF: &[u8] = b"\x7fELF";

/// Returns the programs, with their paths below `to`.
pub(crate) fn programs(kernel: &Kernel, to: &str) -> Result<Vec<(PathBuf, String)>> {
    let built = build(kernel)?;
    let mut files = Vec::new();
    for collection in COLLECTIONS {
        let dir = built.join(collection);
        let entries = fs::read_dir(&dir).with_context(|| format!("no {}", dir.display()))?;
        for entry in entries {
            let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
            if is_program(&path)? {
                let place = format!("{to}/{collection}/{}", name.to_string_lossy());
                files.push((path, place));
            }
        }
    }
    Ok(files)
}

fn is_program(path: &Path) -> Result<bool> {
    if !path.is_file() {
        return Ok(false);
    }
    let mut begin = Vec::new();
    let length = ELF.len() as u64;
    File::open(path)?.take(length).read_to_end(&mut begin)?;
    Ok(begin == ELF)
}

fn build(kernel: &Kernel) -> Result<PathBuf> {
    let collections = COLLECTIONS.join(" ");
    let key = cache::key(&[&collections, PACKAGES, "1"]);
    let name = format!("{}-{key}", kernel.release.name);
    cache::entry("selftests", &name, |dir| {
        progress::step("build the kernel's selftests (some minutes, once)", || {
            compile(kernel, &collections, dir)
        })
    })
}

fn compile(kernel: &Kernel, collections: &str, dir: &Path) -> Result<()> {
    let jobs = std::thread::available_parallelism()?;
    let script = format!(
        "apt-get -y -o Acquire::Retries=5 install {PACKAGES}\n\
         cd {tree}\n\
         make headers\n\
         make -j{jobs} -C tools/testing/selftests TARGETS='{collections}' \
             FORCE_TARGETS=1 O=/out/build INSTALL_PATH=/out/install install\n\
         mv /out/install/* /out\n\
         rm -r /out/install /out/build\n",
        tree = Kernel::TREE,
    );
    let log = workspace::target().join("log/selftests.log");
    let mut command = kernel.chroot().bind(dir, "/out").command("sh");
    progress::quiet(command.args(["-euc", &script]), &log)
}
