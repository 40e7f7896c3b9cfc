// SPDX-License-Identifier: GPL-2.0

//! The answer page: an [`AnswerHeader`], the result of each run or one body, eviction notices.

use crate::{key::FileKey, request::MAX_RUNS, PAGE_SIZE};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First word of every answer page ("DDAN").
pub const ANSWER_MAGIC: u32 = u32::from_le_bytes(*b"DDAN");

/// A call does a bounded amount of work. If a flush has more to do than that, this flag says so, and
/// the result of each range is 1 if it is done. A guest asks for the others again, as they were: the
/// host goes on where it ended. It may forget them instead.
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
    /// Eviction notices lost since the last answer: the guest's map has as many idle bits.
    pub evictions_lost: u32,
    /// In answers to Flush [`UNFINISHED`], if the call ended before all was done. All other bits are
    /// zero; later features.
    pub flags: u32,
    /// Sequence of the request this answers.
    pub sequence: u64,
    /// In answers to Put and Get: how one of the request's pools stands. Which one changes from
    /// request to request, so that the guest hears of all its pools.
    pub pressure: PoolPressure,
    /// Zero; later features.
    pub reserved: [u64; 3],
}

/// What the host says about a pool, for the guest to decide what is worth a put.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct PoolPressure {
    /// Pages the pool may hold now.
    pub capacity: u64,
    /// The pool.
    pub pool: u32,
    /// 1 if this says anything; everything is zero otherwise.
    pub known: u8,
    /// 1 if a put would evict pages.
    pub full: u8,
    /// The class that would give, below [`crate::request::CLASSES`].
    pub floor: u8,
    /// Zero.
    pub reserved: u8,
}

/// Offset of the results, one byte a run or range: 1 stored, hit or flushed, 0 not; or of the one
/// body.
pub const RESULTS: usize = size_of::<AnswerHeader>();

/// Offset of the eviction notices in answers to Put, Get, Flush and Ping.
pub const EVICTIONS: usize = 192;

/// Most eviction notices in one answer.
pub const MAX_EVICTIONS: usize = (PAGE_SIZE - EVICTIONS) / size_of::<Eviction>();

/// Consecutive pages of a file that the host evicted on its own. A hint: the guest clears bits.
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
    /// Random, never zero; names this registration in every later request.
    pub session: u64,
    /// Features both sides have. None are defined yet.
    pub features: u64,
    /// The VM's number at the host, as `ddctl` shows it there.
    pub vm: u32,
    /// Most pools the VM may have, the default pool included.
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
