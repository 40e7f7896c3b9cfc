// SPDX-License-Identifier: GPL-2.0

//! Registers, operations and statuses of a call.
//!
//! | register | on entry | on return |
//! |---|---|---|
//! | `rax` | [`NUMBER`] | an [`Outcome`], or a negative KVM error if no module handles the call |
//! | `rbx` | guest-physical address of the request page, page aligned | unchanged |
//! | `rcx`, `rdx`, `rsi` | zero | unchanged |
//!
//! The answer page follows the request page in guest-physical memory.

/// Hypercall number, far away from KVM's own small integers ("dd" and a version).
pub const NUMBER: u64 = 0x6464_0001;

/// What a call asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u16)]
pub enum Operation {
    /// Register: offers version and features, gets a session. Needs no session itself.
    Hello = 1,
    /// Give the session back; the host frees everything of the VM.
    Goodbye = 2,
    /// Nothing but a sign of life; eviction notices may come back.
    Ping = 3,
    /// Store pages (body: runs).
    Put = 4,
    /// Take pages out (body: runs).
    Get = 5,
    /// Free copies (body: flush ranges). Never needed for correctness.
    Flush = 6,
    /// Create a pool (the paper's CREATE_CGROUP, section 4.1).
    PoolCreate = 7,
    /// Set weight and store of a pool (SET_CG_WEIGHT).
    PoolSet = 8,
    /// Destroy a pool and free its objects (DESTROY_CGROUP).
    PoolDestroy = 9,
    /// Move a file's objects to another pool (MIGRATE_OBJECT).
    Migrate = 10,
    /// Statistics of a pool (GET_STATS).
    PoolStats = 11,
}

impl Operation {
    /// The operation with this number, if there is one.
    pub const fn from_raw(raw: u16) -> Option<Self> {
        Some(match raw {
            1 => Self::Hello,
            2 => Self::Goodbye,
            3 => Self::Ping,
            4 => Self::Put,
            5 => Self::Get,
            6 => Self::Flush,
            7 => Self::PoolCreate,
            8 => Self::PoolSet,
            9 => Self::PoolDestroy,
            10 => Self::Migrate,
            11 => Self::PoolStats,
            _ => return None,
        })
    }
}

/// How a call ended. Whatever is not [`Status::Ok`] changed nothing at the host, except
/// [`Status::Stale`], after which the host holds nothing in the session that the call named.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// The session is unknown or the guest was rolled back: clear the map, register again.
    Stale = 1,
    /// The sequence number was overtaken by another call, or the request page was not in the
    /// host's memory: take a new number, write it to the page, and send again.
    Retry = 2,
    /// The request is malformed; resending it will not help.
    Invalid = 3,
    /// The peer speaks another ABI version, or the operation is not offered.
    Unsupported = 4,
    /// The host has no memory for this right now.
    NoMemory = 5,
    /// No such pool.
    NoPool = 6,
    /// A per-VM limit is reached (pools).
    Limit = 7,
    /// The host's administrator allows no more VMs.
    Denied = 8,
}

impl Status {
    /// The status with this number, if there is one.
    pub const fn from_raw(raw: u8) -> Option<Self> {
        Some(match raw {
            0 => Self::Ok,
            1 => Self::Stale,
            2 => Self::Retry,
            3 => Self::Invalid,
            4 => Self::Unsupported,
            5 => Self::NoMemory,
            6 => Self::NoPool,
            7 => Self::Limit,
            8 => Self::Denied,
            _ => return None,
        })
    }
}

/// The value in `rax` when a call returns.
///
/// Bits 0 to 7: [`Status`]. Bit 8: the answer page was written. Bits 16 to 47: pages put, hit or
/// flushed. All others are zero, so that the value is never negative.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Outcome {
    /// How the call ended.
    pub status: Status,
    /// Whether the answer page holds the details. It does not while KVM tracks dirty pages
    /// there (live migration): then a put succeeded for a run only if it did for all pages.
    pub answered: bool,
    /// Pages stored, taken out or freed.
    pub pages: u32,
}

const ANSWERED: u64 = 1 << 8;

impl Outcome {
    /// An outcome of no pages and no answer page.
    pub const fn bare(status: Status) -> Self {
        Self {
            status,
            answered: false,
            pages: 0,
        }
    }

    /// The register value.
    pub const fn into_raw(self) -> u64 {
        let answered = if self.answered { ANSWERED } else { 0 };
        self.status as u64 | answered | (self.pages as u64) << 16
    }

    /// Reads a register value; `None` if no DoubleDecker host wrote it.
    pub const fn from_raw(raw: u64) -> Option<Self> {
        if raw >> 48 != 0 || raw & 0xfe00 != 0 {
            return None;
        }
        let Some(status) = Status::from_raw(raw as u8) else {
            return None;
        };
        Some(Self {
            status,
            answered: raw & ANSWERED != 0,
            pages: (raw >> 16) as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn outcome_survives_the_register(status in 0u8..=8, answered: bool, pages: u32) {
            let outcome = Outcome { status: Status::from_raw(status).unwrap(), answered, pages };
            prop_assert_eq!(Outcome::from_raw(outcome.into_raw()), Some(outcome));
        }

        #[test]
        fn kvm_errors_are_no_outcome(errno in 1i64..=4095) {
            prop_assert_eq!(Outcome::from_raw(-errno as u64), None);
        }
    }

    #[test]
    fn numbers_round_trip() {
        for raw in 0..=u16::MAX {
            if let Some(operation) = Operation::from_raw(raw) {
                assert_eq!(operation as u16, raw);
            }
        }
        assert_eq!(Operation::from_raw(0), None);
        assert_eq!(Operation::from_raw(12), None);
    }
}
