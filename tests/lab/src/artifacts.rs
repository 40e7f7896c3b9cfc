// SPDX-License-Identifier: GPL-2.0-only

//! What a lab boots: made by `cargo xtask`, only named here.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

/// Everything a lab needs from the build.
#[derive(Clone, Debug)]
pub struct Artifacts {
    /// The emulator for L1.
    pub qemu: Qemu,
    /// Kernel release, `uname -r`.
    pub release: String,
    /// The kernel: Debian's, or one that checks itself.
    pub kernel: PathBuf,
    /// How much slower than with Debian's kernel machines are: everything may take as much
    /// longer, and an emulated machine's clock runs as much slower, for otherwise it would do
    /// little but answer its timers.
    pub pace: u32,
    /// How much more memory than with Debian's kernel machines need, in MiB.
    pub more_memory_mib: u64,
    /// What every machine's kernel is told.
    pub kernel_args: &'static str,
    /// Initial filesystem with the agent as `/init`.
    pub initrd: PathBuf,
    /// Read-only root image of all machines.
    pub root: PathBuf,
    /// Read-only image with our own files, mounted at `/opt/dd`:
    /// `bin/` (on the path), `modules/*.ko`, `boot/{vmlinuz,initrd}`, and what few scenarios want
    /// (see [`crate::mutated_modules`], [`crate::SELFTESTS`]).
    pub opt: PathBuf,
    /// Makes, if it is not there yet, the read-only image of a whole Debian
    /// with systemd and servers, a layer over `root` (see
    /// [`crate::GuestConfig::debian`]).
    pub debian: fn() -> Result<PathBuf>,
}

/// An emulator inside a root directory, run without entering that root: by the
/// root's own dynamic loader, so that neither mounts nor its distribution's
/// libraries are needed on this machine.
#[derive(Clone, Debug)]
pub struct Qemu {
    root: PathBuf,
    program: PathBuf,
}

impl Qemu {
    /// The emulator in `root`.
    pub fn in_root(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self {
            program: root.join("usr/bin/qemu-system-x86_64"),
            root,
        }
    }

    /// Another build of it, with the same root's libraries and data.
    #[must_use]
    pub fn with_program(self, program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            ..self
        }
    }

    /// Program and leading arguments which start the emulator.
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

    /// Variables it needs.
    pub(crate) fn env(&self) -> Vec<(String, String)> {
        let modules = self.root.join("usr/lib/x86_64-linux-gnu/qemu");
        vec![("QEMU_MODULE_DIR".to_owned(), modules.display().to_string())]
    }

    /// The emulator as a command.
    #[must_use]
    pub fn command(&self) -> Command {
        let argv = self.argv();
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).envs(self.env());
        command
    }

    /// The root directory it lives in.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }
}
