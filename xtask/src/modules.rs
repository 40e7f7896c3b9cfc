// SPDX-License-Identifier: GPL-2.0

//! The kernel modules.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;

use crate::{progress, tree::Kernel, workspace};

/// Folders Kbuild needs.
const SOURCES: [&str; 6] = [
    "ddabi",
    "ddcore",
    "guest-module",
    "host-module",
    "scripts",
    "shim",
];
/// Folders with a module each.
const MODULES: [&str; 2] = ["host-module", "guest-module"];

/// How to build.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    /// For loading.
    Plain,
    /// With clippy and the kernel's extra warnings; for their messages only.
    Lint,
}

/// Builds both modules for a kernel; returns the directory they are in.
pub(crate) fn build(kernel: &Kernel, mode: Mode) -> Result<PathBuf> {
    let name = &kernel.release.name;
    let suffix = match mode {
        Mode::Plain => "",
        Mode::Lint => "-lint",
    };
    let work = workspace::target()
        .join("kbuild")
        .join(format!("{name}{suffix}"));
    fs::create_dir_all(&work)?;
    progress::step(&format!("build the modules for {name}{suffix}"), || {
        compile(kernel, mode, &work)
    })?;
    let out = workspace::target().join("modules").join(name);
    if mode == Mode::Plain {
        fs::create_dir_all(&out)?;
        for module in built(&work)? {
            let file = module.file_name().unwrap_or_default();
            fs::copy(&module, out.join(file))?;
        }
    }
    Ok(out)
}

/// Kbuild writes beside the sources, so it gets a copy: the source tree stays
/// clean, and objects of several kernels live side by side.
fn compile(kernel: &Kernel, mode: Mode, work: &Path) -> Result<()> {
    let extra = match mode {
        Mode::Plain => "",
        Mode::Lint => "CLIPPY=1 W=1",
    };
    let sources = SOURCES.map(|dir| format!("/repo/{dir}")).join(" ");
    let modules = MODULES.join(" ");
    let script = format!(
        "rsync -a --delete --exclude target \
             --filter 'P *.o' --filter 'P *.ko' --filter 'P *.mod' --filter 'P *.mod.c' \
             --filter 'P *.cmd' --filter 'P *.d' --filter 'P *.rmeta' \
             --filter 'P modules.order' --filter 'P Module.symvers' \
             {sources} /src/\n\
         failed=0\n\
         for module in {modules}; do\n\
             make -j{jobs} -C /k/tree M=/src/$module {arguments} {extra} modules || failed=1\n\
         done\n\
         exit $failed\n",
        jobs = std::thread::available_parallelism()?,
        arguments = kernel.make_arguments()?.join(" "),
    );
    let mut command = kernel
        .chroot()
        .bind(workspace::top(), "/repo")
        .bind(work, "/src")
        .command("sh");
    command.args(["-euc", &script]);
    progress::quiet(&mut command, &workspace::target().join("log/modules.log"))
}

fn built(work: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for module in MODULES {
        for entry in fs::read_dir(work.join(module))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "ko") {
                found.push(path);
            }
        }
    }
    Ok(found)
}
