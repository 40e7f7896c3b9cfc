// SPDX-License-Identifier: GPL-2.0-only

//! Policies of containers.

/// Policy of a container, which decides which of its pages are cached. `ddcore::policy` implements
/// the policies. Hypercalls and netlink use these numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum Policy {
    /// Pages are admitted as by the policy that has the most hits in a miniature simulation.
    Adaptive = 0,
    /// Each page is admitted, and the oldest page is evicted: the paper's policy (section 4.2).
    Fifo = 1,
    /// A page is admitted if the guest's kernel counts it as part of a working set.
    Workingset = 2,
    /// A page is admitted if it is read more often than the page that would be evicted.
    Tinylfu = 3,
    /// New pages share a small queue, and pages that are put again a main queue (S3-FIFO, SOSP
    /// '23).
    S3 = 4,
    /// Pages in the cache are kept and new ones refused, which suits loops larger than the cache.
    Mru = 5,
}

impl Policy {
    /// The policy of a container for which none was chosen.
    pub const DEFAULT: Self = Self::Adaptive;

    /// All policies.
    pub const ALL: [Self; 6] = [
        Self::Adaptive,
        Self::Fifo,
        Self::Workingset,
        Self::Tinylfu,
        Self::S3,
        Self::Mru,
    ];

    /// Returns the policy with this number, if there is one.
    pub fn from_raw(raw: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| *policy as u32 == raw)
    }

    /// Returns the policy with this name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Returns the name of the policy, as used by tools and configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::Fifo => "fifo",
            Self::Workingset => "workingset",
            Self::Tinylfu => "tinylfu",
            Self::S3 => "s3",
            Self::Mru => "mru",
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::DEFAULT
    }
}
