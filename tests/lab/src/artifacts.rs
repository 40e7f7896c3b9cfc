// SPDX-License-Identifier: GPL-2.0-only

//! The files that a lab boots from. `cargo xtask` makes them.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

/// All files that a lab needs from the build.
#[derive(Clone, Debug)]
pub struct Artifacts {
    /// The emulator for L1.
    pub qemu: Qemu,
    /// Kernel release, `uname -r`.
    pub release: String,
    /// The kernel: Debian's, or one with checks.
    pub kernel: PathBuf,
    /// The factor by which machines are slower than with Debian's kernel. Time limits are longer by
    /// it, and an emulated machine's clock is slower by it, because it would otherwise spend its
    /// time on timer interrupts.
    pub pace: u32,
    /// Memory that machines need in addition to that with Debian's kernel, in MiB.
    pub more_memory_mib: u64,
    /// Arguments of every machine's kernel.
    pub kernel_args: &'static str,
    /// Initial filesystem with the agent as `/init`.
    pub initrd: PathBuf,
    /// Read-only root image of all machines.
    pub root: PathBuf,
    /// Read-only image with the project's files, mounted at `/opt/dd`: `bin/` (on the path),
    /// `modules/*.ko`, `boot/{vmlinuz,initrd}`, and files for a few scenarios (see
    /// [`crate::mutated_modules`], [`crate::SELFTESTS`], [`crate::INSTALLED`]).
    pub opt: PathBuf,
    /// Makes the read-only image of a complete Debian with systemd and servers, a layer over
    /// `root`, if it does not exist yet (see [`crate::GuestConfig::debian`]).
    pub debian: fn() -> Result<PathBuf>,
    /// Systems in which the project's packages are installed, for scenarios that need them.
    pub installed: Option<Installed>,
    /// Makes a program that runs Debian's Prometheus on this machine, if it does not exist yet.
    pub prometheus: fn() -> Result<PathBuf>,
    /// Makes what a machine with Secure Boot starts from, if it does not exist yet.
    pub secure_boot: fn() -> Result<SecureBoot>,
}

/// What a machine with Secure Boot starts from.
#[derive(Clone, Debug)]
pub struct SecureBoot {
    /// Root directory with the firmware, and with the boot loaders as Debian signs them.
    pub root: PathBuf,
    /// Read-only image of this directory, a layer over [`Artifacts::root`]: it has the programs
    /// `mokutil` and `openssl`.
    pub layer: PathBuf,
    /// Its program `mtools`, which runs on this machine.
    pub mtools: PathBuf,
}

/// A host and a guest in which the project's packages are installed.
#[derive(Clone, Debug)]
pub struct Installed {
    /// L1.
    pub host: Installation,
    /// The guest's disk. Its kernel and initial filesystem are at [`crate::INSTALLED`] below
    /// `/opt/dd`.
    pub guest: PathBuf,
}

/// A Debian on a disk, with the kernel that was installed in it.
#[derive(Clone, Debug)]
pub struct Installation {
    /// Image of an ext4 filesystem. A lab does not change it.
    pub disk: PathBuf,
    /// Its kernel.
    pub kernel: PathBuf,
    /// Initial filesystem for this kernel, with the agent as `/init`.
    pub initrd: PathBuf,
}

/// An emulator inside a root directory. It is started by the dynamic loader of that root without
/// entering the root, so that neither mounts nor the libraries of its distribution are needed on
/// this machine.
#[derive(Clone, Debug)]
pub struct Qemu {
    root: PathBuf,
    program: PathBuf,
}

impl Qemu {
    /// Returns the emulator in `root`.
    pub fn in_root(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self {
            program: root.join("usr/bin/qemu-system-x86_64"),
            root,
        }
    }

    /// Returns another build of it, with the same root's libraries and data.
    #[must_use]
    pub fn with_program(self, program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            ..self
        }
    }

    /// Returns the program and its leading arguments.
    pub(crate) fn argv(&self) -> Vec<String> {
        let inside = |path: &str| self.root.join(path).display().to_string();
        let libraries = ["usr/lib/x86_64-linux-gnu", "usr/lib"]
            .map(inside)
            .join(":");
        let mut argv = vec![
            inside("usr/lib64/ld-linux-x86-64.so.2"),
            "--library-path".to_owned(),
            libraries,
            self.program.display().to_string(),
        ];
        for data in ["usr/share/qemu", "usr/share/seabios"] {
            argv.extend(["-L".to_owned(), inside(data)]);
        }
        argv
    }

    /// Returns its environment variables.
    pub(crate) fn env(&self) -> Vec<(String, String)> {
        let modules = self.root.join("usr/lib/x86_64-linux-gnu/qemu");
        vec![("QEMU_MODULE_DIR".to_owned(), modules.display().to_string())]
    }

    /// Returns the emulator as a command.
    #[must_use]
    pub fn command(&self) -> Command {
        let argv = self.argv();
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).envs(self.env());
        command
    }

    /// Returns its root directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }
}
