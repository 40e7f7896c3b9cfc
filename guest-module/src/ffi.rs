// SPDX-License-Identifier: GPL-2.0

//! Everything C: the shim's functions and structures, and safe wrappers of the kernel's objects.
//!
//! The entry points that C calls are in `entry.rs`.

use core::marker::PhantomData;
use core::ptr::NonNull;
use ddabi::key::FileKey;
use kernel::ffi::{c_char, c_int, c_long, c_uint, c_ulong};
use kernel::prelude::*;
use kernel::sync::atomic::{ordering::Acquire, ordering::Release, Atomic};

/// Why a mapping's pages must not go to the host; mirrors the enum in guest.h.
pub(crate) mod mapping_flag {
    /// Not a regular file of a known operations table.
    pub(crate) const FOREIGN: u32 = 1 << 0;
    /// DAX, encrypted, verity, swap or quota file.
    pub(crate) const SPECIAL: u32 = 1 << 1;
    /// Direct I/O is under way.
    pub(crate) const DIRECT: u32 = 1 << 2;
    /// A write failed.
    pub(crate) const ERROR: u32 = 1 << 3;
    /// The inode is being torn down.
    pub(crate) const EXITING: u32 = 1 << 4;
}

/// A look at a mapping and its inode; mirrors `struct dd_mapping`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct MappingView {
    sb: *const RawSuperblock,
    pub(crate) inode: u64,
    /// Index of the first page beyond the end of the file.
    pub(crate) end: u64,
    generation: u32,
    pub(crate) flags: u32,
}

impl MappingView {
    const fn empty() -> Self {
        Self {
            sb: core::ptr::null(),
            inode: 0,
            end: 0,
            generation: 0,
            flags: 0,
        }
    }

    /// Identity of the superblock: an address that is compared, never followed.
    pub(crate) fn superblock(&self) -> usize {
        self.sb as usize
    }

    /// The file's key in a filesystem instance.
    pub(crate) fn key(&self, filesystem: u32) -> FileKey {
        FileKey {
            inode: self.inode,
            filesystem,
            generation: self.generation,
        }
    }

    /// Whether any of the flags is set.
    pub(crate) fn any(&self, flags: u32) -> bool {
        self.flags & flags != 0
    }
}

/// A look at a folio; mirrors `struct dd_folio`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct FolioView {
    pub(crate) index: u64,
    pub(crate) pfn: u64,
    pub(crate) pages: u32,
    fresh: u32,
    valid: u32,
    frozen: u32,
    refaulted: u32,
}

impl FolioView {
    /// May be filled by us: locked, empty, clean, idle, without private state.
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh != 0
    }

    /// May be given away: up to date, clean, idle, without private state.
    pub(crate) fn is_valid(&self) -> bool {
        self.valid != 0
    }

    /// The kernel counts it to a working set: it came back soon after it had left.
    pub(crate) fn is_refaulted(&self) -> bool {
        self.refaulted != 0
    }

    /// No reference is left: it leaves by reclaim.
    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen != 0
    }
}

/// The kernel's structures, which only C looks into.
macro_rules! opaque {
    ($($name:ident: $what:literal),* $(,)?) => {$(
        #[doc = $what]
        #[repr(C)]
        pub(crate) struct $name {
            _opaque: [u8; 0],
        }
    )*};
}

opaque! {
    RawBatch: "`struct folio_batch`",
    RawCgroup: "`struct cgroup`",
    RawFile: "`struct file`",
    RawFolio: "`struct folio`",
    RawMapping: "`struct address_space`",
    RawSuperblock: "`struct super_block`",
    RawWindow: "`struct readahead_control`",
}

