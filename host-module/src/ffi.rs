// SPDX-License-Identifier: GPL-2.0

//! Everything C: the shims' functions, the functions they call, and what a raw pointer becomes.

use crate::host::Host;
use crate::vm::Vm;
use core::ffi::c_void;
use core::marker::PhantomData;
use core::ptr;
use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::atomic::{ordering::Acquire, ordering::Release, Atomic};
use kernel::sync::Arc;
use kernel::types::Opaque;
use kernel::workqueue::Queue;

/// Registers of a call; mirrors `struct dd_call`.
#[repr(C)]
pub(crate) struct RawCall {
    kvm: *mut c_void,
    pub(crate) gpa: u64,
    pub(crate) zero: [u64; 3],
    pub(crate) kernel: bool,
}

extern "C" {
    fn dd_kvm_attach(number: u64) -> c_int;
    fn dd_kvm_detach();
    fn dd_kvm_read(kvm: *mut c_void, gpa: u64, to: *mut c_void, len: usize) -> c_int;
    fn dd_kvm_write(kvm: *mut c_void, gpa: u64, from: *const c_void, len: usize) -> c_int;
    fn dd_kvm_writable(kvm: *mut c_void, gfn: u64, pages: u64) -> bool;
    fn dd_pages_alloc(frames: *mut u64, count: usize) -> usize;
    fn dd_page_free(frame: u64);
    fn dd_page_address(frame: u64) -> *mut c_void;
    fn dd_pages_total() -> u64;
    fn dd_shrinker_register() -> c_int;
    fn dd_shrinker_unregister();
    fn dd_queue_create() -> c_int;
    fn dd_queue_destroy();
    fn dd_queue_get() -> *mut bindings::workqueue_struct;
    fn dd_breathe();
}

/// The state the callbacks work on; null before init and after exit.
static HOST: Atomic<*const Host> = Atomic::new(ptr::null());

/// The state, while there is one. It outlives whoever can call this: hooks, netlink family,
/// shrinker and work queue end before it does, and each waits for its callbacks.
pub(crate) fn host() -> Option<&'static Host> {
    // SAFETY: Non-null between `Publication::new` and its drop, of which `new` demands that they
    // enclose all callers.
    unsafe { HOST.load(Acquire).as_ref() }
}

/// As long as it lives, [`host`] gives the state.
pub(crate) struct Publication(());

impl Publication {
    /// Publishes the state.
    ///
    /// # Safety
    ///
    /// The result is dropped before the state is, and whoever calls [`host`] has ended by then.
    pub(crate) unsafe fn new(host: &Host) -> Self {
        HOST.store(host, Release);
        Self(())
    }
}

impl Drop for Publication {
    fn drop(&mut self) {
        HOST.store(ptr::null(), Release);
    }
}

/// The guest's memory could not be reached.
#[derive(Debug)]
pub(crate) struct Fault;

/// The VM whose vCPU runs the current thread.
///
/// # Invariants
///
/// `kvm` is a live `struct kvm`, and stays so as long as the value lives: a vCPU's ioctl holds a
/// reference to it, and holds `kvm->srcu`.
pub(crate) struct Guest<'a> {
    kvm: *mut c_void,
    _call: PhantomData<&'a RawCall>,
}

impl Guest<'_> {
    /// What the VM is registered by.
    fn identity(&self) -> usize {
        self.kvm as usize
    }

    /// Reads guest memory inside one page.
    pub(crate) fn read(&self, gpa: u64, to: &mut [u8]) -> Result<(), Fault> {
        // SAFETY: By the type invariants; `to` has the length given.
        let err = unsafe { dd_kvm_read(self.kvm, gpa, to.as_mut_ptr().cast(), to.len()) };
        if err == 0 {
            Ok(())
        } else {
            Err(Fault)
        }
    }

    /// Writes guest memory inside one page, unless writes to it are not allowed.
    pub(crate) fn write(&self, gpa: u64, from: &[u8]) -> Result<(), Fault> {
        // SAFETY: By the type invariants; `from` has the length given.
        let err = unsafe { dd_kvm_write(self.kvm, gpa, from.as_ptr().cast(), from.len()) };
        if err == 0 {
            Ok(())
        } else {
            Err(Fault)
        }
    }

    /// Whether all these frames may be written, until the call ends.
    pub(crate) fn is_writable(&self, gfn: u64, pages: u64) -> bool {
        // SAFETY: By the type invariants.
        unsafe { dd_kvm_writable(self.kvm, gfn, pages) }
    }
}

/// Allocates pages; fills in frame numbers and returns how many.
pub(crate) fn allocate_frames(frames: &mut [u64]) -> usize {
    // SAFETY: The slice has the length given.
    unsafe { dd_pages_alloc(frames.as_mut_ptr(), frames.len()) }
}

/// Frees a page.
///
/// # Safety
///
/// It came from [`allocate_frames`] and nobody uses it.
pub(crate) unsafe fn free_frame(frame: u64) {
    // SAFETY: By the function's contract.
    unsafe { dd_page_free(frame) };
}

