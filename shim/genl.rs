// SPDX-License-Identifier: GPL-2.0-only

//! Safe interface to `shim/genl.c`, compiled into both modules (`#[path]`).
//!
//! The module implements [`Control`] for a type and passes the type to [`control!`]. [`Family`]
//! then registers the family for as long as it lives. Handlers run in process context and may
//! sleep.

use ddabi::genl::Attribute;
use kernel::ffi::{c_char, c_int, c_void};
use kernel::prelude::*;

/// The attributes of a request; mirrors `struct dd_genl_args`.
#[repr(C)]
pub(crate) struct Args {
    present: u64,
    capacity: u64,
    floor: u64,
    keep_free: u64,
    promote_free: u64,
    write_budget: u64,
    index_limit: u64,
    vm_id: u32,
    pool_id: u32,
    weight: u32,
    store: u32,
    mode: u32,
    batch: u32,
    file_fd: u32,
    policy: u32,
    ssd_weight: u32,
    device: u32,
    deadline: u32,
    waiting: u32,
    ssd_admit: u32,
    retain: u32,
    name: *const c_char,
    cgroup_path: *const c_char,
    path: *const c_char,
}

macro_rules! getter {
    ($($field:ident: $type:ty = $attribute:ident;)*) => {$(
        /// Returns the attribute of this name, if the request has it.
        #[allow(dead_code, reason = "each module uses its own half")]
        pub(crate) fn $field(&self) -> Option<$type> {
            self.has(Attribute::$attribute).then_some(self.$field)
        }
    )*};
}

impl Args {
    fn has(&self, attribute: Attribute) -> bool {
        self.present & (1 << attribute as u16) != 0
    }

    getter! {
        capacity: u64 = Capacity;
        floor: u64 = Floor;
        keep_free: u64 = KeepFree;
        promote_free: u64 = PromoteFree;
        write_budget: u64 = WriteBudget;
        index_limit: u64 = IndexLimit;
        vm_id: u32 = VmId;
        pool_id: u32 = PoolId;
        weight: u32 = Weight;
        store: u32 = Store;
        mode: u32 = Mode;
        batch: u32 = Batch;
        file_fd: u32 = FileFd;
        policy: u32 = Policy;
        ssd_weight: u32 = SsdWeight;
        device: u32 = Device;
        deadline: u32 = Deadline;
        waiting: u32 = Waiting;
        ssd_admit: u32 = SsdAdmit;
        retain: u32 = Retain;
    }

    /// Returns the name, if the request has one.
    #[allow(dead_code, reason = "each module uses its own half")]
    pub(crate) fn name(&self) -> Option<&CStr> {
        // SAFETY: genl.c sets the pointer to a checked, terminated string inside the request,
        // which outlives the arguments, or to null.
        (!self.name.is_null()).then(|| unsafe { CStr::from_char_ptr(self.name) })
    }

    /// Returns the path of the cgroup, if the request has one.
    #[allow(dead_code, reason = "each module uses its own half")]
    pub(crate) fn cgroup_path(&self) -> Option<&CStr> {
        // SAFETY: As for `name`.
        (!self.cgroup_path.is_null()).then(|| unsafe { CStr::from_char_ptr(self.cgroup_path) })
    }

    /// Returns the path of the device, if the request has one.
    #[allow(dead_code, reason = "each module uses its own half")]
    pub(crate) fn path(&self) -> Option<&CStr> {
        // SAFETY: As for `name`.
        (!self.path.is_null()).then(|| unsafe { CStr::from_char_ptr(self.path) })
    }
}

#[repr(C)]
struct RawMessage {
    _opaque: [u8; 0],
}

extern "C" {
    fn dd_genl_register() -> c_int;
    fn dd_genl_unregister();
    fn dd_genl_put_u32(message: *mut RawMessage, attribute: u16, value: u32) -> c_int;
    fn dd_genl_put_u64(message: *mut RawMessage, attribute: u16, value: u64) -> c_int;
    fn dd_genl_put_bytes(
        message: *mut RawMessage,
        attribute: u16,
        bytes: *const c_void,
        len: usize,
    ) -> c_int;
    fn dd_genl_put_string(
        message: *mut RawMessage,
        attribute: u16,
        text: *const c_char,
        len: usize,
    ) -> c_int;
    fn dd_genl_explain(message: *mut RawMessage, text: *const c_char);
    fn dd_genl_event(pairs: *const u32, count: usize, name: *const c_char, name_len: usize);
}

/// A message under construction.
///
/// # Invariants
///
/// The pointer is the live message that genl.c passed to the running handler.
pub(crate) struct Message(*mut RawMessage);

#[allow(dead_code, reason = "each module uses its own half")]
impl Message {
    /// Appends a 32-bit attribute. Fails with `EMSGSIZE` if the message is full, as all of these
    /// functions do.
    pub(crate) fn put_u32(&mut self, attribute: Attribute, value: u32) -> Result {
        // SAFETY: By the type invariant.
        kernel::error::to_result(unsafe { dd_genl_put_u32(self.0, attribute as u16, value) })
    }