extern "C" {
    fn dd_mapping_view(mapping: *mut RawMapping, view: *mut MappingView);
    fn dd_folio_view(folio: *mut RawFolio, view: *mut FolioView);
    fn dd_folio_mapping(folio: *mut RawFolio) -> *mut RawMapping;
    fn dd_batch_folios(batch: *const RawBatch, folios: *mut *const *mut RawFolio) -> u32;
    fn dd_folio_touch(folio: *mut RawFolio, pages: u32);
    fn dd_folio_zero_tail(folio: *mut RawFolio, first: u32);
    fn dd_mapping_learn(mapping: *mut RawMapping) -> bool;
    fn dd_mapping_superblock(mapping: *const RawMapping) -> *const RawSuperblock;
    fn dd_mapping_may_become_dax(mapping: *const RawMapping) -> bool;
    fn dd_mapping_in_direct_io(mapping: *const RawMapping) -> bool;
    fn dd_ra_window(rac: *const RawWindow, index: *mut u64, pages: *mut u32);
    fn dd_ra_mapping(rac: *const RawWindow) -> *mut RawMapping;
    fn dd_ra_folio(rac: *const RawWindow, index: u64) -> *mut RawFolio;
    fn dd_ra_filled(folio: *mut RawFolio);
    fn dd_ra_original(rac: *mut RawWindow, index: u64, pages: u32);
    fn dd_ra_consume(rac: *mut RawWindow, pages: u32);
    fn dd_ra_widen(rac: *mut RawWindow, pages: u32);
    fn dd_read_original(file: *mut RawFile, folio: *mut RawFolio) -> c_int;
    fn dd_read_filled(folio: *mut RawFolio);
    fn dd_folio_cgroups(folio: *mut RawFolio, ids: *mut u64, max: u32) -> u32;
    fn dd_cgroup_open(path: *const c_char, err: *mut c_int) -> *mut RawCgroup;
    fn dd_cgroup_close(cgroup: *mut RawCgroup);
    fn dd_cgroup_id(cgroup: *const RawCgroup) -> u64;
    fn dd_cgroup_dead(cgroup: *const RawCgroup) -> bool;
    fn dd_cgroup_path(cgroup: *mut RawCgroup, path: *mut c_char, len: usize) -> c_int;
    fn dd_machine_is_kvm_guest() -> bool;
    fn dd_machine_is_confidential() -> bool;
    fn dd_hypercall(nr: c_ulong, address: c_ulong) -> c_long;
    fn dd_irq_save() -> c_ulong;
    fn dd_irq_restore(flags: c_ulong);
    fn dd_preemption_off();
    fn dd_preemption_on();
    fn dd_breathe();
    fn dd_in_task() -> bool;
    fn dd_current() -> c_ulong;
    fn dd_physical(address: *const u8) -> c_ulong;
    fn dd_memory_bytes() -> u64;
    fn dd_file_view(fd: u32, view: *mut MappingView) -> c_int;
    fn dd_worker_start();
    fn dd_worker_kick();
    fn dd_worker_hurry();
    fn dd_worker_stop();
    fn dd_hooks_install(failure: *mut RawHookFailure) -> c_int;
    fn dd_hooks_remove();
    fn dd_settle() -> c_int;
}

/// A folio that the running hook was handed: locked, or with no reference left.
///
/// # Invariants
///
/// The pointer is a folio that cannot be freed while the value lives.
#[derive(Clone, Copy)]
pub(crate) struct Folio<'a>(NonNull<RawFolio>, PhantomData<&'a RawFolio>);

