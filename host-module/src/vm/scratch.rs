// SPDX-License-Identifier: GPL-2.0-only

//! Scratch memory of a call, which is too large for the stack, and too large to be cleared for
//! every call. Each VM keeps the scratch memories that its calls have used, about one for each
//! vCPU.

use crate::memory::gfp_nowarn;
use crate::tier::page::Page;
use crate::vm::charge::charged;
use ddabi::answer::{Eviction, MAX_EVICTIONS, RESULTS};
use ddabi::request::MAX_RUNS;
use ddcore::host::carried::Carried;
use ddcore::request::MAX_BODY;
use kernel::alloc::AllocError;
use kernel::prelude::*;
use kernel::sync::{new_spinlock, SpinLock};

/// Maximum number of scratch memories that a VM keeps.
const KEPT: usize = 32;

/// Buffer for the eviction notices of an answer.
pub(crate) type NoticeRoom = [Eviction; MAX_EVICTIONS];

/// Buffer for the header of an answer and the results of its runs.
pub(crate) type AnswerRoom = [u8; RESULTS + MAX_RUNS];

/// Scratch memory of a call. Between two calls `carried` has no pages, and the buffers have stale
/// data.
pub(crate) struct Scratch {
    pub(crate) body: Body,
    pub(crate) answer: AnswerRoom,
    pub(crate) carried: Carried<Page>,
    pub(crate) notices: NoticeRoom,
}

/// The body of a request, aligned for all types that it may contain.
#[repr(align(8))]
pub(crate) struct Body(pub(crate) [u8; MAX_BODY]);

// SAFETY: Bytes and integers, an empty batch among them, and optional pages: `Option<Page>` is
// `None` if all is zero, for a page's number is not.
unsafe impl Zeroable for Scratch {}

/// The scratch memories of a VM that no call is using.
#[pin_data]
pub(crate) struct ScratchList {
    #[pin]
    free: SpinLock<KVec<KVBox<Scratch>>>,
}

impl ScratchList {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            free <- new_spinlock!(KVec::with_capacity(KEPT, gfp_nowarn())?, "ScratchList::free"),
        })
    }

    /// Calls `work` with one of the VM's scratch memories, or with a new one, and keeps it for
    /// later calls. Without a list it is freed. The error means that a new one could not be
    /// allocated.
    pub(crate) fn work<R>(
        list: Option<&Self>,
        work: impl FnOnce(&mut Scratch) -> R,
    ) -> Result<R, AllocError> {
        let kept = list.and_then(|list| list.free.lock().pop());
        let mut scratch = match kept {
            Some(scratch) => scratch,
            None => KVBox::zeroed(charged())?,
        };
        let result = work(&mut scratch);
        if let Some(list) = list {
            let mut free = list.free.lock();
            let surplus = free.push_within_capacity(scratch);
            drop(free);
            drop(surplus);
        }
        Ok(result)
    }
}
