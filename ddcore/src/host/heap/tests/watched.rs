// SPDX-License-Identifier: GPL-2.0-only

use super::contended::is_any_held;
use super::Short;
use crate::host::heap::{self, Session};
use crate::host::room;
use crate::host::standing::Standing;
use core::cell::Cell;
use core::ops::Deref;
use core::sync::atomic::AtomicU64;

std::thread_local! {
    /// Number of VMs whose number the thread has read.
    static NUMBERS_READ: Cell<u32> = const { Cell::new(0) };
}

/// Returns how often the thread has read the number of a VM.
pub(crate) fn numbers_read() -> u32 {
    NUMBERS_READ.get()
}

/// A VM whose session may not be borrowed with a lock held: in the kernel, the borrower could be
/// the last owner, and free the memory of the session under the lock.
pub(crate) struct Watched(pub(super) heap::Vm<Short>);

impl Deref for Watched {
    type Target = heap::Vm<Short>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl room::Vm for Watched {
    type Session = Session<Short>;

    fn number(&self) -> u32 {
        NUMBERS_READ.set(numbers_read() + 1);
        self.0.number()
    }

    fn share(&self) -> u32 {
        self.0.share()
    }

    fn ssd_share(&self) -> u32 {
        self.0.ssd_share()
    }

    fn session(&self) -> Option<impl Deref<Target = Self::Session>> {
        assert!(!is_any_held());
        self.0.session()
    }

    fn peek<R>(&self, look: impl FnOnce(&Self::Session) -> R) -> Option<R> {
        Some(look(&self.0.session))
    }

    fn standing(&self) -> &Standing<AtomicU64> {
        self.0.standing()
    }
}