impl Folio<'_> {
    /// # Safety
    ///
    /// `raw` must be a folio that is not freed while the value lives.
    pub(crate) unsafe fn from_raw(raw: *mut RawFolio) -> Option<Self> {
        // INVARIANT: By the function's contract.
        NonNull::new(raw).map(|raw| Self(raw, PhantomData))
    }

    /// The folio as a number: compared, never followed.
    pub(crate) fn address(&self) -> usize {
        self.0.as_ptr() as usize
    }

    /// What it is like now.
    pub(crate) fn view(&self) -> FolioView {
        let mut view = FolioView::default();
        // SAFETY: By the type invariant.
        unsafe { dd_folio_view(self.0.as_ptr(), &mut view) };
        view
    }

    /// The mapping it belongs to.
    pub(crate) fn mapping(&self) -> Option<Mapping<'_>> {
        // SAFETY: By the type invariant; a locked or removed-from folio keeps its mapping while
        // the hook runs.
        unsafe { Mapping::from_raw(dd_folio_mapping(self.0.as_ptr())) }
    }

    /// Has the hypervisor bring in the memory of its first pages, whose content stays.
    pub(crate) fn touch(&self, pages: u32) {
        // SAFETY: By the type invariant; callers hold the lock of a folio under read, and name no
        // more pages than it has.
        unsafe { dd_folio_touch(self.0.as_ptr(), pages) };
    }

    /// Zeroes its pages from `first` on.
    pub(crate) fn zero_tail(&self, first: u32) {
        // SAFETY: By the type invariant; callers hold the lock of a folio under read.
        unsafe { dd_folio_zero_tail(self.0.as_ptr(), first) };
    }

    /// Ids of its cgroup and that one's ancestors, nearest first.
    pub(crate) fn cgroups<'b>(&self, ids: &'b mut [u64]) -> &'b [u64] {
        // SAFETY: By the type invariant; at most `ids.len()` ids are written.
        let count =
            unsafe { dd_folio_cgroups(self.0.as_ptr(), ids.as_mut_ptr(), ids.len() as u32) };
        &ids[..(count as usize).min(ids.len())]
    }

    /// Ends a `read_folio` with the folio up to date.
    pub(crate) fn end_read(self) {
        // SAFETY: By the type invariant; the caller holds the lock and gives it up.
        unsafe { dd_read_filled(self.0.as_ptr()) };
    }
}

/// A mapping that the running hook works on.
///
/// # Invariants
///
/// The pointer is a live mapping with a live inode while the value lives.
#[derive(Clone, Copy)]
pub(crate) struct Mapping<'a>(NonNull<RawMapping>, PhantomData<&'a RawMapping>);

impl Mapping<'_> {
    /// # Safety
    ///
    /// `raw` must be null or a mapping that lives as long as the value.
    pub(crate) unsafe fn from_raw(raw: *mut RawMapping) -> Option<Self> {
        // INVARIANT: By the function's contract.
        NonNull::new(raw).map(|raw| Self(raw, PhantomData))
    }

    /// What it is like now.
    pub(crate) fn view(&self) -> MappingView {
        let mut view = MappingView::empty();
        // SAFETY: By the type invariant.
        unsafe { dd_mapping_view(self.0.as_ptr(), &mut view) };
        view
    }

    /// Identity of its superblock: an address that is compared, never followed.
    pub(crate) fn superblock(&self) -> usize {
        // SAFETY: By the type invariant.
        unsafe { dd_mapping_superblock(self.0.as_ptr()) as usize }
    }

    /// Whether files of its filesystem may be DAX for some time. Only after [`Mapping::learn`]
    /// knew the table, while the file is being read.
    pub(crate) fn may_become_dax(&self) -> bool {
        // SAFETY: By the type invariant; filesystems with known tables keep their device while
        // they are mounted.
        unsafe { dd_mapping_may_become_dax(self.0.as_ptr()) }
    }

    /// Whether direct I/O is under way on the file.
    pub(crate) fn in_direct_io(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { dd_mapping_in_direct_io(self.0.as_ptr()) }
    }

    /// Recognises the mapping's operations table; process context.
    pub(crate) fn learn(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { dd_mapping_learn(self.0.as_ptr()) }
    }
}

/// The folios of a batch that is about to be freed.
///
/// # Safety
///
/// `batch` must be live, with folios that only the caller can free, for the lifetime of the result.
pub(crate) unsafe fn batch_folios<'a>(batch: *const RawBatch) -> impl Iterator<Item = Folio<'a>> {
    let mut folios = core::ptr::null();
    // SAFETY: By the function's contract.
    let count = unsafe { dd_batch_folios(batch, &mut folios) } as usize;
    // SAFETY: The shim answered with the batch's array and its length.
    (0..count).filter_map(move |n| unsafe { Folio::from_raw(*folios.add(n)) })
}

