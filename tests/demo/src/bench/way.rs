// SPDX-License-Identifier: GPL-2.0-only

//! Uses of the same memory of a host for its guests' files.

use ddlab::HostCache;
use serde::Serialize;

use crate::site;

/// A use of the memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Way {
    /// The memory of the guests and their containers.
    Guests,
    /// The host's page cache: QEMU's `cache=writeback`.
    PageCache,
    /// One FIFO for all.
    Fifo,
    /// Weights, and the default policy.
    DoubleDecker,
}

impl Way {
    pub(crate) const ALL: [Self; 4] = [
        Self::Guests,
        Self::PageCache,
        Self::Fifo,
        Self::DoubleDecker,
    ];
    /// Groups of uses that can be measured one after the other on the same VMs. If the expected
    /// difference of two is small, one of them is measured before and after the other, because the
    /// speed of machines varies.
    pub(crate) const BY_BOOT: [&[Self]; 3] = [
        &[Self::Guests],
        &[Self::PageCache],
        &[Self::Fifo, Self::DoubleDecker, Self::Fifo],
    ];

    /// Returns its name for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Guests => "memory of guests",
            Self::PageCache => "host's page cache",
            Self::Fifo => "one FIFO",
            Self::DoubleDecker => "DoubleDecker",
        }
    }

    /// Returns the mode of the host module and the policy of all containers, or `None` without the
    /// modules.
    pub(crate) fn cache(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Guests | Self::PageCache => None,
            Self::Fifo => Some(("fifo", site::PAPER)),
            Self::DoubleDecker => Some(("weighted", site::DEFAULT)),
        }
    }

    /// Returns the use of the host's page cache.
    pub(crate) fn host_cache(self) -> HostCache {
        match self {
            Self::PageCache => HostCache::Writeback,
            Self::Guests | Self::Fifo | Self::DoubleDecker => HostCache::None,
        }
    }
}
