// SPDX-License-Identifier: GPL-2.0-only

//! Ways to spend the same memory of a host on its guests' files.

use ddlab::HostCache;
use serde::Serialize;

use crate::site;

/// A way.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Way {
    /// The guests get it, and their containers.
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
    /// Those that can follow each other on the same VMs. What differs by little is measured
    /// before and after the other, for machines get faster and slower by themselves.
    pub(crate) const BY_BOOT: [&[Self]; 3] = [
        &[Self::Guests],
        &[Self::PageCache],
        &[Self::Fifo, Self::DoubleDecker, Self::Fifo],
    ];

    /// Its name for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Guests => "memory of guests",
            Self::PageCache => "host's page cache",
            Self::Fifo => "one FIFO",
            Self::DoubleDecker => "DoubleDecker",
        }
    }

    /// Mode of the host module and policy of all containers; none without it.
    pub(crate) fn cache(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Guests | Self::PageCache => None,
            Self::Fifo => Some(("fifo", site::PAPER)),
            Self::DoubleDecker => Some(("weighted", site::DEFAULT)),
        }
    }

    /// What the host's page cache does.
    pub(crate) fn host_cache(self) -> HostCache {
        match self {
            Self::PageCache => HostCache::Writeback,
            Self::Guests | Self::Fifo | Self::DoubleDecker => HostCache::None,
        }
    }
}