/// A readahead window that a filesystem was asked to read.
///
/// # Invariants
///
/// The pointer is the live window of the running call.
pub(crate) struct Window<'a>(NonNull<RawWindow>, PhantomData<&'a mut RawWindow>);

impl Window<'_> {
    /// # Safety
    ///
    /// `raw` must be the window of a running `readahead` call.
    pub(crate) unsafe fn from_raw(raw: *mut RawWindow) -> Option<Self> {
        // INVARIANT: By the function's contract.
        NonNull::new(raw).map(|raw| Self(raw, PhantomData))
    }

    /// Index of the first page left and number of pages left.
    pub(crate) fn rest(&self) -> (u64, u32) {
        let (mut index, mut pages) = (0, 0);
        // SAFETY: By the type invariant.
        unsafe { dd_ra_window(self.0.as_ptr(), &mut index, &mut pages) };
        (index, pages)
    }

    /// The file's mapping.
    pub(crate) fn mapping(&self) -> Option<Mapping<'_>> {
        // SAFETY: By the type invariant.
        unsafe { Mapping::from_raw(dd_ra_mapping(self.0.as_ptr())) }
    }

    /// The folio at `index`, which must be in the window: locked, with a reference of ours.
    pub(crate) fn folio(&self, index: u64) -> Option<Folio<'_>> {
        // SAFETY: By the type invariant; folios of a window are locked and referenced until
        // they are consumed.
        unsafe { Folio::from_raw(dd_ra_folio(self.0.as_ptr(), index)) }
    }

    /// The folio at `index` is filled: up to date, unlocked, reference dropped.
    pub(crate) fn filled(&mut self, index: u64) {
        // SAFETY: By the type invariant; as for `folio`, and this is its last use.
        unsafe {
            let folio = dd_ra_folio(self.0.as_ptr(), index);
            if !folio.is_null() {
                dd_ra_filled(folio);
            }
        }
    }

    /// Lets the filesystem read `pages` pages from `index` on.
    pub(crate) fn read(&mut self, index: u64, pages: u32) {
        if pages > 0 {
            // SAFETY: By the type invariant; a part of the window that was not read yet.
            unsafe { dd_ra_original(self.0.as_ptr(), index, pages) };
        }
    }

    /// The first `pages` pages left are read.
    pub(crate) fn consume(&mut self, pages: u32) {
        // SAFETY: By the type invariant; the caller passes no more than are left.
        unsafe { dd_ra_consume(self.0.as_ptr(), pages) };
    }

    /// Asks for windows of `pages` pages from now on; 0 for the device's usual size.
    pub(crate) fn widen(&mut self, pages: u32) {
        // SAFETY: By the type invariant.
        unsafe { dd_ra_widen(self.0.as_ptr(), pages) };
    }
}

/// Lets the filesystem read a folio.
///
/// # Safety
///
/// `file` and `folio` must be the arguments of the diverted `read_folio`.
pub(crate) unsafe fn read_original(file: *mut RawFile, folio: *mut RawFolio) -> c_int {
    // SAFETY: By the function's contract.
    unsafe { dd_read_original(file, folio) }
}

/// A reference to a cgroup.
///
/// # Invariants
///
/// The pointer is a cgroup we hold a reference to.
pub(crate) struct Cgroup(NonNull<RawCgroup>);

// SAFETY: Cgroups are reference counted and may be used from any thread.
unsafe impl Send for Cgroup {}
// SAFETY: As above; what is read here is constant or atomic.
unsafe impl Sync for Cgroup {}

