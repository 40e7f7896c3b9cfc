// SPDX-License-Identifier: GPL-2.0-only

//! The answer page: an [`AnswerHeader`], the results of the runs or one body, and eviction notices.

use crate::{key::FileKey, request::MAX_RUNS, PAGE_SIZE};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First word of every answer page ("DDAN").
pub const ANSWER_MAGIC: u32 = u32::from_le_bytes(*b"DDAN");

/// Flag of the answer to a Flush or a Migrate that needs more work than one call may do. The guest
/// may repeat the request, and the host then continues where it stopped; the guest need not repeat
/// it. The result of a range of a Flush is 1 if all its pages were flushed; only the remaining
/// ranges are repeated, unchanged.
pub const UNFINISHED: u32 = 1;

/// Flag of the answer to a Put or a Get: the SSD tier has pages of the VM, and keeps those that it
/// returns if the guest allows it ([`crate::request::MAY_RETAIN`]).
pub const RETAINS: u32 = 2;

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
    /// Number of evicted pages whose notices were lost since the last answer. The guest's map has
    /// up to this number of bits set for pages that the host no longer has.
    pub evictions_lost: u32,
    /// [`UNFINISHED`] in answers to Flush and Migrate, [`RETAINS`] in answers to Put and Get. All
    /// other bits are zero and reserved.
    pub flags: u32,
    /// Sequence number of the request.
    pub sequence: u64,
    /// In answers to Put and Get, the state of one of the request's pools. Successive answers
    /// report different pools, so that the guest learns about all of them.
    pub pressure: PoolPressure,
    /// In answers to Get with a result [`READING`], the ticket with which the guest requests these
    /// runs again; otherwise zero.
    pub ticket: u64,
    /// Microseconds after which the runs with the result [`READING`] will probably have been read.
    pub wait_us: u32,
    /// Zero and reserved.
    pub reserved: [u32; 3],
}

/// Result of a run of a Get with [`crate::request::MAY_DEFER`]: the host has begun to read the
/// pages of the run from an SSD. After [`AnswerHeader::wait_us`] the guest sends a Get for the run
/// again, with the ticket of this answer. If it does not do so within a second, the host discards
/// the data that it has read, but keeps the pages.
pub const READING: u8 = 2;

/// Result of a run of a Get with [`crate::request::MAY_RETAIN`]: the run was returned, and the SSD
/// tier still has all its pages. As long as their content does not change in the guest, they can
/// leave its page cache without a Put. The guest's map has to mark them as present.
pub const RETAINED: u8 = 3;

/// Feature of a session: a Get may be deferred, see [`READING`].
pub const DEFER: u64 = 1;

/// Feature of a session: the SSD tier may keep pages that it returns, see [`RETAINED`].
pub const RETAIN: u64 = 2;

/// State of a pool, from which the guest decides which pages to put.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct PoolPressure {
    /// Number of pages that the pool may hold at present.
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

/// Offset of the results, or of the body, in the answer page. Each run or range has a result of one
/// byte: 1 if it was stored, hit or flushed, [`READING`] if it is being read, [`RETAINED`] if it
/// was hit and kept, and 0 otherwise.
pub const RESULTS: usize = size_of::<AnswerHeader>();

/// Offset of the eviction notices in answers to Put, Get, Flush and Ping.
pub const EVICTIONS: usize = 192;

/// Maximum number of eviction notices in one answer.
pub const MAX_EVICTIONS: usize = (PAGE_SIZE - EVICTIONS) / size_of::<Eviction>();

/// Consecutive pages of a file that the host evicted. The guest clears their bits, which saves
/// calls but is not required for correctness.
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
    /// Features that both sides support: [`DEFER`] and [`RETAIN`]. All other bits are zero and
    /// reserved.
    pub features: u64,
    /// Number of the VM, as `ddctl` shows it on the host.
    pub vm: u32,
    /// Maximum number of pools of the VM, including the default pool.
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
