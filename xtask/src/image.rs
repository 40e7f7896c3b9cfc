// SPDX-License-Identifier: GPL-2.0-only

//! Images that the test machines boot from.

use std::{
    collections::BTreeSet,
    fs,
    panic::resume_unwind,
    path::{Path, PathBuf},
    thread,
};

use anyhow::{Context as _, Result};
use ddlab::{Accel, Artifacts, Qemu, SecureBoot};
use ddscenarios::Patches;

use crate::{
    cache,
    chroot::Chroot,
    emulator, initrd, installed, modules, monitoring, progress, root, selftests,
    suite::{KernelArgs, Suite},
    tools,
    tree::Kernel,
    workspace,
};

/// Modules that a machine needs to find its root.
const BOOT_MODULES: [&str; 3] = ["virtio_blk", "erofs", "overlay"];
/// Documentation, which is left out of the root image.
const SUPERFLUOUS: [&str; 7] = [
    "usr/share/doc",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/info",
    "usr/share/lintian",
    "var/cache/apt",
    "var/lib/apt",
];

/// The project's files in a lab.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Content {
    /// Modules and tools.
    All(Extras),
    /// The agent only, for work on the lab itself.
    Agent,
    /// The agent and the benchmark of the engine.
    Bench,
}

/// Files that only a few scenarios need.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Extras {
    /// Modules with patches of `tests/mutations`, one build for each set of patches.
    pub(crate) mutated: BTreeSet<Patches>,
    /// The kernel's own selftests.
    pub(crate) selftests: bool,
    /// The file system exerciser, on the path.
    pub(crate) fsx: bool,
    /// The program of the kernel's source that signs modules, on the path.
    pub(crate) signer: bool,
    /// A host and a guest in which the packages are installed.
    pub(crate) installed: bool,
}

impl Content {
    /// Modules and tools without extras.
    pub(crate) const ALL: Self = Self::All(Extras {
        mutated: BTreeSet::new(),
        selftests: false,
        fsx: false,
        signer: false,
        installed: false,
    });
}

/// Builds all files that a lab boots from.
pub(crate) fn artifacts(args: &KernelArgs, accel: Accel, content: Content) -> Result<Artifacts> {
    // The two parts are independent, and some of their steps use only one processor.
    let (ground, ours) = thread::scope(|scope| {
        let ground = scope.spawn(|| Ground::lay(accel));
        let ours = Ours::build(args, content);
        let ground = ground.join().unwrap_or_else(|panic| resume_unwind(panic));
        (ground, ours)
    });
    let Ground { root, qemu } = ground?;
    let Ours {
        kernel,
        agent,
        mut files,
        systems,
    } = ours?;
    let base = base(&kernel, &root)?;
    let image = kernel.image()?;
    let dir = workspace::target().join("lab");
    fs::create_dir_all(&dir)?;
    let initrd = dir.join("initrd");
    initrd::write(&initrd, &agent, &boot_modules(&base)?)?;
    files.push((image.clone(), "boot/vmlinuz".to_owned()));
    files.push((initrd.clone(), "boot/initrd".to_owned()));
    let installed = systems.map(|systems| installed::place(&systems, &agent, &dir, &mut files));
    let installed = installed.transpose()?;
    let opt = progress::step("make the image with our files", || {
        make_opt(&kernel, &dir, &files)
    })?;
    Ok(Artifacts {
        qemu,
        release: kernel.release.name.clone(),
        kernel: image,
        pace: args.checks.pace(),
        more_memory_mib: args.checks.memory_mib(),
        kernel_args: args.checks.kernel_args(),
        initrd,
        root: base.join("root.erofs"),
        opt,
        debian,
        installed,
        prometheus: monitoring::prometheus,
        secure_boot,
    })
}

/// The files of machines that do not depend on this project.
struct Ground {
    root: PathBuf,
    qemu: Qemu,
}

impl Ground {
    fn lay(accel: Accel) -> Result<Self> {
        let root = root::run()?;
        let packaged = Qemu::in_root(&root);
        let qemu = match accel.resolve(&packaged) {
            Accel::Tcg => corrected(packaged),
            _ => packaged,
        };
        Ok(Self { root, qemu })
    }
}

/// The kernel, and files of this project.
struct Ours {
    kernel: Kernel,
    agent: PathBuf,
    /// Files and their paths in the image.
    files: Vec<(PathBuf, String)>,
    /// A host and a guest in which the packages are installed.
    systems: Option<[installed::System; 2]>,
}

