// SPDX-License-Identifier: GPL-2.0-only

//! A VM that has one session during its whole life.

use super::{Owner, Session};
use crate::host::room;
use crate::host::standing::Standing;
use core::ops::Deref;
use core::sync::atomic::AtomicU64;

/// A VM that has registered once.
pub struct Vm<O: Owner> {
    /// The number, which is unique on the host.
    pub number: u32,
    /// The weight with which the memory tier is divided.
    pub share: u32,
    /// The session.
    pub session: Session<O>,
    /// The standing that the VM has published.
    pub standing: Standing<AtomicU64>,
}

impl<O: Owner> room::Vm for Vm<O> {
    type Session = Session<O>;

    fn number(&self) -> u32 {
        self.number
    }

    fn share(&self) -> u32 {
        self.share
    }

    fn ssd_share(&self) -> u32 {
        O::vm_ssd_share(&self.session)
    }

    fn session(&self) -> Option<impl Deref<Target = Session<O>>> {
        Some(&self.session)
    }

    fn standing(&self) -> &Standing<AtomicU64> {
        &self.standing
    }
}
