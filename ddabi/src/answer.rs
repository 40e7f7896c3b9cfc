// SPDX-License-Identifier: GPL-2.0-only

//! The answer page: an [`AnswerHeader`], the result of each run or one body, eviction notices.

use crate::{key::FileKey, request::MAX_RUNS, PAGE_SIZE};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First word of every answer page ("DDAN").
pub const ANSWER_MAGIC: u32 = u32::from_le_bytes(*b"DDAN");

/// Flag of an answer to Flush whose work exceeded the bound of a call. The result of each range is 1
/// if it is done. The guest may send the other ranges again unchanged, and the host continues where
/// it ended; or it may drop them.
pub const UNFINISHED: u32 = 1;

/// Start of every answer.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct AnswerHeader {
    /// [`ANSWER_MAGIC`].
    pub magic: u32,
    /// [`crate::ABI_VERSION`] of the host.
    pub version: u16,
    /// Number of eviction notices that follow at [`EVICTIONS`].
    pub evictions: u16,
    /// Evicted pages whose notices were lost since the last answer. The guest's map has as many bits
    /// whose pages the host does not have any more.
    pub evictions_lost: u32,
    /// [`UNFINISHED`] in answers to Flush. All other bits are zero and reserved.
    pub flags: u32,
    /// Sequence number of the request.
    pub sequence: u64,
    /// In answers to Put and Get, the state of one of the request's pools. Successive answers report
    /// different pools, so that the guest learns about all of them.
    pub pressure: PoolPressure,
    /// In answers to Get with the result [`READING`], the number by which the guest asks for these
    /// runs again; otherwise zero.
    pub ticket: u64,
    /// Microseconds after which the runs with the result [`READING`] will probably have been read.
    pub wait_us: u32,
    /// Zero and reserved.
    pub reserved: [u32; 3],
}

/// Result of a run of a Get with [`crate::request::MAY_DEFER`]: the host reads its pages from an SSD,
/// and still has them. The guest sends a Get for the run again, with the ticket of the answer, after
/// [`AnswerHeader::wait_us`]. If it does not within a second, the host forgets what it has read.
pub const READING: u8 = 2;

/// Feature of a session: Get may be deferred, see [`READING`].
pub const DEFER: u64 = 1;

/// State of a pool, by which the guest decides which pages it puts.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct PoolPressure {
    /// Pages that the pool may hold now.
    pub capacity: u64,
    /// The pool.
    pub pool: u32,
    /// 1 if the state is valid. Otherwise all fields are zero.
    pub known: u8,
    /// 1 if a put would evict pages of the pool.
    pub full: u8,
    /// The class from which pages would be evicted, below [`crate::request::CLASSES`].
    pub floor: u8,
    /// Zero.
    pub reserved: u8,
}

/// Offset of the results in the answer page, or of the body. There is one byte for each run or
/// range: 1 if it was stored, hit or flushed, [`READING`], and 0 otherwise.
pub const RESULTS: usize = size_of::<AnswerHeader>();

/// Offset of the eviction notices in answers to Put, Get, Flush and Ping.
pub const EVICTIONS: usize = 192;

/// The most eviction notices in one answer.
pub const MAX_EVICTIONS: usize = (PAGE_SIZE - EVICTIONS) / size_of::<Eviction>();

/// Consecutive pages of a file that the host evicted. The guest clears their bits, which saves calls
/// but is not needed for correctness.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Eviction {
    /// The file.
    pub file: FileKey,
    /// Index of the first page.
    pub index: u64,
    /// Number of pages.
    pub pages: u32,
    /// Zero.
    pub reserved: u32,
}

/// Body of the answer to Hello.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct HelloAnswer {
    /// Identifies this registration in all later requests. Random and never zero.
    pub session: u64,
    /// Features that both sides support: [`DEFER`]. All other bits are zero and reserved.
    pub features: u64,
    /// Number of the VM, as `ddctl` shows it on the host.
    pub vm: u32,
    /// The most pools that the VM may have, including the default pool.
    pub max_pools: u32,
}

/// Body of the answer to PoolCreate.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct PoolAnswer {
    /// The new pool.
    pub pool: u32,
    /// Zero.
    pub reserved: u32,
}

const _: () = assert!(size_of::<AnswerHeader>() == 64);
const _: () = assert!(size_of::<PoolPressure>() == 16);
const _: () = assert!(size_of::<Eviction>() == 32);
const _: () = assert!(RESULTS + MAX_RUNS <= EVICTIONS);
const _: () = assert!(MAX_EVICTIONS == 122);
const _: () = assert!(RESULTS + size_of::<crate::pool::PoolStats>() <= PAGE_SIZE);
