// SPDX-License-Identifier: GPL-2.0-only

//! Which kernel is meant.

use clap::ValueEnum;

/// Where kernels come from.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Suite {
    /// Debian 13 with its backports
    #[default]
    TrixieBackports,
    /// Debian unstable
    Sid,
    /// What comes after it: Debian unstable with kernels of experimental
    Experimental,
}

impl Suite {
    /// The distribution whose compilers build for it.
    pub(crate) fn base(self) -> &'static str {
        match self {
            Self::TrixieBackports => "trixie",
            Self::Sid | Self::Experimental => "sid",
        }
    }

    /// What its build root is called.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::TrixieBackports | Self::Sid => self.base(),
            Self::Experimental => "experimental",
        }
    }

    /// The sources of its roots.
    pub(crate) fn sources(self, mirror: &str) -> String {
        let suites: &[&str] = match self {
            Self::TrixieBackports => &["trixie", "trixie-updates", "trixie-backports"],
            Self::Sid => &["sid"],
            Self::Experimental => &["sid", "experimental"],
        };
        suites
            .iter()
            .map(|suite| format!("deb {mirror} {suite} main\n"))
            .collect()
    }
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
    /// Its name in releases and packages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::CloudAmd64 => "cloud-amd64",
            Self::RtAmd64 => "rt-amd64",
        }
    }
}

/// What a kernel checks of itself while it runs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Checks {
    /// What Debian's own does
    #[default]
    Stock,
    /// Memory, leaks, locks, contexts, lists, RCU; built from Debian's source
    Debug,
    /// Data races; built from Debian's source
    Csan,
}

impl Checks {
    /// How much slower than with Debian's kernel machines are (see `Artifacts::pace`).
    pub(crate) fn pace(self) -> u32 {
        match self {
            Self::Stock => 1,
            Self::Debug | Self::Csan => 4,
        }
    }

    /// How much more memory than with Debian's kernel machines need, in MiB.
    pub(crate) fn memory_mib(self) -> u64 {
        match self {
            Self::Stock => 0,
            Self::Debug | Self::Csan => 256,
        }
    }

    /// What such a kernel is told on its command line.
    pub(crate) fn kernel_args(self) -> &'static str {
        match self {
            // An interrupt while it learns what its first processor can finds five levels of
            // page tables switched off: KASAN takes all memory for wild, and is silent from then on.
            Self::Debug => "no5lvl",
            Self::Stock | Self::Csan => "",
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
    /// Which of its builds: the stock one, or one with checks, which takes half an hour, once
    #[arg(long = "kernel", value_enum, default_value_t)]
    pub(crate) checks: Checks,
}
