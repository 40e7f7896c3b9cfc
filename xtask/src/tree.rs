// SPDX-License-Identifier: GPL-2.0-only

//! A kernel: its unpacked packages, and its source, prepared for modules.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    cache,
    checked::Recipe,
    chroot::Chroot,
    config::Config,
    progress,
    release::{self, Release},
    root,
    suite::KernelArgs,
    workspace,
};

/// Path of the kernel's directory in the build root. The prepared tree contains this path.
const INSIDE: &str = "/k";

/// A kernel that is ready for booting and for building modules.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    /// Its release.
    pub(crate) release: Release,
    /// Build root with its compilers.
    pub(crate) build_root: PathBuf,
    /// Directory of `packages/` and `tree/`.
    dir: PathBuf,
}

impl Kernel {
    /// Path of the source in [`Kernel::chroot`].
    pub(crate) const TREE: &str = "/k/tree";

    /// Returns the kernel that `args` select, after preparing it if it is not in the cache.
    pub(crate) fn prepare(args: &KernelArgs) -> Result<Self> {
        let build_root = root::build(args.suite)?;
        let stock = choose(&build_root, args)?;
        let recipe = Recipe::new(&stock, args);
        let release = recipe.as_ref().map_or(&stock, |recipe| &recipe.release);
        let dir = cache::entry("kernel", &release.name, |dir| match &recipe {
            None => make(&build_root, &stock, dir),
            Some(recipe) => recipe.make(&build_root, &stock, dir),
        })?;
        let release = release.clone();
        Ok(Self {
            release,
            build_root,
            dir,
        })
    }

    /// Returns the build root with this kernel in it.
    pub(crate) fn chroot(&self) -> Chroot {
        Chroot::new(&self.build_root).bind(&self.dir, INSIDE)
    }

    /// Returns the directory of the stock modules.
    pub(crate) fn modules(&self) -> PathBuf {
        self.dir
            .join("packages/usr/lib/modules")
            .join(&self.release.name)
    }

    /// Returns the stock image.
    pub(crate) fn image(&self) -> Result<PathBuf> {
        let name = &self.release.name;
        let places = [
            self.modules().join("vmlinuz"),
            self.dir.join(format!("packages/boot/vmlinuz-{name}")),
        ];
        let found = places.into_iter().find(|path| path.exists());
        found.with_context(|| format!("the packages of {name} have no kernel image"))
    }

    /// Returns the program that signs modules.
    pub(crate) fn signer(&self) -> PathBuf {
        self.dir.join("tree/scripts/sign-file")
    }

    /// Returns arguments of `make` that make builds agree with the stock kernel's.
    pub(crate) fn make_arguments(&self) -> Result<Vec<String>> {
        make_arguments(&self.release, &self.dir)
    }
}

/// Returns the release that would be used on this machine, for `kernel list`.
pub(crate) fn choose(build_root: &Path, args: &KernelArgs) -> Result<Release> {
    let mut found = release::list(build_root, args)?;
    if found.is_empty() {
        update(build_root)?;
        found = release::list(build_root, args)?;
    }
    let (release, remark) = release::choose(found, args)?;
    if let Some(remark) = remark {
        eprintln!("note: {remark}");
    }
    Ok(release)
}

/// Refreshes the package lists.
pub(crate) fn update(build_root: &Path) -> Result<()> {
    let log = workspace::target().join("log/apt-update.log");
    progress::step("refresh the package lists", || {
        progress::quiet(&mut release::update(build_root), &log)
    })
}

fn make(build_root: &Path, release: &Release, dir: &Path) -> Result<()> {
    let name = &release.name;
    fetch(build_root, release, &["image", "binary", "modules"], dir)?;
    progress::step(&format!("prepare kernel {name} for Rust modules"), || {
        prepare(build_root, release, dir)
    })
}

/// Fills `packages/` and `tree/` in `dir`: headers, those `parts` that the mirror has, and the
/// source with the stock configuration.
pub(crate) fn fetch(
    build_root: &Path,
    release: &Release,
    parts: &[&str],
    dir: &Path,
) -> Result<()> {
    let name = &release.name;
    progress::step(&format!("download kernel {name}"), || {
        download(build_root, release, parts, dir)
    })?;
    progress::step(&format!("unpack kernel {name}"), || {
        unpack(build_root, release, dir)
    })?;
    fs::copy(
        headers(release, dir).join(".config"),
        dir.join("tree/.config"),
    )
    .context("the headers package has no .config")?;
    Ok(())
}

fn headers(release: &Release, dir: &Path) -> PathBuf {
    dir.join(format!("packages/usr/src/linux-headers-{}", release.name))
}

