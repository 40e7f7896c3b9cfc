// SPDX-License-Identifier: GPL-2.0-only

//! Cgroups (`shim/cgroup.c`).

use super::opaque;
use core::ptr::NonNull;
use kernel::ffi::{c_char, c_int};
use kernel::prelude::*;

opaque! {
    RawCgroup: "`struct cgroup`",
}

extern "C" {
    fn dd_cgroup_open(path: *const c_char, err: *mut c_int) -> *mut RawCgroup;
    fn dd_cgroup_close(cgroup: *mut RawCgroup);
    fn dd_cgroup_id(cgroup: *const RawCgroup) -> u64;
    fn dd_cgroup_dead(cgroup: *const RawCgroup) -> bool;
    fn dd_cgroup_path(cgroup: *mut RawCgroup, path: *mut c_char, len: usize) -> c_int;
}

/// A reference to a cgroup.
///
/// # Invariants
///
/// The pointer is a cgroup to which this value holds a reference.
pub(crate) struct Cgroup(NonNull<RawCgroup>);

// SAFETY: Cgroups are reference counted and may be used from any thread.
unsafe impl Send for Cgroup {}
// SAFETY: As above; what is read here is constant or atomic.
unsafe impl Sync for Cgroup {}

impl Cgroup {
    /// Returns the cgroup at a path below the root, such as `/system.slice/web.service`.
    pub(crate) fn open(path: &CStr) -> Result<Self> {
        let mut err = 0;
        // SAFETY: The path ends in a zero byte.
        let raw = unsafe { dd_cgroup_open(path.as_char_ptr(), &mut err) };
        kernel::error::to_result(err)?;
        // INVARIANT: The shim took a reference.
        NonNull::new(raw).map(Self).ok_or(ENOENT)
    }

    /// Returns the id of the cgroup. Ids are never reused.
    pub(crate) fn id(&self) -> u64 {
        // SAFETY: By the type invariant.
        unsafe { dd_cgroup_id(self.0.as_ptr()) }
    }

    /// Returns whether the cgroup was removed.
    pub(crate) fn is_dead(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { dd_cgroup_dead(self.0.as_ptr()) }
    }

    /// Writes the path into `buffer` and returns the part of it that was filled.
    pub(crate) fn path<'a>(&self, buffer: &'a mut [u8]) -> &'a [u8] {
        // SAFETY: By the type invariant; at most `buffer.len()` bytes are written.
        unsafe { dd_cgroup_path(self.0.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) };
        let end = buffer.iter().position(|&byte| byte == 0).unwrap_or(0);
        &buffer[..end]
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; the reference is dropped.
        unsafe { dd_cgroup_close(self.0.as_ptr()) };
    }
}
