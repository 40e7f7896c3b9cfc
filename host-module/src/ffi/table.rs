// SPDX-License-Identifier: GPL-2.0-only

//! Values indexed by the key of a VM (`dd_kvm_key` in `shim/kvm.c`), in an xarray.

use super::kvm::CallingVm;
use core::marker::PhantomData;
use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::types::Opaque;

/// A table that maps a VM to a value. It is read without a lock.
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

    /// Returns the value of the calling VM, if it is registered.
    pub(crate) fn find<'a>(&self, guest: &'a CallingVm<'_>) -> Option<&'a V> {
        // SAFETY: The xarray is initialised by the type invariants.
        let entry = unsafe { bindings::xa_load(self.xa.get(), guest.key()) };
        // SAFETY: By the type invariants it is null or an `Arc<V>`, and by the contract of `remove`
        // the table keeps it while a `CallingVm` of the VM lives.
        unsafe { entry.cast::<V>().as_ref() }
    }

    /// Adds the value of a VM. The caller ensures that the VM has no value yet.
    pub(crate) fn insert(&self, guest: &CallingVm<'_>, value: Arc<V>) -> Result {
        let entry = Arc::into_raw(value).cast_mut();
        // SAFETY: The xarray is initialised by the type invariants. INVARIANT: an `Arc<V>`.
        let old = unsafe {
            bindings::xa_store(
                self.xa.get(),
                guest.key(),
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

    /// Removes and returns the value of a VM.
    ///
    /// # Safety
    ///
    /// No [`CallingVm`] of this VM exists or will.
    pub(crate) unsafe fn remove(&self, key: usize) -> Option<Arc<V>> {
        // SAFETY: The xarray is initialised by the type invariants.
        let entry = unsafe { bindings::xa_erase(self.xa.get(), key) };
        // SAFETY: By the type invariants, and it is no longer in the table.
        (!entry.is_null()).then(|| unsafe { Arc::from_raw(entry.cast::<V>()) })
    }

    /// Removes all values.
    ///
    /// # Safety
    ///
    /// No [`CallingVm`] exists or will.
    unsafe fn clear(&self) {
        let mut key = 0;
        loop {
            // SAFETY: The xarray is initialised by the type invariants.
            let entry = unsafe {
                bindings::xa_find(self.xa.get(), &mut key, usize::MAX, bindings::XA_PRESENT)
            };
            if entry.is_null() {
                return;
            }
            // SAFETY: By the function's contract.
            drop(unsafe { self.remove(key) });
        }
    }
}

#[pinned_drop]
impl<V: Send + Sync> PinnedDrop for VmTable<V> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: When the state is dropped, no task runs that could make a `CallingVm`.
        unsafe { self.clear() };
        // SAFETY: Initialised, and no longer in use.
        unsafe { bindings::xa_destroy(self.xa.get()) };
    }
}
