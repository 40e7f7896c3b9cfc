// SPDX-License-Identifier: GPL-2.0-only

//! Devices of the host's SSD tier.

use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// State of a device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum DeviceState {
    /// It is in use.
    Active = 0,
    /// Its reads took too long. Gets do not wait for it until it has recovered.
    Suspect = 1,
    /// It is gone, or could not be written several times. Its pages are lost.
    Failed = 2,
    /// It is being removed.
    Leaving = 3,
}

impl DeviceState {
    /// Returns the state with this number, if there is one.
    pub const fn from_raw(raw: u32) -> Option<Self> {
        match raw {
            0 => Some(Self::Active),
            1 => Some(Self::Suspect),
            2 => Some(Self::Failed),
            3 => Some(Self::Leaving),
            _ => None,
        }
    }
}

/// How gets wait for reads of the SSD tier.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(u32)]
pub enum Waiting {
    /// A reader of a guest sleeps in the guest while its pages are read, if devices are so slow that this
    /// is worth another call.
    #[default]
    Automatic = 0,
    /// Its vCPU waits in the host.
    Host = 1,
    /// It sleeps in the guest, if it can.
    Guest = 2,
}

impl Waiting {
    /// Returns the way with this number, if there is one.
    pub const fn from_raw(raw: u32) -> Option<Self> {
        match raw {
            0 => Some(Self::Automatic),
            1 => Some(Self::Host),
            2 => Some(Self::Guest),
            _ => None,
        }
    }
}

/// Size and counters of a device, in pages unless a field says otherwise.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct SsdStats {
    /// Places for pages.
    pub places: u64,
    /// Places of a segment.
    pub segment_places: u64,
    /// Segments.
    pub segments: u64,
    /// Segments that no pool has.
    pub free_segments: u64,
    /// Pages held now.
    pub used: u64,
    /// Read requests.
    pub reads: u64,
    /// Pages that were read and are right.
    pub read_pages: u64,
    /// Pages that were requested before they were written.
    pub memory_pages: u64,
    /// Read requests that failed.
    pub read_errors: u64,
    /// Read requests that took too long.
    pub timeouts: u64,
    /// Pages that were not read, because the device is suspected or the host had no memory.
    pub refused_reads: u64,
    /// Pages whose content differs from the one that was written.
    pub bad_checksums: u64,
    /// Pages that were written.
    pub written_pages: u64,
    /// Write requests that failed.
    pub write_errors: u64,
    /// Segments that were evicted to make room.
    pub evicted_segments: u64,
    /// Pages that may be written in a second; 0 means no limit.
    pub write_budget: u64,
    /// Pages that were not put because of the budget.
    pub over_budget: u64,
    /// Pages of free segments that the device was told not to keep.
    pub discarded_pages: u64,
}
