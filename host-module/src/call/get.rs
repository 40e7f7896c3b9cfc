// SPDX-License-Identifier: GPL-2.0-only

//! Gets: access to the frames of the guest.

use crate::ffi::kvm::CallingVm;
use crate::tier::page::Page;
use crate::vm::pool::Pool;
use crate::vm::session::Session;
use ddabi::request::Run;
use ddcore::host::carried::Carried;
use ddcore::host::get::{foreign, give};

/// State of the frames of a run of a get.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Frames {
    /// They can be written.
    Ready,
    /// They must not be written, because KVM tracks dirty pages.
    Tracked,
    /// Some are not in the host's memory, or are not memory at all.
    Absent,
}

impl Frames {
    pub(crate) fn of(guest: &CallingVm<'_>, run: &Run) -> Self {
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
    /// Writes a run that was taken out into the guest's frames, as a whole or not at all, and counts
    /// it. Returns whether it was written.
    ///
    /// The caller must have checked that the frames are [`Frames::Ready`].
    #[inline(never)]
    pub(crate) fn give(
        &self,
        guest: &CallingVm<'_>,
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