impl Cgroup {
    /// The cgroup at a path below the root, such as `/system.slice/web.service`.
    pub(crate) fn open(path: &CStr) -> Result<Self> {
        let mut err = 0;
        // SAFETY: The path is terminated.
        let raw = unsafe { dd_cgroup_open(path.as_char_ptr(), &mut err) };
        kernel::error::to_result(err)?;
        // INVARIANT: The shim took a reference.
        NonNull::new(raw).map(Self).ok_or(ENOENT)
    }

    /// Its id, never reused.
    pub(crate) fn id(&self) -> u64 {
        // SAFETY: By the type invariant.
        unsafe { dd_cgroup_id(self.0.as_ptr()) }
    }

    /// Whether it was removed.
    pub(crate) fn is_dead(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { dd_cgroup_dead(self.0.as_ptr()) }
    }

    /// Its path; the part of `buffer` that was filled.
    pub(crate) fn path<'a>(&self, buffer: &'a mut [u8]) -> &'a [u8] {
        // SAFETY: By the type invariant; at most `buffer.len()` bytes are written.
        unsafe { dd_cgroup_path(self.0.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) };
        let end = buffer.iter().position(|&byte| byte == 0).unwrap_or(0);
        &buffer[..end]
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; the reference is given up.
        unsafe { dd_cgroup_close(self.0.as_ptr()) };
    }
}

/// Proof that interrupts are off on this CPU.
///
/// # Invariants
///
/// Interrupts are off from construction to drop; the value stays on its CPU.
pub(crate) struct InterruptsOff(c_ulong, PhantomData<*mut ()>);

impl InterruptsOff {
    /// Switches interrupts off, or notes that they are.
    pub(crate) fn new() -> Self {
        // SAFETY: Always allowed; `drop` restores what was.
        Self(unsafe { dd_irq_save() }, PhantomData)
    }
}

impl Drop for InterruptsOff {
    fn drop(&mut self) {
        // SAFETY: The flags are those `new` saved on this CPU; guards nest as scopes do.
        unsafe { dd_irq_restore(self.0) };
    }
}

/// Proof that the running task stays on this CPU and no other task runs on it.
///
/// # Invariants
///
/// Preemption is off from construction to drop.
pub(crate) struct PreemptionOff(PhantomData<*mut ()>);

impl PreemptionOff {
    /// Switches preemption off; calls nest.
    pub(crate) fn new() -> Self {
        // SAFETY: Always allowed; `drop` restores what was.
        unsafe { dd_preemption_off() };
        Self(PhantomData)
    }
}

impl Drop for PreemptionOff {
    fn drop(&mut self) {
        // SAFETY: `new` switched it off in this task.
        unsafe { dd_preemption_on() };
    }
}

/// A point where the scheduler may act, between the steps of a long operation. Process context,
/// no locks.
pub(crate) fn breathe() {
    // SAFETY: By the context that is asked for.
    unsafe { dd_breathe() };
}

/// A random number.
pub(crate) fn random() -> u64 {
    // SAFETY: May be called from anywhere.
    unsafe { kernel::bindings::get_random_u64() }
}

/// Makes a hypercall with a request in the block at `block`.
///
/// # Safety
///
/// `block` must be a request page followed by an answer page, physically contiguous, that
/// no other task uses during the call; frames named in the request must be ours to give.
pub(crate) unsafe fn hypercall(number: u64, block: *const u8) -> i64 {
    // SAFETY: By the function's contract; the address is in the kernel's direct mapping.
    unsafe { dd_hypercall(number as c_ulong, dd_physical(block)) as i64 }
}

/// Whether we run under KVM, and whether the host may not see our memory.
pub(crate) fn machine() -> (bool, bool) {
    // SAFETY: Both read feature bits.
    unsafe { (dd_machine_is_kvm_guest(), dd_machine_is_confidential()) }
}

/// Whether we run on behalf of a task rather than in an interrupt.
pub(crate) fn in_task() -> bool {
    // SAFETY: Reads the preemption counter.
    unsafe { dd_in_task() }
}

/// The running task as a number: compared, never followed. Never zero.
pub(crate) fn current_task() -> usize {
    // SAFETY: Reads a per-CPU variable.
    unsafe { dd_current() as usize }
}

