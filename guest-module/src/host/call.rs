// SPDX-License-Identifier: GPL-2.0-only

//! A hypercall: a request is written into a buffer of this CPU and sent with preemption off.

use crate::ffi::cpu::{self, PreemptionOff};
use crate::ffi::machine;
use crate::memory::gfp_nowarn;
use core::cell::UnsafeCell;
use ddabi::answer::{
    AnswerHeader, Eviction, PoolPressure, ANSWER_MAGIC, EVICTIONS, MAX_EVICTIONS, READING, RESULTS,
    RETAINED, RETAINS, UNFINISHED,
};
use ddabi::hypercall::{Operation, Outcome, Status, NUMBER};
use ddabi::request::{RequestHeader, Run, BODY, MAX_RUNS, MAY_DEFER, MAY_RETAIN, REQUEST_MAGIC};
use ddabi::{ABI_VERSION, PAGE_SIZE};
use kernel::cpu::{nr_cpu_ids, CpuId};
use kernel::prelude::*;
use kernel::sync::atomic::{ordering::Relaxed, Atomic};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Number of consecutive *Retry* answers after which a call fails. It exceeds the number of CPUs,
/// each of which can overtake a call once.
const MAX_RETRIES: u32 = 1024;

/// Maximum number of pages of a put or a get. No other task runs on the CPU while the host copies
/// them: half a MiB takes some tens of microseconds, or a few hundred if all of it misses the
/// caches. That is many times the cost of an exit, so that more pages per call would gain little. A
/// page that the host has swapped out takes longer, see `docs/users/limits.md`.
pub(crate) const MAX_CALL_PAGES: u32 = 128;

/// Splits a run into parts that each fit into a call.
pub(crate) fn parts(run: Run) -> impl Iterator<Item = Run> {
    (0..run.pages)
        .step_by(MAX_CALL_PAGES as usize)
        .map(move |done| Run {
            index: run.index + u64::from(done),
            gfn: run.gfn + u64::from(done),
            // The result is less than `run.pages`, so it fits.
            pages: u32::from(run.pages - done).min(MAX_CALL_PAGES) as u16,
            ..run
        })
}

/// The request page and the answer page of a CPU. They are physically contiguous, as any allocation
/// of 8 KiB is.
#[repr(C, align(8192))]
struct Block {
    request: [u8; PAGE_SIZE],
    answer: [u8; PAGE_SIZE],
}

// SAFETY: Any bytes are a valid value of an array of bytes.
unsafe impl pin_init::Zeroable for Block {}

/// The blocks of all CPUs, and the sequence of the calls that they share
/// (`docs/developers/decisions/0001-sequence.md`).
pub(crate) struct CallBuffers {
    blocks: KVec<KBox<UnsafeCell<Block>>>,
    sequence: Atomic<u64>,
}

// SAFETY: A block is used only by the task that runs on its CPU, with preemption off (see `Call`),
// hence by one task at a time.
unsafe impl Sync for CallBuffers {}
// SAFETY: Blocks are plain memory that belongs to no thread.
unsafe impl Send for CallBuffers {}

/// A get that the host has deferred.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deferral {
    ticket: u64,
    /// Number of microseconds after which the host has probably read the pages.
    pub(crate) wait_us: u32,
}

/// The reason why a call had no result.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Failure {
    /// The hypercall is not handled: the host module is not loaded.
    NoHost,
    /// Hooks cannot be attached to this kernel. This is not an answer of the host.
    Unattached,
    /// The host refused, with a status that is neither `Ok` nor `Retry`.
    Refused(Status),
}

impl CallBuffers {
    /// Allocates blocks for all possible CPUs. Sleeps.
    pub(crate) fn new() -> Result<Self> {
        let mut blocks = KVec::new();
        for _ in 0..nr_cpu_ids() {
            let block = KBox::<Block>::zeroed(gfp_nowarn())?;
            // An `UnsafeCell` has the layout of its content, so that the cast is sound.
            let raw = KBox::into_raw(block).cast::<UnsafeCell<Block>>();
            // SAFETY: The pointer comes from `into_raw`, and the layouts agree.
            blocks.push(unsafe { KBox::from_raw(raw) }, gfp_nowarn())?;
        }
        Ok(Self {
            blocks,
            sequence: Atomic::new(0),
        })
    }

