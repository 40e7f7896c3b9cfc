// SPDX-License-Identifier: GPL-2.0-only

//! Devices of the host's SSD tier.

use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Minimum of a limit of the index in pages. An index of a few pages would be evicted all the time.
pub const MIN_INDEX_LIMIT: u64 = 16;

/// State of a device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum DeviceState {
    /// The device is in use.
    Active = 0,
    /// Reads of the device took too long. Gets do not wait for it until it has recovered.
    Suspect = 1,
    /// The device is gone, or several writes to it failed. Its pages are lost.
    Failed = 2,
    /// The device is being removed.
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
    /// The reader sleeps in the guest while its pages are read, if the devices are slow enough to
    /// make this worth another call. Otherwise its vCPU waits in the host.
    #[default]
    Automatic = 0,
    /// The vCPU of the reader waits in the host.
    Host = 1,
    /// The reader sleeps in the guest, if it can.
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
    /// Number of places in a segment.
    pub segment_places: u64,
    /// Segments.
    pub segments: u64,
    /// Segments that belong to no pool.
    pub free_segments: u64,
    /// Pages held now.
    pub used: u64,
    /// Read requests.
    pub reads: u64,
    /// Pages that were read and whose checksums were correct.
    pub read_pages: u64,
    /// Pages that were served from memory, because they were requested before they were written.
    pub memory_pages: u64,
    /// Read requests that failed.
    pub read_errors: u64,
    /// Read requests that took too long.
    pub timeouts: u64,
    /// Pages that were not read, because the device was suspect or the host could not allocate
    /// memory.
    pub refused_reads: u64,
    /// Pages whose content differs from what was written.
    pub bad_checksums: u64,
    /// Pages that were written.
    pub written_pages: u64,
    /// Write requests that failed.
    pub write_errors: u64,
    /// Segments that were evicted to make room for other pages.
    pub evicted_segments: u64,
    /// Pages that may be written per second; 0 means no limit.
    pub write_budget: u64,
    /// Pages that were not put because the write budget was exhausted.
    pub over_budget: u64,
    /// Pages of free segments that were discarded on the device.
    pub discarded_pages: u64,
}
