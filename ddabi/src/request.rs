// SPDX-License-Identifier: GPL-2.0-only

//! The request page: a [`RequestHeader`] and a body that depends on the operation.

use crate::{key::FileKey, NAME_LEN, PAGE_SIZE};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First word of every request page ("DDRQ").
pub const REQUEST_MAGIC: u32 = u32::from_le_bytes(*b"DDRQ");

/// Start of every request.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct RequestHeader {
    /// [`REQUEST_MAGIC`].
    pub magic: u32,
    /// [`crate::ABI_VERSION`] of the guest.
    pub version: u16,
    /// A [`crate::hypercall::Operation`].
    pub operation: u16,
    /// Session from the host's answer to Hello; zero in Hello itself.
    pub session: u64,
    /// Strictly increasing within a session over all vCPUs, starting at 1; see
    /// `docs/developers/decisions/0001-sequence.md`.
    pub sequence: u64,
    /// Number of elements in the body (runs, flush ranges), 1 for the other bodies.
    pub count: u32,
    /// [`MAY_DEFER`] and [`MAY_RETAIN`] in Get. All other bits are zero and reserved.
    pub flags: u32,
    /// In a Get for runs whose result was [`crate::answer::READING`], the ticket of that answer;
    /// otherwise zero.
    pub ticket: u64,
    /// Zero and reserved.
    pub reserved: [u64; 3],
}

/// Flag of a Get whose reader can sleep. Instead of waiting for reads of the SSD tier, the host may
/// only begin them, see [`crate::answer::READING`]. The guest sets it only if the session has the
/// feature [`crate::answer::DEFER`].
pub const MAY_DEFER: u32 = 1;

/// Flag of a Get after which the SSD tier may keep the pages that it returns, see
/// [`crate::answer::RETAINED`]. The guest sets it only if the session has the feature
/// [`crate::answer::RETAIN`].
pub const MAY_RETAIN: u32 = 2;

/// Offset of the body in the request page.
pub const BODY: usize = size_of::<RequestHeader>();

/// Maximum number of runs or flush ranges in one request.
pub const MAX_RUNS: usize = (PAGE_SIZE - BODY) / size_of::<Run>();

/// Maximum number of pages in one request, which bounds the time of a call: two of the largest
/// folios.
pub const MAX_PAGES: u32 = 1024;

/// Number of classes of a pool's pages. The pool's policy determines the order in which classes are
/// evicted.
pub const CLASSES: usize = 4;

/// Consecutive pages of a file in consecutive guest frames: a folio or a part of one.
///
/// A get returns all pages of a run or none. The host frees the pages of an incomplete run, because
/// the guest has cleared their bits in its map.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Run {
    /// The file.
    pub file: FileKey,
    /// Index of the first page.
    pub index: u64,
    /// Guest frame number of the first page.
    pub gfn: u64,
    /// Put: the owner. Get: the reader, for statistics and ownership.
    pub pool: u32,
    /// Number of pages, 1 to [`MAX_PAGES`].
    pub pages: u16,
    /// Put: the class of the pages, below [`CLASSES`]. Get: zero.
    pub class: u8,
    /// Zero.
    pub reserved: u8,
}

/// Pages that the host may free.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct FlushRange {
    /// The file. Fields that the scope does not use are ignored.
    pub file: FileKey,
    /// First page index (scope `Pages`).
    pub first: u64,
    /// Last page index, inclusive (scope `Pages`).
    pub last: u64,
    /// A [`FlushScope`].
    pub scope: u32,
    /// Zero.
    pub reserved: u32,
}

/// Scope of a [`FlushRange`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum FlushScope {
    /// Pages `first..=last` of a file.
    Pages = 0,
    /// A whole file.
    File = 1,
    /// A whole filesystem instance.
    Filesystem = 2,
    /// All pages of the VM.
    All = 3,
}

impl FlushScope {
    /// Returns the scope with this number, if there is one.
    pub const fn from_raw(raw: u32) -> Option<Self> {
        Some(match raw {
            0 => Self::Pages,
            1 => Self::File,
            2 => Self::Filesystem,
            3 => Self::All,
            _ => return None,
        })
    }
}

/// Body of Hello.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Hello {
    /// Features that the guest supports; see [`crate::answer::HelloAnswer::features`].
    pub features: u64,
    /// Bytes of a page, [`crate::PAGE_SIZE`].
    pub page_size: u32,
    /// Zero.
    pub reserved: u32,
}

/// Body of PoolCreate, PoolSet, PoolDestroy and PoolStats, each of which uses only the fields that
/// it needs.
///
/// Pool 0 exists from Hello on. It is the VM's default pool, for all pages that belong to no
/// enrolled container. Its settings can be changed, but it cannot be created or destroyed.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct PoolBody {
    /// The pool; ignored by PoolCreate.
    pub pool: u32,
    /// Weight among the VM's pools, 0 to [`crate::pool::MAX_WEIGHT`]; with 0 no page is cached in
    /// the memory tier, nor, unless `ssd_weight` differs, in the SSD tier.
    pub weight: u32,
    /// A [`crate::pool::Store`].
    pub store: u32,
    /// A [`crate::policy::Policy`]. The host evicts the pool's pages in the order of this policy.
    pub policy: u32,
    /// Weight among the VM's pools in the SSD tier, 0 to [`crate::pool::MAX_WEIGHT`], or
    /// [`crate::pool::SAME_WEIGHT`] if it equals `weight`.
    pub ssd_weight: u32,
    /// A [`crate::pool::SsdAdmit`].
    pub ssd_admit: u32,
    /// Bytes used in `name`.
    pub name_len: u32,
    /// Name of the pool, for the host's administrator only. Unprintable bytes are replaced.
    pub name: [u8; NAME_LEN],
}

/// Body of Migrate: moves all pages of `file` to `pool`.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct MigrateBody {
    /// The file.
    pub file: FileKey,
    /// The new owner.
    pub pool: u32,
    /// Zero.
    pub reserved: u32,
}

const _: () = assert!(size_of::<RequestHeader>() == 64);
const _: () = assert!(size_of::<Run>() == 40);
const _: () = assert!(size_of::<FlushRange>() == 40);
const _: () = assert!(size_of::<PoolBody>() == 92);
const _: () = assert!(MAX_RUNS == 100);
const _: () = assert!(MAX_PAGES <= u16::MAX as u32);
