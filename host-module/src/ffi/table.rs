// SPDX-License-Identifier: GPL-2.0

//! The VMs by their `struct kvm`.

use super::Guest;
use crate::vm::Vm;
use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::types::Opaque;

/// Finds VMs without taking a lock.
///
/// # Invariants
///
/// Every entry is an `Arc<Vm>` turned into a pointer.
#[pin_data(PinnedDrop)]
pub(crate) struct VmTable {
    #[pin]
    xa: Opaque<bindings::xarray>,
}

// SAFETY: An xarray may be used from any thread, and so may `Arc<Vm>`.
unsafe impl Send for VmTable {}
// SAFETY: As above.
unsafe impl Sync for VmTable {}

impl VmTable {
    pub(crate) fn new() -> impl PinInit<Self> {
        // INVARIANT: The table is empty.
        pin_init!(Self {
            // SAFETY: The place is valid for the call.
            xa <- Opaque::ffi_init(|xa| unsafe { bindings::xa_init_flags(xa, 0) }),
        })
    }

    /// The caller's VM, if it is registered.
    pub(crate) fn find<'a>(&self, guest: &'a Guest<'_>) -> Option<&'a Vm> {
        // SAFETY: The xarray is initialised by the type invariants.
        let entry = unsafe { bindings::xa_load(self.xa.get(), guest.identity()) };
        // SAFETY: By the type invariants it is null or an `Arc<Vm>`; `remove` says that the table
        // keeps it while a `Guest` of the VM lives.
        unsafe { entry.cast::<Vm>().as_ref() }
    }

    /// Registers a VM. The caller sees to it that it is done once.
    pub(crate) fn insert(&self, guest: &Guest<'_>, vm: Arc<Vm>) -> Result {
        let entry = Arc::into_raw(vm).cast_mut();
        // SAFETY: The xarray is initialised by the type invariants. INVARIANT: an `Arc<Vm>`.
        let old = unsafe {
            bindings::xa_store(
                self.xa.get(),
                guest.identity(),
                entry.cast(),
                bindings::GFP_KERNEL | bindings::__GFP_NOWARN,
            )
        };
        // SAFETY: `old` is what `xa_store` returned.
        let err = unsafe { bindings::xa_err(old) };
        if err != 0 {
            // SAFETY: It was not stored, so it is still ours.
            drop(unsafe { Arc::from_raw(entry) });
        }
        kernel::error::to_result(err)
    }

    /// Takes a VM out.
    ///
    /// # Safety
    ///
    /// No [`Guest`] of this VM exists or will.
    pub(super) unsafe fn remove(&self, kvm: usize) -> Option<Arc<Vm>> {
        // SAFETY: The xarray is initialised by the type invariants.
        let entry = unsafe { bindings::xa_erase(self.xa.get(), kvm) };
        // SAFETY: By the type invariants, and it is no longer in the table.
        (!entry.is_null()).then(|| unsafe { Arc::from_raw(entry.cast::<Vm>()) })
    }

    /// Takes all VMs out.
    ///
    /// # Safety
    ///
    /// No [`Guest`] exists or will.
    unsafe fn clear(&self) {
        let mut kvm = 0;
        loop {
            // SAFETY: The xarray is initialised by the type invariants.
            let entry = unsafe {
                bindings::xa_find(self.xa.get(), &mut kvm, usize::MAX, bindings::XA_PRESENT)
            };
            if entry.is_null() {
                return;
            }
            // SAFETY: By the function's contract.
            drop(unsafe { self.remove(kvm) });
        }
    }
}

#[pinned_drop]
impl PinnedDrop for VmTable {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: No task that could make a `Guest` runs any more when the state is dropped.
        unsafe { self.clear() };
        // SAFETY: Initialised, and not in use any more.
        unsafe { bindings::xa_destroy(self.xa.get()) };
    }
}