    /// Begins a call on this CPU. Disables preemption until the value is dropped and leaves
    /// interrupts as they are. Returns `None` in interrupts, because the interrupted task may be in
    /// the middle of a call.
    pub(crate) fn begin(&self) -> Option<Call<'_>> {
        if !cpu::in_task() {
            return None;
        }
        let off = PreemptionOff::new();
        let block = self.blocks.get(CpuId::current().as_u32() as usize)?.get();
        // INVARIANT: No other task runs on this CPU, interrupts were refused above, and a task does
        // not begin a call inside of another one. So nothing begins a second call on this block
        // while this one exists.
        Some(Call {
            buffers: self,
            block,
            count: 0,
            flags: 0,
            ticket: 0,
            answered: false,
            _off: off,
        })
    }

    /// Restarts the sequence, for a new session.
    pub(crate) fn restart(&self) {
        self.sequence.store(0, Relaxed);
    }
}

/// A call under construction, or its answer.
///
/// # Invariants
///
/// `block` is the block of this CPU, and no other task uses it.
pub(crate) struct Call<'a> {
    buffers: &'a CallBuffers,
    block: *mut Block,
    count: u32,
    /// Flags of the request.
    flags: u32,
    /// Ticket of the request.
    ticket: u64,
    answered: bool,
    _off: PreemptionOff,
}

