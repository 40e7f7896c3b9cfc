// SPDX-License-Identifier: GPL-2.0

//! The memory of a call: too much for the stack, too much to clear for every call. Each VM keeps
//! what its calls have used, about one for each vCPU.

use crate::memory::quietly;
use crate::tier::page::Page;
use crate::vm::charge::charged;
use ddabi::answer::{Eviction, MAX_EVICTIONS};
use ddcore::host::carried::Carried;
use ddcore::request::MAX_BODY;
use kernel::alloc::AllocError;
use kernel::prelude::*;
use kernel::sync::{new_spinlock, SpinLock};

/// Most desks that a VM keeps.
const KEPT: usize = 32;

/// Room for notices on their way into an answer.
pub(crate) type NoticeRoom = [Eviction; MAX_EVICTIONS];

/// The memory of a call. Between two calls nothing is carried; the rest is stale.
pub(crate) struct Desk {
    pub(crate) body: Body,
    pub(crate) carried: Carried<Page>,
    pub(crate) notices: NoticeRoom,
}

/// A request's body, aligned for what it may contain.
#[repr(align(8))]
pub(crate) struct Body(pub(crate) [u8; MAX_BODY]);

// SAFETY: Bytes and integers, an empty batch among them, and optional pages: `Option<Page>` is
// `None` if all is zero, for a page's number is not.
unsafe impl Zeroable for Desk {}

/// The desks of a VM that are free.
#[pin_data]
pub(crate) struct Desks {
    #[pin]
    free: SpinLock<KVec<KVBox<Desk>>>,
}

impl Desks {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            free <- new_spinlock!(KVec::with_capacity(KEPT, quietly())?, "Desks::free"),
        })
    }

    /// Works at one of the VM's desks, or at a new one; without a VM the desk is not kept.
    pub(crate) fn work<R>(
        desks: Option<&Self>,
        work: impl FnOnce(&mut Desk) -> R,
    ) -> Result<R, AllocError> {
        let kept = desks.and_then(|desks| desks.free.lock().pop());
        let mut desk = match kept {
            Some(desk) => desk,
            None => KVBox::zeroed(charged())?,
        };
        let result = work(&mut desk);
        if let Some(desks) = desks {
            let mut free = desks.free.lock();
            let surplus = free.push_within_capacity(desk);
            drop(free);
            drop(surplus);
        }
        Ok(result)
    }
}