impl Ours {
    fn build(args: &KernelArgs, content: Content) -> Result<Self> {
        let kernel = Kernel::prepare(args)?;
        let (mut files, tools) = match content {
            Content::All(_) => (
                all_in(&modules::build(&kernel)?, ddlab::MODULES)?,
                tools::ALL,
            ),
            Content::Agent => (Vec::new(), [tools::AGENT].as_slice()),
            Content::Bench => (Vec::new(), [tools::AGENT, tools::BENCH].as_slice()),
        };
        let mut systems = None;
        if let Content::All(extras) = content {
            for patches in &extras.mutated {
                let built = modules::build_mutated(&kernel, patches)?;
                files.extend(all_in(&built, &ddlab::mutated_modules(patches))?);
            }
            if extras.selftests {
                files.extend(selftests::programs(&kernel, ddlab::SELFTESTS)?);
            }
            if extras.fsx {
                files.push((tools::fsx()?, "bin/fsx".to_owned()));
            }
            if extras.signer {
                files.push((kernel.signer(), "bin/sign-file".to_owned()));
            }
            if extras.installed {
                systems = Some(installed::systems()?);
            }
        }
        let programs = tools::build(tools)?;
        let place = |tool| (programs.join(tool), format!("bin/{tool}"));
        files.extend(tools.iter().map(place));
        Ok(Self {
            kernel,
            agent: programs.join(tools::AGENT),
            files,
            systems,
        })
    }
}

/// Returns the emulator with corrections. Falls back to the packaged one if it cannot be built;
/// that one occasionally loses a machine.
fn corrected(packaged: Qemu) -> Qemu {
    match emulator::build() {
        Ok(program) => packaged.with_program(program),
        Err(error) => {
            eprintln!("note: the packaged emulator is used as it is: {error:#}");
            packaged
        }
    }
}

/// Returns the read-only root with the stock modules, and the boot modules beside it.
fn base(kernel: &Kernel, run_root: &Path) -> Result<PathBuf> {
    let name = &kernel.release.name;
    let root_name = run_root.file_name().unwrap_or_default().to_string_lossy();
    let key = cache::key(&[name, &root_name, &BOOT_MODULES.join(","), "1"]);
    cache::entry("image", &format!("{name}-{key}"), |dir| {
        progress::step("make the root image", || make_base(kernel, run_root, dir))
    })
}

fn make_base(kernel: &Kernel, run_root: &Path, dir: &Path) -> Result<()> {
    let name = &kernel.release.name;
    let staging = dir.join("staging");
    let log = workspace::target().join("log/root-image.log");
    // Hard links suffice, because no later step edits a file in place.
    let mut copy = std::process::Command::new("cp");
    copy.arg("-al").arg(run_root).arg(&staging);
    progress::quiet(&mut copy, &log)?;
    let superfluous = SUPERFLUOUS.join(" ");
    let prepare = format!(
        "rm -rf {superfluous}\n\
         mkdir -p usr/lib/modules opt/dd lower\n\
         cp -a /stock usr/lib/modules/{name}\n\
         depmod {name}\n",
    );
    let mut inside = Chroot::new(&staging)
        .bind(kernel.modules(), "/stock")
        .command("sh");
    progress::quiet(inside.args(["-euc", &prepare]), &log)?;
    fs::remove_dir(staging.join("stock"))?;
    let pack = format!(
        "cd /image\n\
         mkfs.erofs --quiet root.erofs staging\n\
         mkdir modules\n\
         modules=staging/usr/lib/modules/{name}\n\
         for module in {wanted}; do\n\
             modprobe -d staging -S {name} --show-depends $module\n\
         done | awk '$1 == \"insmod\" && !seen[$2]++ {{ print $2 }}' > list\n\
         number=100\n\
         while read -r file; do\n\
             xz -dc $file > modules/$number.ko\n\
             number=$((number + 1))\n\
         done < list\n\
         rm -rf staging\n",
        wanted = BOOT_MODULES.join(" "),
    );
    let mut outside = kernel.chroot().bind(dir, "/image").command("sh");
    progress::quiet(outside.args(["-euc", &pack]), &log)
}

