// SPDX-License-Identifier: GPL-2.0-only

//! The answer page. It is written at the end of a call, in at most two pieces.

use crate::ffi::kvm::{CallingVm, Fault};
use crate::vm::scratch::{AnswerRoom, NoticeRoom};
use crate::vm::session::Session;
use ddabi::answer::{
    AnswerHeader, Eviction, PoolPressure, ANSWER_MAGIC, EVICTIONS, READING, RESULTS, RETAINED,
    RETAINS, UNFINISHED,
};
use ddabi::{ABI_VERSION, PAGE_SIZE};
use kernel::prelude::*;
use zerocopy::{Immutable, IntoBytes};

/// The answer of a call, before it is written to the guest.
pub(crate) struct Answer<'a> {
    gpa: u64,
    header: AnswerHeader,
    /// Room for the header, and the results behind it.
    room: &'a mut AnswerRoom,
    runs: usize,
}

impl<'a> Answer<'a> {
    /// Creates the answer for the page that follows the request. Returns `None` if that page must
    /// not or cannot be written. It is usually present, because guests write to it before each
    /// call. `request` is the address of the request, with whether the page that follows is known
    /// to be writable.
    pub(crate) fn new(
        guest: &CallingVm<'_>,
        request: (u64, bool),
        sequence: u64,
        room: &'a mut AnswerRoom,
    ) -> Option<Self> {
        let gpa = request.0.checked_add(PAGE_SIZE as u64)?;
        let gfn = gpa / PAGE_SIZE as u64;
        let can_be_written = request.1 || guest.is_writable(gfn, 1) && guest.is_present(gfn, 1);
        can_be_written.then(|| Self {
            gpa,
            header: AnswerHeader {
                magic: ANSWER_MAGIC,
                version: ABI_VERSION,
                sequence,
                ..AnswerHeader::default()
            },
            room,
            runs: 0,
        })
    }

    /// Sets the flag which tells the guest that the flush or the move is not finished.
    pub(crate) fn set_unfinished(&mut self) {
        self.header.flags |= UNFINISHED;
    }

    /// Sets the flag which tells the guest that the SSD tier keeps the pages that it returns.
    pub(crate) fn set_retains(&mut self) {
        self.header.flags |= RETAINS;
    }

    /// Appends the result of the next run or range.
    pub(crate) fn add(&mut self, done: bool) {
        self.add_result(u8::from(done));
    }

    /// Appends the result [`READING`] for the next run.
    pub(crate) fn add_reading(&mut self) {
        self.add_result(READING);
    }

    /// Appends the result [`RETAINED`] for the next run.
    pub(crate) fn add_retained(&mut self) {
        self.add_result(RETAINED);
    }

    fn add_result(&mut self, result: u8) {
        if let Some(place) = self.room.get_mut(RESULTS + self.runs) {
            *place = result;
            self.runs += 1;
        }
    }

    /// Sets the ticket that the guest sends when it repeats the request for the runs that are being
    /// read, and the number of microseconds after which it should do so.
    pub(crate) fn set_ticket(&mut self, ticket: u64, wait_us: u32) {
        (self.header.ticket, self.header.wait_us) = (ticket, wait_us);
    }

    /// Returns the sequence number of the request.
    pub(crate) fn sequence(&self) -> u64 {
        self.header.sequence
    }

    /// Sets the state of a pool that the answer reports.
    pub(crate) fn set_pressure(&mut self, pressure: PoolPressure) {
        self.header.pressure = pressure;
    }

    /// Writes the answer with the results, and with eviction notices of the session.
    pub(crate) fn send(
        mut self,
        guest: &CallingVm<'_>,
        session: &Session,
        room: &mut NoticeRoom,
    ) -> Result<(), Fault> {
        let (count, lost) = session.notices.lock().take(room);
        let notices = &room[..count];
        self.header.evictions = count as u16;
        self.header.evictions_lost = lost;
        let sent = self.write(guest, notices);
        if sent.is_err() && (count > 0 || lost > 0) {
            session.notices.lock().note_lost(notices, lost);
        }
        sent
    }

    fn write(&mut self, guest: &CallingVm<'_>, notices: &[Eviction]) -> Result<(), Fault> {
        if !notices.is_empty() {
            guest.write(self.gpa + EVICTIONS as u64, notices.as_bytes())?;
        }
        self.room[..RESULTS].copy_from_slice(self.header.as_bytes());
        guest.write(self.gpa, &self.room[..RESULTS + self.runs])
    }

    /// Writes the answer with a body.
    pub(crate) fn send_body(
        self,
        guest: &CallingVm<'_>,
        body: &(impl IntoBytes + Immutable),
    ) -> Result<(), Fault> {
        guest.write(self.gpa, self.header.as_bytes())?;
        guest.write(self.gpa + RESULTS as u64, body.as_bytes())
    }
}
