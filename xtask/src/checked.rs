// SPDX-License-Identifier: GPL-2.0-only

//! Kernels with checks: the source and configuration of a stock kernel, changed by the fragments in
//! `tests/kernel` and built here.

use std::{fs, path::Path};

use anyhow::{Result, ensure};

use crate::{
    cache,
    config::Config,
    progress,
    release::Release,
    suite::{Checks, KernelArgs},
    tree, workspace,
};

/// The fragment that all of them use.
const MACHINE: &str = include_str!("../../tests/kernel/machine.config");
const DEBUG: &str = include_str!("../../tests/kernel/debug.config");
const CSAN: &str = include_str!("../../tests/kernel/csan.config");
const HARDENED: &str = include_str!("../../tests/kernel/hardened.config");

/// The stock configuration without modules, then the fragments: the last setting of an option
/// counts. KCSAN does not instrument the code that restores a processor's `%gs`, because it uses
/// `%gs` itself, and a machine that wakes up would crash.
const CONFIGURE: &str = r#"
cd /k/tree
for package in clang-$llvm lld-$llvm llvm-$llvm lz4; do
    dpkg-query --show $package >/dev/null 2>&1 || set -- "$@" $package
done
[ $# -eq 0 ] || apt-get -y -o Acquire::Retries=5 install "$@"
sed 's/^\(CONFIG_.*\)=m$/# \1 is not set/' .config > stock.config
cat stock.config fragment.config > .config
echo 'KCSAN_SANITIZE_cpu.o := n' >> arch/x86/power/Makefile
make $arguments olddefconfig
"#;

/// Excludes the objects of modules from the build, because they would take more space than all
/// other files.
const BUILD: &str = r#"
cd /k/tree
make -j$(nproc) $arguments bzImage modules
make $arguments INSTALL_MOD_PATH=/k/packages/usr INSTALL_MOD_STRIP=1 modules_install
mkdir -p ../packages/boot
cp arch/x86/boot/bzImage ../packages/boot/vmlinuz-$release
rm vmlinux vmlinux.unstripped
find . -name '*.o' ! -path './scripts/*' ! -path './tools/*' ! -path './rust/*' -delete
"#;

/// The inputs of a kernel with checks.
#[derive(Debug)]
pub(crate) struct Recipe {
    /// The resulting release. Its name depends on the inputs, so that builds for different kernels
    /// are never confused.
    pub(crate) release: Release,
    /// The changes of the stock configuration.
    fragment: String,
}

impl Recipe {
    /// Returns the recipe for the checks in `args`, or `None` for the stock kernel's.
    pub(crate) fn new(stock: &Release, args: &KernelArgs) -> Option<Self> {
        let (label, fragment) = match args.checks {
            Checks::Stock => return None,
            Checks::Debug => ("debug", DEBUG),
            Checks::Csan => ("csan", CSAN),
            Checks::Hardened => ("hardened", HARDENED),
        };
        let fragment = settings(&(MACHINE.to_owned() + fragment));
        let key = cache::key(&[&stock.name, &stock.version, &fragment, CONFIGURE, BUILD]);
        let version = stock.name.trim_end_matches(args.flavour.name());
        let release = Release {
            name: format!("{version}{label}-{key}"),
            ..stock.clone()
        };
        Some(Self { release, fragment })
    }

    /// Builds the kernel from `stock`'s source, in the empty directory `dir`.
    pub(crate) fn make(&self, build_root: &Path, stock: &Release, dir: &Path) -> Result<()> {
        tree::fetch(build_root, stock, &[], dir)?;
        let tree = dir.join("tree");
        fs::write(tree.join("fragment.config"), &self.fragment)?;
        let name = &self.release.name;
        self.run(
            &format!("configure kernel {name}"),
            CONFIGURE,
            build_root,
            dir,
        )?;
        let unmet = Config::of(&tree)?.unmet(&self.fragment).join(", ");
        ensure!(
            unmet.is_empty(),
            "kernel {name} cannot be configured with {unmet}"
        );
        let what = format!("build kernel {name} (half an hour, once)");
        self.run(&what, BUILD, build_root, dir)
    }

    fn run(&self, what: &str, script: &str, build_root: &Path, dir: &Path) -> Result<()> {
        let config = Config::of(&dir.join("tree"))?;
        let llvm = tree::llvm(&config)?;
        let mut arguments = tree::names(&self.release);
        arguments.push(format!("LLVM=-{llvm}"));
        let mut shell = tree::shell(build_root, dir, script);
        shell
            .env("llvm", llvm)
            .env("release", &self.release.name)
            .env("arguments", arguments.join(" "));
        let log = workspace::target().join("log/kernel-build.log");
        progress::step(what, || progress::quiet(&mut shell, &log))
    }
}

/// Returns the lines of a fragment that set or unset an option, so that a change to a comment does
/// not cause another build.
fn settings(fragment: &str) -> String {
    let set = |line: &&str| line.starts_with("CONFIG_") || line.ends_with(" is not set");
    fragment
        .lines()
        .filter(set)
        .flat_map(|line| [line, "\n"])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_not_part_of_a_fragments_settings() {
        let fragment = "# Locks.\n\nCONFIG_A=y\n# CONFIG_B is not set\n";
        assert_eq!(settings(fragment), "CONFIG_A=y\n# CONFIG_B is not set\n");
    }

    #[test]
    fn kernels_are_named_by_their_inputs() {
        let stock = Release {
            name: "7.2.12+deb13-cloud-amd64".to_owned(),
            version: "7.2.12-1~bpo13+1".to_owned(),
            source: "linux-source-7.2".to_owned(),
        };
        let name = |checks| {
            let args = KernelArgs {
                checks,
                ..KernelArgs::default()
            };
            Recipe::new(&stock, &args).map(|recipe| recipe.release.name)
        };
        assert_eq!(name(Checks::Stock), None);
        let debug = name(Checks::Debug).unwrap();
        assert!(debug.starts_with("7.2.12+deb13-debug-"), "{debug}");
        assert_ne!(name(Checks::Csan).unwrap()[19..], debug[19..]);
    }
}
