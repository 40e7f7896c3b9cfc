// SPDX-License-Identifier: GPL-2.0-only

//! Mappings and their inodes (`shim/mapping.c`).

use super::opaque;
use core::marker::PhantomData;
use core::ptr::NonNull;
use ddabi::key::FileKey;
use kernel::ffi::c_int;
use kernel::prelude::*;

opaque! {
    RawMapping: "`struct address_space`",
    RawSuperblock: "`struct super_block`",
}

/// Reasons for which pages of a mapping must not be put; mirrors the enum in `guest.h`.
pub(crate) mod mapping_flag {
    /// Not a regular file, or not of a known operations table.
    pub(crate) const FOREIGN: u32 = 1 << 0;
    /// A DAX, encrypted, verity, swap or quota file.
    pub(crate) const SPECIAL: u32 = 1 << 1;
    /// Direct I/O is under way.
    pub(crate) const DIRECT: u32 = 1 << 2;
    /// A write failed.
    pub(crate) const ERROR: u32 = 1 << 3;
    /// The inode is being torn down.
    pub(crate) const EXITING: u32 = 1 << 4;
}

/// The state of a mapping and its inode at one moment; mirrors `struct dd_mapping`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct MappingView {
    /// Never dereferenced.
    sb: *const RawSuperblock,
    /// The inode number.
    pub(crate) inode: u64,
    /// Index of the first page behind the end of the file.
    pub(crate) end: u64,
    /// The generation of the inode.
    generation: u32,
    /// A set of [`mapping_flag`]s.
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

    /// Returns the address of the superblock. It is never dereferenced.
    pub(crate) fn superblock(&self) -> usize {
        self.sb as usize
    }

    /// Returns the key of the file in a filesystem.
    pub(crate) fn key(&self, filesystem: u32) -> FileKey {
        FileKey {
            inode: self.inode,
            filesystem,
            generation: self.generation,
        }
    }

    /// Returns whether any of the flags is set.
    pub(crate) fn any(&self, flags: u32) -> bool {
        self.flags & flags != 0
    }
}

extern "C" {
    fn dd_mapping_view(mapping: *mut RawMapping, view: *mut MappingView);
    fn dd_mapping_learn(mapping: *mut RawMapping) -> bool;
    fn dd_mapping_superblock(mapping: *const RawMapping) -> *const RawSuperblock;
    fn dd_mapping_may_become_dax(mapping: *const RawMapping) -> bool;
    fn dd_mapping_in_direct_io(mapping: *const RawMapping) -> bool;
    fn dd_file_view(fd: u32, view: *mut MappingView) -> c_int;
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

    /// Returns the state of the mapping now.
    pub(crate) fn view(&self) -> MappingView {
        let mut view = MappingView::empty();
        // SAFETY: By the type invariant.
        unsafe { dd_mapping_view(self.0.as_ptr(), &mut view) };
        view
    }

    /// Returns the address of the superblock. It is never dereferenced.
    pub(crate) fn superblock(&self) -> usize {
        // SAFETY: By the type invariant.
        unsafe { dd_mapping_superblock(self.0.as_ptr()) as usize }
    }

    /// Returns whether files of the filesystem may become DAX. Call it only while the file is being
    /// read and after [`Mapping::learn`] returned `true`.
    pub(crate) fn may_become_dax(&self) -> bool {
        // SAFETY: By the type invariant; filesystems with known tables keep their device while
        // they are mounted.
        unsafe { dd_mapping_may_become_dax(self.0.as_ptr()) }
    }

    /// Returns whether direct I/O is under way on the file.
    pub(crate) fn in_direct_io(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { dd_mapping_in_direct_io(self.0.as_ptr()) }
    }

    /// Returns whether the operations table of the mapping is one of those whose files are cached.
    /// Process context.
    pub(crate) fn learn(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { dd_mapping_learn(self.0.as_ptr()) }
    }
}

/// Returns the view of the mapping behind a file descriptor of the running task.
pub(crate) fn file_view(descriptor: u32) -> Result<MappingView> {
    let mut view = MappingView::empty();
    // SAFETY: The shim checks the descriptor.
    kernel::error::to_result(unsafe { dd_file_view(descriptor, &mut view) })?;
    Ok(view)
}
