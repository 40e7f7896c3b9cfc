// SPDX-License-Identifier: GPL-2.0-only

//! The kernel modules.

mod mutated;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::{cache, progress, tree::Kernel, workspace};

pub(crate) use mutated::build as build_mutated;

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

/// What Kbuild would read from the workspace's `Cargo.toml`, which is not copied: it changes with
/// every dependency of the tools.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How to build.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mode {
    /// For loading.
    Plain,
    /// With clippy and the kernel's extra warnings; for their messages only.
    Lint,
    /// From a copy of the tree to which patches of `tests/mutations` were applied.
    Mutated,
}

impl Mode {
    /// Ends the names of its directories.
    fn suffix(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Lint => "-lint",
            Self::Mutated => "-mutated",
        }
    }
}

/// Builds all modules for a kernel; returns the directory they are in.
pub(crate) fn build(kernel: &Kernel) -> Result<PathBuf> {
    let name = &kernel.release.name;
    let work = work_dir(kernel, Mode::Plain)?;
    let _lock = cache::lock_in(&work)?;
    progress::step(&format!("build the modules for {name}"), || {
        compile(kernel, Mode::Plain, (workspace::top(), &work), &MODULES)
    })?;
    let out = out_dir(kernel, Mode::Plain);
    gather(&work, &MODULES, &out)?;
    Ok(out)
}

/// Fails on any warning of clippy, the compilers, `modpost` or `objtool`.
pub(crate) fn lint(kernel: &Kernel) -> Result<()> {
    let work = work_dir(kernel, Mode::Lint)?;
    let _lock = cache::lock_in(&work)?;
    // What is not compiled again does not warn again.
    for dir in SOURCES {
        cache::remove(&work.join(dir))?;
    }
    compile(kernel, Mode::Lint, (workspace::top(), &work), &MODULES)?;
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

/// Where modules are compiled.
fn work_dir(kernel: &Kernel, mode: Mode) -> Result<PathBuf> {
    let name = format!("{}{}", kernel.release.name, mode.suffix());
    let work = workspace::target().join("kbuild").join(name);
    fs::create_dir_all(&work)?;
    Ok(work)
}

/// Where they are found afterwards.
fn out_dir(kernel: &Kernel, mode: Mode) -> PathBuf {
    let name = format!("{}{}", kernel.release.name, mode.suffix());
    workspace::target().join("modules").join(name)
}

fn log(mode: Mode) -> PathBuf {
    let name = format!("modules{}.log", mode.suffix());
    workspace::target().join("log").join(name)
}

/// Compiles the modules in some of the folders [`MODULES`], from the tree `from`.
///
/// Kbuild writes beside the sources, so it gets a copy: the source tree stays
/// clean, and objects of several kernels live side by side. A file that changes gets the time of
/// the copy, whatever its own is, so that make sees it also when an older text comes back.
fn compile(
    kernel: &Kernel,
    mode: Mode,
    (from, work): (&Path, &Path),
    modules: &[&str],
) -> Result<()> {
    let (extra, after) = match mode {
        Mode::Plain => ("", ""),
        Mode::Lint => ("CLIPPY=1 W=1", ""),
        // There are many of them, each with megabytes of what only debuggers read.
        Mode::Mutated => ("", "strip --strip-debug /src/$module/*.ko"),
    };
    let sources = SOURCES.iter().filter(|dir| from.join(dir).is_dir());
    // With the part of the path behind the dot.
    let sources: Vec<String> = sources.map(|dir| format!("/repo/./{dir}")).collect();
    let sources = sources.join(" ");
    let modules = modules.join(" ");
    let script = format!(
        "rsync -rlpRc --delete --exclude target \
             --filter 'P *.o' --filter 'P *.ko' --filter 'P *.mod' --filter 'P *.mod.c' \
             --filter 'P *.cmd' --filter 'P *.d' --filter 'P *.rmeta' \
             --filter 'P modules.order' --filter 'P Module.symvers' \
             {sources} /src/\n\
         failed=0\n\
         for module in {modules}; do\n\
             make -j{jobs} -C {tree} M=/src/$module dd-version={version} \
                 {arguments} {extra} modules || failed=1\n\
             {after}\n\
         done\n\
         exit $failed\n",
        jobs = std::thread::available_parallelism()?,
        tree = Kernel::TREE,
        arguments = kernel.make_arguments()?.join(" "),
        version = VERSION,
    );
    let mut command = kernel
        .chroot()
        .bind(from, "/repo")
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

/// Copies the modules that were built in folders to the directory `out`.
fn gather(work: &Path, modules: &[&str], out: &Path) -> Result<()> {
    fs::create_dir_all(out)?;
    for module in modules {
        for entry in fs::read_dir(work.join(module))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "ko") {
                fs::copy(&path, out.join(path.file_name().unwrap_or_default()))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A build by hand finds the version of the workspace, which that of the tools is.
    #[test]
    fn kbuild_reads_the_version_of_the_workspace() {
        let output = Command::new("make")
            .args(["-s", "-f", "scripts/Kbuild.crates", "dd-root=."])
            .args(["--eval", "version: ; @echo $(dd-version)", "version"])
            .current_dir(workspace::top())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), VERSION);
    }

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
