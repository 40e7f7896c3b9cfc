// SPDX-License-Identifier: GPL-2.0

//! What a get needs of its guest: frames that can be written.

use crate::ffi::kvm::Guest;
use crate::tier::page::Page;
use crate::vm::pool::Pool;
use crate::vm::session::Session;
use ddabi::request::Run;
use ddcore::host::carried::Carried;
use ddcore::host::get::{foreign, give};

/// What can be done with the frames of a run of a get.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Frames {
    /// They can be written.
    Ready,
    /// They must not be written, for KVM tracks who does.
    Tracked,
    /// Some are not in the host's memory, or are no memory.
    Absent,
}

impl Frames {
    pub(crate) fn of(guest: &Guest<'_>, run: &Run) -> Self {
        let pages = u64::from(run.pages);
        if !guest.is_writable(run.gfn, pages) {
            Self::Tracked
        } else if guest.is_present(run.gfn, pages) {
            Self::Ready
        } else {
            Self::Absent
        }
    }
}

impl Session {
    /// Writes a run that was taken out into the guest's frames, all of it or nothing, and counts
    /// it.
    ///
    /// The caller has seen that the frames may be written.
    #[inline(never)]
    pub(crate) fn give(
        &self,
        guest: &Guest<'_>,
        placed: (&Run, usize),
        carried: &mut Carried<Page>,
    ) -> bool {
        let run = placed.0;
        let given = give(self, placed, carried, |page, gfn| {
            page.write_to(guest, gfn).is_ok()
        });
        if !given {
            self.miss(run);
        } else if let Some(reader) = self.pool(run.pool) {
            reader.gets.add(u64::from(run.pages));
            reader.hits_foreign.add(foreign(placed, carried));
        }
        given
    }

    /// Counts a run that was not found, or not looked up.
    pub(crate) fn miss(&self, run: &Run) {
        let count = |pool: &Pool| {
            pool.gets.add(u64::from(run.pages));
            pool.misses.add(u64::from(run.pages));
        };
        self.pool(run.pool).map(count);
    }
}
