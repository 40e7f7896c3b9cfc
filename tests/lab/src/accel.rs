// SPDX-License-Identifier: GPL-2.0-only

//! Finds out whether this machine's KVM can run L1.

use std::{fmt, fs, io::Write as _, process::Stdio, str::FromStr};

use crate::artifacts::Qemu;

/// The accelerator of L1. L2 always runs on L1's KVM.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Accel {
    /// KVM if it is usable, and emulation otherwise.
    #[default]
    Auto,
    /// This machine's KVM.
    Kvm,
    /// Emulation.
    Tcg,
}

impl Accel {
    /// Returns the accelerator that [`Accel::Auto`] stands for.
    #[must_use]
    pub fn resolve(self, qemu: &Qemu) -> Self {
        match self {
            Self::Auto if nests() && creates_vm(qemu) => Self::Kvm,
            Self::Auto => Self::Tcg,
            decided => decided,
        }
    }
}

/// Returns whether this machine's KVM offers virtualisation to its guests.
fn nests() -> bool {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let able = cpu
        .lines()
        .filter(|line| line.starts_with("flags"))
        .any(|line| {
            line.split_whitespace()
                .any(|flag| matches!(flag, "vmx" | "svm"))
        });
    let allowed = ["kvm_intel", "kvm_amd"].iter().any(|module| {
        fs::read_to_string(format!("/sys/module/{module}/parameters/nested"))
            .is_ok_and(|text| matches!(text.trim(), "Y" | "1"))
    });
    able && allowed
}

/// Returns whether a VM can be created. `/dev/kvm` may exist and still refuse, so that this has to
/// be tried.
fn creates_vm(qemu: &Qemu) -> bool {
    let child = qemu
        .command()
        .args([
            "-machine",
            "none,accel=kvm",
            "-nodefaults",
            "-display",
            "none",
            "-monitor",
            "stdio",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else {
        return false;
    };
    if let Some(mut monitor) = child.stdin.take() {
        let _ = monitor.write_all(b"quit\n");
    }
    child.wait().is_ok_and(|status| status.success())
}

impl FromStr for Accel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "kvm" => Ok(Self::Kvm),
            "tcg" => Ok(Self::Tcg),
            _ => Err("expected kvm, tcg or auto".to_owned()),
        }
    }
}

impl fmt::Display for Accel {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Auto => "auto",
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        })
    }
}
