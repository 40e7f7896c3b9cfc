// SPDX-License-Identifier: GPL-2.0

//! Values by `struct kvm`, in an xarray.

use super::kvm::Guest;
use core::marker::PhantomData;
use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::types::Opaque;

/// Finds what belongs to a VM without taking a lock.
///
/// # Invariants
///
/// Every entry is an `Arc<V>` turned into a pointer.
#[pin_data(PinnedDrop)]
pub(crate) struct VmTable<V: Send + Sync> {
    #[pin]
    xa: Opaque<bindings::xarray>,
    _entries: PhantomData<Arc<V>>,
}

// SAFETY: An xarray may be used from any thread, and so may `Arc<V>`.
unsafe impl<V: Send + Sync> Send for VmTable<V> {}
// SAFETY: As above.
unsafe impl<V: Send + Sync> Sync for VmTable<V> {}

impl<V: Send + Sync> VmTable<V> {
    pub(crate) fn new() -> impl PinInit<Self> {
        // INVARIANT: The table is empty.
        pin_init!(Self {
            // SAFETY: The place is valid for the call.
            xa <- Opaque::ffi_init(|xa| unsafe { bindings::xa_init_flags(xa, 0) }),
            _entries: PhantomData,
        })
    }

    /// What belongs to the caller's VM, if it is registered.
    pub(crate) fn find<'a>(&self, guest: &'a Guest<'_>) -> Option<&'a V> {
        // SAFETY: The xarray is initialised by the type invariants.
        let entry = unsafe { bindings::xa_load(self.xa.get(), guest.identity()) };
        // SAFETY: By the type invariants it is null or an `Arc<V>`; `remove` says that the table
        // keeps it while a `Guest` of the VM lives.
        unsafe { entry.cast::<V>().as_ref() }
    }

    /// Registers a VM. The caller sees to it that this is done once.
    pub(crate) fn insert(&self, guest: &Guest<'_>, value: Arc<V>) -> Result {
        let entry = Arc::into_raw(value).cast_mut();
        // SAFETY: The xarray is initialised by the type invariants. INVARIANT: an `Arc<V>`.
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

    /// Takes out what belongs to a VM.
    ///
    /// # Safety
    ///
    /// No [`Guest`] of this VM exists or will.
    pub(crate) unsafe fn remove(&self, kvm: usize) -> Option<Arc<V>> {
        // SAFETY: The xarray is initialised by the type invariants.
        let entry = unsafe { bindings::xa_erase(self.xa.get(), kvm) };
        // SAFETY: By the type invariants, and it is no longer in the table.
        (!entry.is_null()).then(|| unsafe { Arc::from_raw(entry.cast::<V>()) })
    }

    /// Takes everything out.
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
impl<V: Send + Sync> PinnedDrop for VmTable<V> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: No task that could make a `Guest` runs any more when the state is dropped.
        unsafe { self.clear() };
        // SAFETY: Initialised, and not in use any more.
        unsafe { bindings::xa_destroy(self.xa.get()) };
    }
}
