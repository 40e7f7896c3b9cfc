// SPDX-License-Identifier: GPL-2.0-only

//! The reason for which pages are evicted. It is only reported by the tracepoints of the owner and
//! has no other effect.

/// The reason for an eviction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cause {
    /// A put found no room, or no memory.
    Put,
    /// The background evictor keeps room for the next puts.
    Reserve,
    /// The host is short of memory.
    Shortage,
    /// The VM or the pool may no longer keep pages in the tier.
    Weight,
    /// An administrator has requested the eviction.
    Command,
    /// The SSD tier needs a free segment.
    Segment,
    /// The device of the SSD tier has failed, or is being removed.
    Device,
    /// The data on the device is lost or damaged.
    Damage,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 8] = [
        Self::Put,
        Self::Reserve,
        Self::Shortage,
        Self::Weight,
        Self::Command,
        Self::Segment,
        Self::Device,
        Self::Damage,
    ];
}