/// The unit that starts the agent where PID 1 is systemd.
const AGENT_UNIT: &str = include_str!("../../tests/agent/ddagent.service");
/// In a complete Debian only the agent is enabled, because an emulated machine is slow. The first
/// boot does the same as any other.
const PREPARE_DEBIAN: &str = "
cd /
rm -rf etc/systemd/system/*.wants
mkdir -p etc/systemd/system/sysinit.target.wants etc/systemd/system.conf.d opt/dd
ln -s ../ddagent.service etc/systemd/system/sysinit.target.wants/
printf '[Manager]\nDefaultTimeoutStartSec=15min\nDefaultTimeoutStopSec=15min\n' \
    > etc/systemd/system.conf.d/slow.conf
echo 646f75626c656465636b657264656269 > etc/machine-id
";

/// Returns the image of a complete Debian, for tests that need one.
fn debian() -> Result<PathBuf> {
    let packages = root::DEBIAN.replace(' ', ",");
    let left_out = SUPERFLUOUS.join(",");
    let key = cache::key(&[&packages, &left_out, AGENT_UNIT, PREPARE_DEBIAN]);
    let entry = cache::entry("image", &format!("debian-{key}"), |dir| {
        progress::step("make the image of a whole Debian", || make_debian(dir))
    })?;
    Ok(entry.join("debian.erofs"))
}

fn make_debian(dir: &Path) -> Result<()> {
    let staging = dir.join("staging");
    fs::create_dir(&staging)?;
    root::debian(&staging)?;
    let log = workspace::target().join("log/debian-image.log");
    fs::write(
        staging.join("etc/systemd/system/ddagent.service"),
        AGENT_UNIT,
    )?;
    let superfluous = SUPERFLUOUS.join(" ");
    let prepare = format!("{PREPARE_DEBIAN}rm -rf {superfluous}");
    let mut inside = Chroot::new(&staging).command("sh");
    progress::quiet(inside.args(["-euc", &prepare]), &log)?;
    pack(&staging, dir)?;
    cache::remove(&staging)
}

/// Makes the image `debian.erofs` of a root directory, in the directory `dir`.
fn pack(root: &Path, dir: &Path) -> Result<()> {
    let log = workspace::target().join("log/debian-image.log");
    let mut outside = Chroot::new(root::build(Suite::TrixieBackports)?)
        .bind(dir, "/image")
        .bind(root, "/staging")
        .command("mkfs.erofs");
    outside.args(["--quiet", "/image/debian.erofs", "/staging"]);
    progress::quiet(&mut outside, &log)
}

/// Returns what a machine with Secure Boot starts from.
fn secure_boot() -> Result<SecureBoot> {
    let root = root::secure_boot()?;
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    let layer = cache::entry("image", &name, |dir| {
        progress::step("make the image with programs for Secure Boot", || {
            pack(&root, dir)
        })
    })?;
    Ok(SecureBoot {
        mtools: root::launcher(&root, "mtools")?,
        layer: layer.join("debian.erofs"),
        root,
    })
}

fn boot_modules(base: &Path) -> Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = fs::read_dir(base.join("modules"))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    found.sort();
    Ok(found)
}

/// Makes the image of the project's files, which is separate from the root because it is rebuilt
/// often. `files` are pairs of a file and its path in the image.
fn make_opt(kernel: &Kernel, dir: &Path, files: &[(PathBuf, String)]) -> Result<PathBuf> {
    let staging = tempfile::tempdir_in(dir)?;
    fs::create_dir(staging.path().join(ddlab::MODULES))?;
    for (from, to) in files {
        let to = staging.path().join(to);
        fs::create_dir_all(to.parent().unwrap_or(&to))?;
        fs::copy(from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    let out = dir.join("opt.erofs");
    let log = workspace::target().join("log/opt-image.log");
    let mut pack = Chroot::new(&kernel.build_root)
        .bind(dir, "/lab")
        .bind(staging.path(), "/staging")
        .command("mkfs.erofs");
    pack.args(["--quiet", "--all-root", "/lab/opt.erofs.new", "/staging"]);
    progress::quiet(&mut pack, &log)?;
    fs::rename(dir.join("opt.erofs.new"), &out)?;
    Ok(out)
}

/// Returns the files of `dir`, with their paths below `to`.
fn all_in(dir: &Path, to: &str) -> Result<Vec<(PathBuf, String)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        files.push((entry.path(), format!("{to}/{}", name.to_string_lossy())));
    }
    Ok(files)
}