    /// Appends a 64-bit attribute.
    pub(crate) fn put_u64(&mut self, attribute: Attribute, value: u64) -> Result {
        // SAFETY: By the type invariant.
        kernel::error::to_result(unsafe { dd_genl_put_u64(self.0, attribute as u16, value) })
    }

    /// Appends a binary attribute.
    pub(crate) fn put_bytes(&mut self, attribute: Attribute, bytes: &[u8]) -> Result {
        // SAFETY: By the type invariant; the bytes are copied.
        kernel::error::to_result(unsafe {
            dd_genl_put_bytes(self.0, attribute as u16, bytes.as_ptr().cast(), bytes.len())
        })
    }

    /// Appends a string attribute, which is terminated by a zero byte.
    pub(crate) fn put_str(&mut self, attribute: Attribute, text: &[u8]) -> Result {
        // SAFETY: By the type invariant; the bytes are copied.
        kernel::error::to_result(unsafe {
            dd_genl_put_string(self.0, attribute as u16, text.as_ptr().cast(), text.len())
        })
    }

    /// Explains an error to the caller in the extended acknowledgement. Returns the error.
    pub(crate) fn explain(&mut self, text: &'static CStr, error: Error) -> Error {
        // SAFETY: By the type invariant; the text is copied.
        unsafe { dd_genl_explain(self.0, text.as_char_ptr()) };
        error
    }
}

/// The handlers of a module.
pub(crate) trait Control {
    /// Carries out a command. The attributes that it adds to `reply` are the answer.
    fn act(command: u8, args: &Args, reply: &mut Message) -> Result;

    /// Writes the message at `cursor` and advances it. Returns `false` if there is none. After
    /// `EMSGSIZE` this is called again with the same cursor and an empty message.
    fn dump(command: u8, args: &Args, cursor: &mut u64, message: &mut Message) -> Result<bool>;
}

/// Sends an event with 32-bit attributes and a name to the family's multicast group. May sleep.
pub(crate) fn send_event(attributes: &[(Attribute, u32)], name: &[u8]) {
    const MAX: usize = 8;
    let mut pairs = [0u32; 2 * MAX];
    let mut count = 0;
    for (slot, (attribute, value)) in pairs.chunks_exact_mut(2).zip(attributes) {
        slot[0] = u32::from(*attribute as u16);
        slot[1] = *value;
        count += 1;
    }
    // SAFETY: `pairs` has `count` pairs; the name is copied. A registered family is needed: the
    // module sends only while its `Family` lives.
    unsafe { dd_genl_event(pairs.as_ptr(), count, name.as_ptr().cast(), name.len()) };
}

/// The registered family. Handlers may run from its construction to its drop.
pub(crate) struct Family(());

impl Family {
    /// Registers the family. The state that handlers use must be ready.
    pub(crate) fn register() -> Result<Self> {
        // SAFETY: This is called once, from the module's init.
        kernel::error::to_result(unsafe { dd_genl_register() })?;
        Ok(Self(()))
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        // SAFETY: The family was registered by construction. This waits for running handlers.
        unsafe { dd_genl_unregister() };
    }
}

/// Exports the handlers of a [`Control`] type to genl.c.
macro_rules! control {
    ($type:ty) => {
        /// Called by genl.c.
        #[no_mangle]
        extern "C" fn dd_genl_do(
            command: u8,
            args: *const $crate::genl::Args,
            reply: *mut kernel::ffi::c_void,
        ) -> kernel::ffi::c_int {
            // SAFETY: genl.c passes live arguments and a live message.
            unsafe { $crate::genl::act::<$type>(command, args, reply) }
        }

        /// Called by genl.c.
        #[no_mangle]
        extern "C" fn dd_genl_dump(
            command: u8,
            args: *const $crate::genl::Args,
            cursor: *mut u64,
            message: *mut kernel::ffi::c_void,
        ) -> kernel::ffi::c_int {
            // SAFETY: genl.c passes live arguments, a cursor and a live message.
            unsafe { $crate::genl::dump::<$type>(command, args, cursor, message) }
        }
    };
}
pub(crate) use control;

/// # Safety
///
/// `args` and `reply` must be live for the call.
pub(crate) unsafe fn act<C: Control>(command: u8, args: *const Args, reply: *mut c_void) -> c_int {
    // SAFETY: By the function's contract.
    let args = unsafe { &*args };
    // INVARIANT: By the function's contract.
    match C::act(command, args, &mut Message(reply.cast())) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// # Safety
///
/// `args`, `cursor` and `message` must be live for the call.
pub(crate) unsafe fn dump<C: Control>(
    command: u8,
    args: *const Args,
    cursor: *mut u64,
    message: *mut c_void,
) -> c_int {
    // SAFETY: By the function's contract.
    let (args, cursor) = unsafe { (&*args, &mut *cursor) };
    // INVARIANT: By the function's contract.
    match C::dump(command, args, cursor, &mut Message(message.cast())) {
        Ok(more) => c_int::from(more),
        Err(error) => error.to_errno(),
    }
}
