// SPDX-License-Identifier: GPL-2.0

//! The kernel modules.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::{cache, progress, tree::Kernel, workspace};

/// Folders Kbuild needs.
const SOURCES: [&str; 8] = [
    "ddabi",
    "ddcore",
    "guest-module",
    "host-module",
    "scripts",
    "shim",
    "tests/hostile-module",
    "tests/livepatch-module",
];
/// Folders with a module in Rust each.
const RUST_MODULES: [&str; 3] = ["host-module", "guest-module", "tests/hostile-module"];
/// Folders with a module each.
const MODULES: [&str; 4] = [
    RUST_MODULES[0],
    RUST_MODULES[1],
    RUST_MODULES[2],
    "tests/livepatch-module",
];

/// What the kernel itself formats its Rust code as.
const EDITION: &str = "2021";

/// How to build.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mode {
    /// For loading.
    Plain,
    /// With clippy and the kernel's extra warnings; for their messages only.
    Lint,
    /// With invariants that break on demand (`shim/mutation.h`).
    Mutable,
}

impl Mode {
    /// Ends the names of its directories.
    fn suffix(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Lint => "-lint",
            Self::Mutable => "-mutable",
        }
    }
}

/// Builds all modules for a kernel; returns the directory they are in.
pub(crate) fn build(kernel: &Kernel) -> Result<PathBuf> {
    build_as(kernel, Mode::Plain)
}

/// Builds modules whose invariants break on demand; returns their directory.
pub(crate) fn build_mutable(kernel: &Kernel) -> Result<PathBuf> {
    build_as(kernel, Mode::Mutable)
}

fn build_as(kernel: &Kernel, mode: Mode) -> Result<PathBuf> {
    let name = &kernel.release.name;
    let suffix = mode.suffix();
    let work = work_dir(kernel, suffix)?;
    let _lock = cache::lock_in(&work)?;
    progress::step(&format!("build the modules for {name}{suffix}"), || {
        compile(kernel, mode, &work)
    })?;
    let out = workspace::target()
        .join("modules")
        .join(format!("{name}{suffix}"));
    fs::create_dir_all(&out)?;
    for module in built(&work)? {
        let file = module.file_name().unwrap_or_default();
        fs::copy(&module, out.join(file))?;
    }
    Ok(out)
}

/// Fails on any warning of clippy, the compilers, `modpost` or `objtool`.
pub(crate) fn lint(kernel: &Kernel) -> Result<()> {
    let work = work_dir(kernel, Mode::Lint.suffix())?;
    let _lock = cache::lock_in(&work)?;
    // What is not compiled again does not warn again.
    for dir in SOURCES {
        cache::remove(&work.join(dir))?;
    }
    compile(kernel, Mode::Lint, &work)?;
    let log = fs::read_to_string(log(Mode::Lint))?;
    match warnings(&log) {
        found if found.is_empty() => Ok(()),
        found => bail!("{found}"),
    }
}

/// Fails when the modules' Rust sources are not formatted. Cargo does not know
/// them.
pub(crate) fn check_format() -> Result<()> {
    let roots = RUST_MODULES.map(|module| format!("{module}/src/main.rs"));
    let status = Command::new("rustfmt")
        .current_dir(workspace::top())
        .args(["--check", "--edition", EDITION])
        .args(roots)
        .status()
        .context("cannot run rustfmt")?;
    if !status.success() {
        bail!("the modules are not formatted; rustfmt --edition {EDITION} */src/main.rs");
    }
    Ok(())
}

fn work_dir(kernel: &Kernel, suffix: &str) -> Result<PathBuf> {
    let name = format!("{}{suffix}", kernel.release.name);
    let work = workspace::target().join("kbuild").join(name);
    fs::create_dir_all(&work)?;
    Ok(work)
}

fn log(mode: Mode) -> PathBuf {
    let name = format!("modules{}.log", mode.suffix());
    workspace::target().join("log").join(name)
}

/// Kbuild writes beside the sources, so it gets a copy: the source tree stays
/// clean, and objects of several kernels live side by side.
fn compile(kernel: &Kernel, mode: Mode, work: &Path) -> Result<()> {
    let extra = match mode {
        Mode::Plain => "",
        Mode::Lint => "CLIPPY=1 W=1",
        Mode::Mutable => "DD_MUTATIONS=1",
    };
    // With the part of the path behind the dot.
    let sources = SOURCES.map(|dir| format!("/repo/./{dir}")).join(" ");
    let modules = MODULES.join(" ");
    let script = format!(
        "rsync -aR --delete --exclude target \
             --filter 'P *.o' --filter 'P *.ko' --filter 'P *.mod' --filter 'P *.mod.c' \
             --filter 'P *.cmd' --filter 'P *.d' --filter 'P *.rmeta' \
             --filter 'P modules.order' --filter 'P Module.symvers' \
             {sources} /src/\n\
         failed=0\n\
         for module in {modules}; do\n\
             make -j{jobs} -C {tree} M=/src/$module {arguments} {extra} modules || failed=1\n\
         done\n\
         exit $failed\n",
        jobs = std::thread::available_parallelism()?,
        tree = Kernel::TREE,
        arguments = kernel.make_arguments()?.join(" "),
    );
    let mut command = kernel
        .chroot()
        .bind(workspace::top(), "/repo")
        .bind(work, "/src")
        .command("sh");
    command.args(["-euc", &script]);
    progress::quiet(&mut command, &log(mode))
}

/// The warnings of a build, each with the lines that explain it.
fn warnings(log: &str) -> String {
    let mut found = Vec::new();
    let mut inside = false;
    for line in log.lines() {
        inside = !is_step(line) && (inside || line.to_lowercase().contains("warning"));
        if inside {
            found.push(line);
        }
    }
    found.join("\n")
}

/// `  CC [M]  a.o` or `make: …`: the line belongs to no warning.
fn is_step(line: &str) -> bool {
    let verb = |rest: &str| rest.bytes().take(2).all(|byte| byte.is_ascii_uppercase());
    line.starts_with("make") || line.strip_prefix("  ").is_some_and(verb)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_come_with_their_explanation() {
        let log = "make: Entering directory '/k/tree'\n  CC [M]  shim/kvm.o\n  CLIPPY [M] src/main.o\n\
            warning: needless borrow\n --> src/main.rs:1:2\n  |\n1 | x(&y)\n  LD [M]  a.o\n\
            a.o: warning: objtool: f() falls through\nmake: Leaving directory '/k/tree'\n";
        assert_eq!(
            warnings(log),
            "warning: needless borrow\n --> src/main.rs:1:2\n  |\n1 | x(&y)\n\
             a.o: warning: objtool: f() falls through"
        );
        assert_eq!(
            warnings("  CC [M]  a.o\nSkipping BTF generation for a.ko\n"),
            ""
        );
    }
}