/// Bytes of memory of this machine.
pub(crate) fn memory_bytes() -> u64 {
    // SAFETY: Reads statistics.
    unsafe { dd_memory_bytes() }
}

/// The mapping behind a file descriptor of the running task.
pub(crate) fn file_view(descriptor: u32) -> Result<MappingView> {
    let mut view = MappingView::empty();
    // SAFETY: The shim checks the descriptor.
    kernel::error::to_result(unsafe { dd_file_view(descriptor, &mut view) })?;
    Ok(view)
}

/// Mirrors `struct dd_hook_failure`.
#[repr(C)]
struct RawHookFailure {
    symbol: *const c_char,
    why: *const c_char,
}

/// Why we are not attached to the kernel.
pub(crate) struct HookFailure {
    pub(crate) error: Error,
    /// The function that did not fit.
    pub(crate) function: &'static CStr,
    /// In words for an administrator.
    pub(crate) why: &'static CStr,
}

/// Attaches to the kernel, all or nothing.
pub(crate) fn install_hooks() -> Result<(), HookFailure> {
    let mut failure = RawHookFailure {
        symbol: c"?".as_char_ptr(),
        why: c"?".as_char_ptr(),
    };
    // SAFETY: Called from the worker only, which does not overlap itself.
    kernel::error::to_result(unsafe { dd_hooks_install(&mut failure) }).map_err(|error| {
        HookFailure {
            error,
            // SAFETY: A string constant, the shim's or the one above.
            function: unsafe { CStr::from_char_ptr(failure.symbol) },
            // SAFETY: As above.
            why: unsafe { CStr::from_char_ptr(failure.why) },
        }
    })
}

/// Detaches from the kernel and waits until no diverted call is left. Sleeps.
pub(crate) fn remove_hooks() {
    // SAFETY: As for `install_hooks`.
    unsafe { dd_hooks_remove() };
}

/// Waits until changes of files that began before the hooks were attached are over; `EBUSY` if
/// they take too long. Sleeps.
pub(crate) fn settle() -> Result {
    // SAFETY: As for `install_hooks`.
    kernel::error::to_result(unsafe { dd_settle() })
}

/// Starts, hurries and ends the background job, `entry::dd_on_tick`.
pub(crate) struct Worker(());

impl Worker {
    /// Starts the job.
    pub(crate) fn start() -> Self {
        // SAFETY: The job's state was published before.
        unsafe { dd_worker_start() };
        Self(())
    }

    /// Runs the job as soon as possible; any context.
    pub(crate) fn kick() {
        // SAFETY: A stopped job stays stopped.
        unsafe { dd_worker_kick() };
    }

    /// Runs the job soon, but not at once after its last run: for what happens all the time under
    /// load. Any context.
    pub(crate) fn hurry() {
        // SAFETY: As for `kick`.
        unsafe { dd_worker_hurry() };
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // SAFETY: Waits for a running job and keeps it from starting again.
        unsafe { dd_worker_stop() };
    }
}

/// A place for the module's state that C's callbacks can reach.
pub(crate) struct Published<T>(Atomic<*mut T>);

impl<T> Published<T> {
    /// Nothing published.
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(core::ptr::null_mut()))
    }

    /// Publishes `value`.
    ///
    /// # Safety
    ///
    /// `value` must live until [`Published::withdraw`], and callbacks must have ended then.
    pub(crate) unsafe fn publish(&self, value: &T) {
        self.0.store(core::ptr::from_ref(value).cast_mut(), Release);
    }

    /// Nothing is published any more.
    pub(crate) fn withdraw(&self) {
        self.0.store(core::ptr::null_mut(), Release);
    }

    /// What is published. Only for callbacks, see [`Published::publish`].
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: By the contract of `publish`.
        unsafe { self.0.load(Acquire).as_ref() }
    }
}

/// Milliseconds until the job runs again.
pub(crate) type Delay = c_uint;