/// The kernel's address of a page.
///
/// # Safety
///
/// It came from [`allocate_frames`] and was not freed.
pub(crate) unsafe fn frame_address(frame: u64) -> *mut u8 {
    // SAFETY: By the function's contract.
    unsafe { dd_page_address(frame).cast() }
}

/// Pages of memory the machine has.
pub(crate) fn total_pages() -> u64 {
    // SAFETY: Reads a number.
    unsafe { dd_pages_total() }
}

/// A point where the scheduler may act, between the steps of a long operation.
pub(crate) fn breathe() {
    // SAFETY: Called in process context without locks.
    unsafe { dd_breathe() };
}

/// A random number that is not zero.
pub(crate) fn random() -> u64 {
    loop {
        // SAFETY: May be called from anywhere.
        let number = unsafe { bindings::get_random_u64() };
        if number != 0 {
            return number;
        }
    }
}

/// KVM calls us, from construction until drop.
pub(crate) struct KvmHooks(());

impl KvmHooks {
    /// Hooks KVM. The state must be published.
    pub(crate) fn attach() -> Result<Self> {
        // SAFETY: Called once, from module init.
        kernel::error::to_result(unsafe { dd_kvm_attach(ddabi::hypercall::NUMBER) })?;
        Ok(Self(()))
    }
}

impl Drop for KvmHooks {
    fn drop(&mut self) {
        // SAFETY: Attached by construction. Waits for all callers.
        unsafe { dd_kvm_detach() };
    }
}

/// Memory reclaim calls us, from construction until drop.
pub(crate) struct Shrinker(());

impl Shrinker {
    /// Registers with memory reclaim. The state must be published.
    pub(crate) fn register() -> Result<Self> {
        // SAFETY: Called once, from module init.
        kernel::error::to_result(unsafe { dd_shrinker_register() })?;
        Ok(Self(()))
    }
}

impl Drop for Shrinker {
    fn drop(&mut self) {
        // SAFETY: Registered by construction. Waits for running callbacks.
        unsafe { dd_shrinker_unregister() };
    }
}

/// The work queue on which dead VMs are taken apart, from construction until drop.
pub(crate) struct WorkQueue(());

impl WorkQueue {
    /// Creates the queue.
    pub(crate) fn create() -> Result<Self> {
        // SAFETY: Called once, from module init.
        kernel::error::to_result(unsafe { dd_queue_create() })?;
        Ok(Self(()))
    }
}

impl Drop for WorkQueue {
    fn drop(&mut self) {
        // SAFETY: Created by construction; KVM's hooks, which queue work, are gone. Waits for all
        // work.
        unsafe { dd_queue_destroy() };
    }
}

/// The VMs by their `struct kvm`. Lookups take no lock.
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
                bindings::GFP_KERNEL,
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
    unsafe fn remove(&self, kvm: usize) -> Option<Arc<Vm>> {
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
        // SAFETY: Whoever could make a `Guest` has ended before the state is dropped.
        unsafe { self.clear() };
        // SAFETY: Initialised, and nobody uses it any more.
        unsafe { bindings::xa_destroy(self.xa.get()) };
    }
}

/// Called by kvm.c for every call with our number.
///
/// # Safety
///
/// `call` is live, and the current thread is a vCPU of its VM inside KVM's run loop.
#[no_mangle]
unsafe extern "C" fn dd_host_call(call: *const RawCall) -> u64 {
    // SAFETY: By the function's contract.
    let call = unsafe { &*call };
    // INVARIANT: By the function's contract.
    let guest = Guest {
        kvm: call.kvm,
        _call: PhantomData,
    };
    match host() {
        Some(host) => crate::dispatch::call(host, &guest, call),
        None => ddabi::hypercall::Outcome::bare(ddabi::hypercall::Status::Stale).into_raw(),
    }
}

/// Called by kvm.c when a VM has no users any more, in atomic context.
///
/// # Safety
///
/// No vCPU of `kvm` runs or will run.
#[no_mangle]
unsafe extern "C" fn dd_host_vm_gone(kvm: *mut c_void) {
    let Some(host) = host() else { return };
    // SAFETY: By the function's contract.
    if let Some(vm) = unsafe { host.vms.table().remove(kvm as usize) } {
        // SAFETY: The queue lives as long as KVM is hooked, which is how we came here.
        let queue = unsafe { Queue::from_raw(dd_queue_get()) };
        // Not queued twice: it was in the table once.
        let _ = queue.enqueue(vm);
    }
}

/// Called by shrinker.c: how many pages could be given back.
#[no_mangle]
extern "C" fn dd_host_shrinkable() -> c_ulong {
    host().map_or(0, |host| crate::shrinker::count(host)) as c_ulong
}

/// Called by shrinker.c: gives pages back and says how many.
#[no_mangle]
extern "C" fn dd_host_shrink(pages: c_ulong) -> c_ulong {
    host().map_or(0, |host| crate::shrinker::scan(host, pages as u64)) as c_ulong
}
