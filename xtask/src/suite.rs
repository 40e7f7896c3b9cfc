// SPDX-License-Identifier: GPL-2.0-only

//! Selection of a kernel.

use clap::ValueEnum;

/// Source of kernels.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Suite {
    /// Debian 13 with its backports
    #[default]
    TrixieBackports,
    /// Debian unstable
    Sid,
    /// Debian unstable with the kernels of experimental
    Experimental,
}

impl Suite {
    /// Returns the distribution whose compilers build for it.
    pub(crate) fn base(self) -> &'static str {
        match self {
            Self::TrixieBackports => "trixie",
            Self::Sid | Self::Experimental => "sid",
        }
    }

    /// Returns the label of its build root.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::TrixieBackports | Self::Sid => self.base(),
            Self::Experimental => "experimental",
        }
    }

    /// Returns the sources of its roots.
    pub(crate) fn sources(self, mirror: &str) -> String {
        let suites: &[&str] = match self {
            Self::TrixieBackports => &["trixie", "trixie-updates", "trixie-backports"],
            Self::Sid => &["sid"],
            Self::Experimental => &["sid", "experimental"],
        };
        sources(mirror, suites)
    }

    /// Returns the sources without backports and experimental.
    pub(crate) fn stable_sources(self, mirror: &str) -> String {
        match self {
            Self::TrixieBackports => sources(mirror, &["trixie", "trixie-updates"]),
            Self::Sid | Self::Experimental => sources(mirror, &["sid"]),
        }
    }
}

fn sources(mirror: &str, suites: &[&str]) -> String {
    let lines = suites.iter();
    lines
        .map(|suite| format!("deb {mirror} {suite} main\n"))
        .collect()
}

/// Debian's kernel flavours.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Flavour {
    /// For every machine
    Amd64,
    /// For virtual machines
    #[default]
    CloudAmd64,
    /// With PREEMPT_RT: not supported, for the scenario that shows it
    RtAmd64,
}

impl Flavour {
    /// Returns its name in releases and packages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::CloudAmd64 => "cloud-amd64",
            Self::RtAmd64 => "rt-amd64",
        }
    }
}

/// Checks that a kernel makes of itself at run time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Checks {
    /// The checks that Debian's kernel has enabled
    #[default]
    Stock,
    /// Memory, leaks, locks, contexts, lists, RCU; built from Debian's source
    Debug,
    /// Data races; built from Debian's source
    Csan,
    /// Control flow (kCFI), sections with interrupts off; built from Debian's source
    Hardened,
}

impl Checks {
    /// Returns how many times slower machines are than with Debian's kernel (see
    /// `Artifacts::pace`).
    pub(crate) fn pace(self) -> u32 {
        match self {
            Self::Stock | Self::Hardened => 1,
            Self::Debug | Self::Csan => 4,
        }
    }

    /// Returns how much more memory machines need than with Debian's kernel, in MiB.
    pub(crate) fn memory_mib(self) -> u64 {
        match self {
            Self::Stock | Self::Hardened => 0,
            Self::Debug | Self::Csan => 256,
        }
    }

    /// Returns the arguments for the kernel's command line.
    pub(crate) fn kernel_args(self) -> &'static str {
        match self {
            // An interrupt while the kernel detects the features of its first processor finds
            // five-level page tables disabled. KASAN then takes all memory for invalid, and reports
            // nothing from then on.
            Self::Debug => "no5lvl",
            Self::Stock | Self::Csan | Self::Hardened => "",
        }
    }
}

/// Options of every verb that needs a kernel.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct KernelArgs {
    /// Suite the kernel is taken from
    #[arg(long, value_enum, default_value_t)]
    pub(crate) suite: Suite,
    /// Flavour of the kernel
    #[arg(long, value_enum, default_value_t)]
    pub(crate) flavour: Flavour,
    /// Build of the kernel: the stock one, or one with checks, which takes half an hour, once
    #[arg(long = "kernel", value_enum, default_value_t)]
    pub(crate) checks: Checks,
}
