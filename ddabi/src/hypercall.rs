// SPDX-License-Identifier: GPL-2.0-only

//! Registers, operations and statuses of a call.
//!
//! | register | on entry | on return |
//! |---|---|---|
//! | `rax` | [`NUMBER`] | an [`Outcome`], or a negative KVM error if no module handles the call |
//! | `rbx` | guest-physical address of the request page, page aligned | unchanged |
//! | `rcx`, `rdx`, `rsi` | zero | unchanged |
//!
//! The answer page follows the request page in guest-physical memory.

/// Hypercall number ("dd" and a version), far above the small numbers that KVM itself uses.
pub const NUMBER: u64 = 0x6464_0001;

/// Operation of a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u16)]
pub enum Operation {
    /// Register with version and features; the answer contains a new session. This is the only call
    /// that is made without a session.
    Hello = 1,
    /// End the session; the host frees all pages of the VM.
    Goodbye = 2,
    /// Do nothing; the answer may contain eviction notices.
    Ping = 3,
    /// Store pages (body: runs).
    Put = 4,
    /// Read pages and remove them from the store (body: runs).
    Get = 5,
    /// Free pages (body: flush ranges). Not required for correctness.
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
    /// Returns the operation with this number, if there is one.
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

/// Status of a call. A call whose status is not [`Status::Ok`] had no effect at the host, except
/// for [`Status::Stale`], after which the host has no pages of the session that the call named.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Status {
    /// The call was carried out.
    Ok = 0,
    /// The session is unknown or the guest was rolled back. The guest must clear its map and
    /// register again.
    Stale = 1,
    /// A call with a higher sequence number arrived first, or the request page was not in the
    /// host's memory. The guest writes a new sequence number to the page and sends the call again.
    Retry = 2,
    /// The request is malformed, so that it must not be sent again.
    Invalid = 3,
    /// The peer speaks another ABI version, or the operation is not offered.
    Unsupported = 4,
    /// The host has no memory for the call at present.
    NoMemory = 5,
    /// The pool does not exist.
    NoPool = 6,
    /// A limit of the VM, such as its number of pools, is reached.
    Limit = 7,
    /// The host has as many VMs as its administrator allows.
    Denied = 8,
}

impl Status {
    /// Returns the status with this number, if there is one.
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
/// flushed. All other bits are zero, so that the value is never negative.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Outcome {
    /// Status of the call.
    pub status: Status,
    /// Whether the answer page was written. The host does not write it while KVM tracks dirty pages
    /// (live migration). The guest then knows that a run was stored only if all pages of the call
    /// were.
    pub answered: bool,
    /// Number of pages stored, taken out or freed.
    pub pages: u32,
}

const ANSWERED: u64 = 1 << 8;

impl Outcome {
    /// Returns an outcome without pages and without an answer page.
    pub const fn bare(status: Status) -> Self {
        Self {
            status,
            answered: false,
            pages: 0,
        }
    }

    /// Returns the register value.
    pub const fn into_raw(self) -> u64 {
        let answered = if self.answered { ANSWERED } else { 0 };
        self.status as u64 | answered | (self.pages as u64) << 16
    }

    /// Parses a register value. Returns `None` if no DoubleDecker host wrote it.
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
