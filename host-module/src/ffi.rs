// SPDX-License-Identifier: GPL-2.0

//! Everything C: the shims' functions and what a raw pointer becomes; [`entry`] has the functions
//! that C calls, [`table`] the table of VMs.

mod entry;
mod table;

pub(crate) use table::VmTable;

use crate::host::Host;
use core::ffi::c_void;
use core::marker::PhantomData;
use core::ptr;
use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::atomic::{ordering::Acquire, ordering::Release, Atomic};

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
    fn dd_kvm_fill(kvm: *mut c_void, gfn: u64, frames: *const u64, count: usize) -> c_int;
    fn dd_kvm_present(kvm: *mut c_void, gfn: u64, count: u64) -> bool;
    fn dd_kvm_writable(kvm: *mut c_void, gfn: u64, pages: u64) -> bool;
    fn dd_pages_alloc(frames: *mut u64, count: usize, below_floor: bool) -> usize;
    fn dd_page_free(frame: u64);
    fn dd_page_address(frame: u64) -> *mut c_void;
    fn dd_pages_total() -> u64;
    fn dd_param_max_vms() -> u32;
    fn dd_param_default_weight() -> u32;
    fn dd_pages_spare() -> u64;
    fn dd_shrinker_register() -> c_int;
    fn dd_shrinker_unregister();
    fn dd_reclaim_enter();
    fn dd_reclaim_leave();
    fn dd_oom_register() -> c_int;
    fn dd_oom_unregister();
    fn dd_queue_create() -> c_int;
    fn dd_queue_destroy();
    fn dd_queue_get() -> *mut bindings::workqueue_struct;
    fn dd_breathe();
    fn dd_dying() -> bool;
}

/// The state the callbacks work on; null before init and after exit.
static HOST: Atomic<*const Host> = Atomic::new(ptr::null());

/// The state, while there is one. It outlives all that can call this: hooks, netlink family,
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
    /// The result is dropped before the state is, and no caller of [`host`] runs any more by then.
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

/// Why the guest's memory could not be reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// The VM has no memory there, or none that the host may touch.
    NoMemory,
    /// The page is not in the host's memory at the moment.
    Absent,
}

impl Fault {
    /// What a shim returned.
    fn check(err: c_int) -> Result<(), Self> {
        match err {
            0 => Ok(()),
            err if err == EAGAIN.to_errno() => Err(Self::Absent),
            _ => Err(Self::NoMemory),
        }
    }
}

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

    /// Reads guest memory inside one page, without waiting for it.
    pub(crate) fn read(&self, gpa: u64, to: &mut [u8]) -> Result<(), Fault> {
        // SAFETY: By the type invariants; `to` has the length given.
        Fault::check(unsafe { dd_kvm_read(self.kvm, gpa, to.as_mut_ptr().cast(), to.len()) })
    }

    /// Fills pages of the host from consecutive frames, without waiting for them. If one cannot be
    /// filled, the content of all of them is undefined.
    ///
    /// # Safety
    ///
    /// `frames` came from [`allocate_frames`], and no other task uses them.
    pub(crate) unsafe fn fill(&self, gfn: u64, frames: &[u64]) -> Result<(), Fault> {
        // SAFETY: By the type invariants and the function's contract; the slice has that length.
        Fault::check(unsafe { dd_kvm_fill(self.kvm, gfn, frames.as_ptr(), frames.len()) })
    }

    /// Writes guest memory inside one page, if that is allowed and the page is there.
    pub(crate) fn write(&self, gpa: u64, from: &[u8]) -> Result<(), Fault> {
        // SAFETY: By the type invariants; `from` has the length given.
        Fault::check(unsafe { dd_kvm_write(self.kvm, gpa, from.as_ptr().cast(), from.len()) })
    }

    /// Whether all these frames are memory that can be written without waiting.
    pub(crate) fn is_present(&self, gfn: u64, pages: u64) -> bool {
        // SAFETY: By the type invariants.
        unsafe { dd_kvm_present(self.kvm, gfn, pages) }
    }

    /// Whether all these frames may be written, until the call ends.
    pub(crate) fn is_writable(&self, gfn: u64, pages: u64) -> bool {
        // SAFETY: By the type invariants.
        unsafe { dd_kvm_writable(self.kvm, gfn, pages) }
    }
}

/// Allocates pages; fills in frame numbers and returns how many. Memory beyond what the host can
/// spare is taken only for a tier that is below its floor.
pub(crate) fn allocate_frames(frames: &mut [u64], below_floor: bool) -> usize {
    // SAFETY: The slice has the length given.
    unsafe { dd_pages_alloc(frames.as_mut_ptr(), frames.len(), below_floor) }
}

/// Frees a page.
///
/// # Safety
///
/// It came from [`allocate_frames`] and is not in use.
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

/// The module parameters `max_vms` and `default_weight`.
pub(crate) fn admission_parameters() -> (u32, u32) {
    // SAFETY: Both read a number that does not change after the module was loaded.
    unsafe { (dd_param_max_vms(), dd_param_default_weight()) }
}

/// Pages of the machine that lie idle: free, and beyond those that reclaim keeps free.
pub(crate) fn spare_pages() -> u64 {
    // SAFETY: Reads numbers.
    unsafe { dd_pages_spare() }
}

/// Does something that is done in memory reclaim as well. A kernel that checks its locks learns of
/// it now, not when reclaim first comes here.
pub(crate) fn like_reclaim(work: impl FnOnce()) {
    // SAFETY: Only tells the lock checker; left below.
    unsafe { dd_reclaim_enter() };
    work();
    // SAFETY: Entered above.
    unsafe { dd_reclaim_leave() };
}

/// A point where the scheduler may act, between the steps of a long operation.
pub(crate) fn breathe() {
    // SAFETY: Called in process context without locks.
    unsafe { dd_breathe() };
}

/// Whether the current process is being killed: what it asked for is of no use any more.
pub(crate) fn is_dying() -> bool {
    // SAFETY: Reads flags of the current task.
    unsafe { dd_dying() }
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

/// The kernel calls us before it kills a task for memory, from construction until drop.
pub(crate) struct Rescue(());

impl Rescue {
    /// Registers. The state must be published.
    pub(crate) fn register() -> Result<Self> {
        // SAFETY: Called once, from module init.
        kernel::error::to_result(unsafe { dd_oom_register() })?;
        Ok(Self(()))
    }
}

impl Drop for Rescue {
    fn drop(&mut self) {
        // SAFETY: Registered by construction. Waits for running callbacks.
        unsafe { dd_oom_unregister() };
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
