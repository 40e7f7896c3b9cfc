// SPDX-License-Identifier: GPL-2.0-only

//! KVM: its hooks, the calls of guests, and the memory of guests (`shim/kvm.c`).

use core::ffi::c_void;
use core::marker::PhantomData;
use ddabi::PAGE_SIZE;
use kernel::prelude::*;

extern "C" {
    fn dd_kvm_attach(number: u64) -> c_int;
    fn dd_kvm_detach();
    fn dd_kvm_grab_page(
        kvm: *mut c_void,
        gfn: u64,
        page: *mut *mut c_void,
        writable: *mut bool,
    ) -> c_int;
    fn dd_kvm_release_page(page: *mut c_void);
    fn dd_kvm_read(page: *mut c_void, offset: usize, to: *mut c_void, len: usize) -> c_int;
    fn dd_kvm_write(kvm: *mut c_void, gpa: u64, from: *const c_void, len: usize) -> c_int;
    fn dd_kvm_fill(kvm: *mut c_void, gfn: u64, frames: *const u64, count: usize) -> c_int;
    fn dd_kvm_present(kvm: *mut c_void, gfn: u64, count: u64) -> bool;
    fn dd_kvm_writable(kvm: *mut c_void, gfn: u64, pages: u64) -> bool;
}

/// Registers of a call; mirrors `struct dd_call`.
#[repr(C)]
pub(crate) struct RawCall {
    kvm: *mut c_void,
    key: u64,
    pub(crate) gpa: u64,
    pub(crate) zero: [u64; 3],
    /// The number of vCPUs of the VM.
    vcpus: u32,
    pub(crate) kernel: bool,
}

/// Reason for which the guest's memory could not be accessed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// The VM has no memory there, or none that the host may access.
    NoMemory,
    /// The page is not in the host's memory at the moment.
    Absent,
}

impl Fault {
    /// Converts the return value of a shim.
    fn check(err: c_int) -> Result<(), Self> {
        match err {
            0 => Ok(()),
            err if err == EAGAIN.to_errno() => Err(Self::Absent),
            _ => Err(Self::NoMemory),
        }
    }
}

/// The VM that makes the call: the current thread runs one of its vCPUs. Gives access to its
/// memory.
///
/// # Invariants
///
/// `kvm` is a live `struct kvm`, and stays so as long as the value lives: a vCPU's ioctl holds a
/// reference to it, and holds `kvm->srcu`.
pub(crate) struct CallingVm<'a> {
    kvm: *mut c_void,
    key: u64,
    vcpus: u32,
    _call: PhantomData<&'a RawCall>,
}

impl<'a> CallingVm<'a> {
    /// Returns the VM that makes a call.
    ///
    /// # Safety
    ///
    /// The current thread is a vCPU of that VM inside KVM's run loop, until the call ends.
    pub(crate) unsafe fn of(call: &'a RawCall) -> Self {
        // INVARIANT: By the function's contract.
        Self {
            kvm: call.kvm,
            key: call.key,
            vcpus: call.vcpus,
            _call: PhantomData,
        }
    }
}

impl CallingVm<'_> {
    /// Returns the number that identifies the VM while it exists.
    pub(super) const fn key(&self) -> usize {
        self.key as usize
    }

    /// Returns the number of its vCPUs.
    pub(crate) const fn vcpus(&self) -> u32 {
        self.vcpus
    }

    /// Returns a page of the guest, to be read. Does not wait for a page that is swapped out.
    pub(crate) fn page(&self, gfn: u64) -> Result<GuestPage, Fault> {
        let mut page = core::ptr::null_mut();
        let mut next_is_writable = false;
        // SAFETY: By the type invariants; both results are written to variables of their types.
        let err = unsafe { dd_kvm_grab_page(self.kvm, gfn, &mut page, &mut next_is_writable) };
        Fault::check(err)?;
        // INVARIANT: The call succeeded, so that `page` has a reference of its own.
        Ok(GuestPage {
            page,
            next_is_writable,
        })
    }

    /// Copies consecutive frames of the guest into pages of the host. Does not wait for frames that
    /// are swapped out. If one cannot be copied, the content of all pages is undefined.
    ///
    /// # Safety
    ///
    /// `frames` came from [`allocate`](super::page::allocate), and no other task uses them.
    pub(crate) unsafe fn fill(&self, gfn: u64, frames: &[u64]) -> Result<(), Fault> {
        // SAFETY: By the type invariants and the function's contract; the slice has that length.
        Fault::check(unsafe { dd_kvm_fill(self.kvm, gfn, frames.as_ptr(), frames.len()) })
    }

    /// Writes guest memory inside one page, if the page is writable and present.
    pub(crate) fn write(&self, gpa: u64, from: &[u8]) -> Result<(), Fault> {
        // SAFETY: By the type invariants; `from` has the length given.
        Fault::check(unsafe { dd_kvm_write(self.kvm, gpa, from.as_ptr().cast(), from.len()) })
    }

    /// Returns whether all these frames are memory that can be written without waiting.
    pub(crate) fn is_present(&self, gfn: u64, pages: u64) -> bool {
        // SAFETY: By the type invariants.
        unsafe { dd_kvm_present(self.kvm, gfn, pages) }
    }

    /// Returns whether all these frames may be written until the call ends.
    pub(crate) fn is_writable(&self, gfn: u64, pages: u64) -> bool {
        // SAFETY: By the type invariants.
        unsafe { dd_kvm_writable(self.kvm, gfn, pages) }
    }
}

/// A page of a guest.
///
/// # Invariants
///
/// `page` is a page of memory, to which this value has a reference.
pub(crate) struct GuestPage {
    page: *mut c_void,
    next_is_writable: bool,
}

impl GuestPage {
    /// Returns whether the frame that follows is known to be memory which may be written until the
    /// call ends, and which can be written without waiting at the moment.
    pub(crate) const fn is_next_writable(&self) -> bool {
        self.next_is_writable
    }

    /// Reads from the page, which the guest may write at the same time.
    pub(crate) fn read(&self, offset: usize, to: &mut [u8]) -> Result<(), Fault> {
        if to.len() > PAGE_SIZE || offset > PAGE_SIZE - to.len() {
            return Err(Fault::NoMemory);
        }
        // SAFETY: By the type invariants; the range is inside of the page, as checked above, and
        // `to` has the length given.
        Fault::check(unsafe { dd_kvm_read(self.page, offset, to.as_mut_ptr().cast(), to.len()) })
    }
}

impl Drop for GuestPage {
    fn drop(&mut self) {
        // SAFETY: By the type invariants; the reference is not used any more.
        unsafe { dd_kvm_release_page(self.page) };
    }
}

/// The hooks in KVM, which are attached until this is dropped.
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