fn download(build_root: &Path, release: &Release, parts: &[&str], dir: &Path) -> Result<()> {
    let Release {
        name,
        version,
        source,
    } = release;
    fs::create_dir(dir.join("debs"))?;
    let script = format!(
        "cd {INSIDE}/debs\n\
         for part in {parts}; do\n\
             if [ -n \"$(apt-cache pkgnames linux-$part-{name} | grep -Fx linux-$part-{name})\" ]; then\n\
                 set -- \"$@\" linux-$part-{name}\n\
             fi\n\
         done\n\
         apt-get -o Acquire::Retries=5 -o APT::Sandbox::User=root download \"$@\" \
             linux-headers-{name}={version} {source}={version}\n",
        parts = parts.join(" ")
    );
    let log = workspace::target().join("log/kernel-download.log");
    let run = || progress::quiet(&mut shell(build_root, dir, &script), &log);
    // The lists may be older than the mirror's pool.
    run().or_else(|_| update(build_root).and_then(|()| run()))
}

fn unpack(build_root: &Path, release: &Release, dir: &Path) -> Result<()> {
    let script = format!(
        "cd {INSIDE}\n\
         mkdir packages tree\n\
         for deb in debs/*.deb; do dpkg-deb -x $deb packages; done\n\
         tar -xf packages/usr/src/{}.tar.xz -C tree --strip-components=1\n\
         rm -r debs packages/usr/src/{}.tar.xz\n",
        release.source, release.source
    );
    let log = workspace::target().join("log/kernel-unpack.log");
    progress::quiet(&mut shell(build_root, dir, &script), &log)
}

fn prepare(build_root: &Path, release: &Release, dir: &Path) -> Result<()> {
    let tree = dir.join("tree");
    let arguments = make_arguments(release, dir)?;
    let jobs = std::thread::available_parallelism()?;
    let script = format!(
        "cd {INSIDE}/tree\n\
         command -v {} >/dev/null || apt-get -y install {}\n\
         make -j{jobs} {} olddefconfig modules_prepare\n",
        compiler(dir)?,
        host_compiler(dir)?,
        arguments.join(" ")
    );
    let log = workspace::target().join("log/kernel-prepare.log");
    progress::quiet(&mut shell(build_root, dir, &script), &log)?;
    let symbols = headers(release, dir).join("Module.symvers");
    fs::copy(symbols, tree.join("Module.symvers"))
        .context("the headers package has no Module.symvers")?;
    if Config::of(&tree)?.get("RUST") != Some("y") {
        bail!(
            "this toolchain cannot build {} with Rust; see {}",
            release.name,
            log.display()
        );
    }
    Ok(())
}

fn make_arguments(release: &Release, dir: &Path) -> Result<Vec<String>> {
    let mut arguments = names(release);
    let config = Config::of(&dir.join("tree"))?;
    match config.get("CC_IS_CLANG") {
        Some(_) => arguments.push(format!("LLVM=-{}", llvm(&config)?)),
        None => arguments.extend([
            format!("CC={}", compiler(dir)?),
            format!("HOSTCC={}", host_compiler(dir)?),
        ]),
    }
    Ok(arguments)
}

/// Returns arguments of `make` that set the kernel's name.
pub(crate) fn names(release: &Release) -> Vec<String> {
    vec![
        format!("LOCALVERSION={}", release.local()),
        format!("KERNELRELEASE={}", release.name),
    ]
}

/// Returns the version of LLVM that clang and Rust's compiler must both have.
pub(crate) fn llvm(config: &Config) -> Result<&str> {
    config
        .get("RUSTC_LLVM_MAJOR_VERSION")
        .context("the kernel's configuration has no version of rustc's LLVM")
}

/// Returns the compiler of the stock kernel, from its configuration.
fn compiler(dir: &Path) -> Result<String> {
    let config = Config::of(&dir.join("tree"))?;
    let text = config
        .get("CC_VERSION_TEXT")
        .and_then(|text| text.split(' ').next());
    text.map(str::to_owned)
        .context("the kernel's configuration has no compiler")
}

/// Returns the same compiler by its package's name.
fn host_compiler(dir: &Path) -> Result<String> {
    let compiler = compiler(dir)?;
    let at = compiler.find("gcc").unwrap_or(0);
    Ok(compiler[at..].to_owned())
}

/// Returns a command that runs a script in the build root, with the kernel's directory mounted.
pub(crate) fn shell(build_root: &Path, dir: &Path, script: &str) -> std::process::Command {
    let mut command = Chroot::new(build_root).bind(dir, INSIDE).command("sh");
    command.args(["-euc", script]);
    command
}
