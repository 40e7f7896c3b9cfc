// SPDX-License-Identifier: GPL-2.0-only

//! Puts: access to the data of the guest's pages.

use crate::call::answer::Answer;
use crate::ffi::kvm::{CallingVm, Fault};
use crate::ffi::tracepoints;
use crate::tier::page::Page;
use crate::vm::session::Session;
use ddabi::request::Run;
use ddcore::host::put::{Refusal, Source};
use kernel::prelude::*;

/// The guest whose pages are put, and the answer that reports the stored runs.
pub(crate) struct Putter<'a, 'room> {
    pub(crate) guest: &'a CallingVm<'a>,
    pub(crate) session: &'a Session,
    pub(crate) answer: &'a mut Option<Answer<'room>>,
}

impl Source<Page> for Putter<'_, '_> {
    fn copy(&mut self, run: &Run, pages: &mut [Option<Page>]) -> Result<(), Refusal> {
        Page::fill(pages, self.guest, run.gfn).map_err(|fault| match fault {
            Fault::NoMemory => Refusal::Fault,
            Fault::Absent => Refusal::Absent,
        })
    }

    fn settled(&mut self, run: &Run, result: Result<(), Refusal>) {
        if let Err(refusal) = result {
            if tracepoints::put_refused_is_on() {
                let (vm, pages) = (self.session.vm, u32::from(run.pages));
                tracepoints::put_refused(vm, run.pool, pages, reason(refusal));
            }
            if let Some(pool) = self.session.pool(run.pool) {
                pool.refuse(refusal, u64::from(run.pages));
            }
        }
        if let Some(answer) = self.answer {
            answer.add(result.is_ok());
        }
    }
}

/// Returns the name of a refusal in tracepoints, which is that of its counter.
fn reason(refusal: Refusal) -> &'static CStr {
    match refusal {
        Refusal::Off => c"off",
        Refusal::Unproven => c"unproven",
        Refusal::Memory => c"memory",
        Refusal::Device => c"device",
        Refusal::Fault => c"fault",
        Refusal::Absent => c"absent",
    }
}
