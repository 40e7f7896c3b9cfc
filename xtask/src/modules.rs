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

/// Folders that Kbuild needs.
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
/// Folders with one module in Rust each.
const RUST_MODULES: [&str; 3] = ["host-module", "guest-module", "tests/hostile-module"];
/// Folders with one module each.
const MODULES: [&str; 4] = [
    RUST_MODULES[0],
    RUST_MODULES[1],
    RUST_MODULES[2],
    "tests/livepatch-module",
];

/// The edition with which the kernel formats its Rust code.
const EDITION: &str = "2021";

/// The version that Kbuild would read from the workspace's `Cargo.toml`. That file is not copied,
/// because it changes with every dependency of the tools.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Purpose of a build.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mode {
    /// The modules are built to be loaded.
    Plain,
    /// With clippy and the kernel's extra warnings, for their messages only.
    Lint,
    /// From a copy of the tree to which patches of `tests/mutations` were applied.
    Mutated,
}

impl Mode {
    /// Returns the suffix of the directories' names.
    fn suffix(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Lint => "-lint",
            Self::Mutated => "-mutated",
        }
    }
}

/// Builds all modules for a kernel and returns their directory.
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
    // A file that is not compiled again would not show its warnings again.
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

/// Fails if the modules' Rust sources are not formatted. Cargo does not know these sources.
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

/// Returns the directory in which modules are compiled.
fn work_dir(kernel: &Kernel, mode: Mode) -> Result<PathBuf> {
    let name = format!("{}{}", kernel.release.name, mode.suffix());
    let work = workspace::target().join("kbuild").join(name);
    fs::create_dir_all(&work)?;
    Ok(work)
}

/// Returns the directory of the finished modules.
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
/// Kbuild writes beside the sources and therefore gets a copy: the source tree stays clean, and
/// objects of several kernels coexist. A changed file gets the time of the copy, whatever its own
/// is, so that make rebuilds it also when an older text comes back.
fn compile(
    kernel: &Kernel,
    mode: Mode,
    (from, work): (&Path, &Path),
    modules: &[&str],
) -> Result<()> {
    let (extra, after) = match mode {
        Mode::Plain => ("", ""),
        Mode::Lint => ("CLIPPY=1 W=1", ""),
        // There are many such modules, each with megabytes of debug information.
        Mode::Mutated => ("", "strip --strip-debug /src/$module/*.ko"),
    };
    let sources = SOURCES.iter().filter(|dir| from.join(dir).is_dir());
    // The dot makes rsync keep the part of the path behind it.
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

/// Returns the warnings of a build, each with the lines that explain it.
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

/// Returns whether a line is a step of the build (`  CC [M]  a.o` or `make: …`), which belongs to
/// no warning.
fn is_step(line: &str) -> bool {
    let verb = |rest: &str| rest.bytes().take(2).all(|byte| byte.is_ascii_uppercase());
    line.starts_with("make") || line.strip_prefix("  ").is_some_and(verb)
}

/// Copies the modules from their folders to the directory `out`.
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

    /// A build by hand reads the version of the workspace, which is also that of the tools.
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