impl Call<'_> {
    fn block(&self) -> &Block {
        // SAFETY: By the type invariant.
        unsafe { &*self.block }
    }

    fn block_mut(&mut self) -> &mut Block {
        // SAFETY: By the type invariant.
        unsafe { &mut *self.block }
    }

    /// Appends an element to the body. Returns `false` if there is no room.
    pub(crate) fn push<T: IntoBytes + Immutable>(&mut self, element: &T) -> bool {
        let at = BODY + self.count as usize * size_of::<T>();
        let Some(place) = self.block_mut().request.get_mut(at..at + size_of::<T>()) else {
            return false;
        };
        place.copy_from_slice(element.as_bytes());
        self.count += 1;
        true
    }

    /// Sends the request and waits for the answer. A call that another one overtook is sent again,
    /// with a new number; `retried` is called for each such attempt.
    pub(crate) fn send(
        &mut self,
        operation: Operation,
        session: u64,
        mut retried: impl FnMut(),
    ) -> Result<Outcome, Failure> {
        for _ in 0..MAX_RETRIES {
            // The host does not write an answer page that it has swapped out. The old answer is
            // cleared, so that it cannot be taken for a new one. The number is taken after that,
            // so that fewer calls of other vCPUs overtake this one.
            self.block_mut().answer[..RESULTS].fill(0);
            let header = RequestHeader {
                magic: REQUEST_MAGIC,
                version: ABI_VERSION,
                operation: operation as u16,
                session,
                sequence: self.buffers.sequence.fetch_add(1, Relaxed) + 1,
                count: self.count,
                flags: self.flags,
                ticket: self.ticket,
                ..RequestHeader::default()
            };
            let block = self.block_mut();
            block.request[..BODY].copy_from_slice(header.as_bytes());
            // SAFETY: By the type invariant no other task uses the block. Callers name only frames
            // of folios that they hold.
            let raw = unsafe { machine::hypercall(NUMBER, self.block.cast()) };
            let Some(outcome) = Outcome::from_raw(raw as u64) else {
                return Err(Failure::NoHost);
            };
            match outcome.status {
                Status::Retry => retried(),
                Status::Ok => {
                    self.answered = outcome.answered && self.answer_is_for(header.sequence);
                    return Ok(Outcome {
                        answered: self.answered,
                        ..outcome
                    });
                }
                status => return Err(Failure::Refused(status)),
            }
        }
        Err(Failure::Refused(Status::Retry))
    }

    fn header(&self) -> Option<AnswerHeader> {
        AnswerHeader::read_from_prefix(&self.block().answer)
            .ok()
            .map(|(header, _)| header)
    }

    fn answer_is_for(&self, sequence: u64) -> bool {
        self.header().is_some_and(|header| {
            header.magic == ANSWER_MAGIC
                && header.version == ABI_VERSION
                && header.sequence == sequence
        })
    }

    /// Returns whether the host has not finished all ranges of a flush, or a move.
    pub(crate) fn is_unfinished(&self) -> bool {
        let header = self.header().filter(|_| self.answered);
        header.is_some_and(|header| header.flags & UNFINISHED != 0)
    }

    /// Returns whether the answer says that the host's SSD tier keeps the pages that it returns.
    pub(crate) fn retains(&self) -> bool {
        let header = self.header().filter(|_| self.answered);
        header.is_some_and(|header| header.flags & RETAINS != 0)
    }

    /// Returns whether run `n` was stored or hit, or range `n` flushed.
    pub(crate) fn succeeded(&self, n: usize) -> bool {
        matches!(self.result(n), 1 | RETAINED)
    }

    /// Returns whether run `n` was hit, and the host's SSD tier has kept it.
    pub(crate) fn is_retained(&self, n: usize) -> bool {
        self.result(n) == RETAINED
    }

    /// Returns whether the host wrote an answer. It does not if it may not write to the guest's
    /// memory, for example while KVM tracks dirty pages.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered
    }

    /// Returns whether the host is reading the pages of run `n`, which must be requested again.
    pub(crate) fn is_reading(&self, n: usize) -> bool {
        self.result(n) == READING
    }

    fn result(&self, n: usize) -> u8 {
        match self.answered && n < MAX_RUNS {
            true => self.block().answer[RESULTS + n],
            false => 0,
        }
    }

    /// Returns the deferral, if the host has deferred runs of this get.
    pub(crate) fn deferral(&self) -> Option<Deferral> {
        let header = self.header().filter(|_| self.answered)?;
        (header.ticket != 0).then_some(Deferral {
            ticket: header.ticket,
            wait_us: header.wait_us,
        })
    }

    /// Lets the host defer this get, because its caller can sleep.
    pub(crate) fn allow_deferral(&mut self) {
        self.flags |= MAY_DEFER;
    }

    /// Lets the host's SSD tier keep the pages that this get returns.
    pub(crate) fn allow_retaining(&mut self) {
        self.flags |= MAY_RETAIN;
    }

    /// Makes this get continue one that was deferred.
    pub(crate) fn resume(&mut self, deferral: Deferral) {
        self.ticket = deferral.ticket;
    }

    /// Returns the body of the answer, if there is an answer.
    pub(crate) fn body<T: FromBytes>(&self) -> Option<T> {
        if !self.answered {
            return None;
        }
        T::read_from_prefix(&self.block().answer[RESULTS..])
            .ok()
            .map(|(body, _)| body)
    }

    /// Returns the pressure of a pool, if the answer reports one.
    pub(crate) fn pressure(&self) -> Option<PoolPressure> {
        let said = self.header().filter(|_| self.answered)?.pressure;
        (said.known != 0).then_some(said)
    }

    /// Returns the eviction notices of the answer.
    pub(crate) fn evictions(&self) -> impl Iterator<Item = Eviction> + '_ {
        let count = match self.header() {
            Some(header) if self.answered => usize::from(header.evictions).min(MAX_EVICTIONS),
            _ => 0,
        };
        (0..count).filter_map(|n| {
            let at = EVICTIONS + n * size_of::<Eviction>();
            Eviction::read_from_prefix(&self.block().answer[at..])
                .ok()
                .map(|(notice, _)| notice)
        })
    }
}
