// SPDX-License-Identifier: GPL-2.0-only

//! Memory for guests.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
};

use anyhow::{Context as _, Result};
use ddabi::PAGE_SIZE;
use memmap2::{MmapMut, MmapOptions};
use rustix::fs::{MemfdFlags, memfd_create};

/// Bytes of a page.
pub(super) const PAGE: usize = PAGE_SIZE;

/// Requests to a userfaultfd (`linux/userfaultfd.h`).
const API: libc::Ioctl = 0xc018_aa3f_u32 as libc::Ioctl;
const REGISTER: libc::Ioctl = 0xc020_aa00_u32 as libc::Ioctl;
const API_VERSION: u64 = 0xaa;
const MODE_MISSING: u64 = 1;

/// The firmware's read-only memory below 1 MiB, which may be mapped and is not RAM of the kernel.
const FIRMWARE: u64 = 0xf_0000;

/// Returns ordinary memory.
pub(super) fn ordinary(pages: usize) -> Result<MmapMut> {
    Ok(MmapMut::map_anon(pages * PAGE)?)
}

/// Returns memory that is mapped twice, for this program and for guests. All its pages are present.
pub(super) fn shared(pages: usize) -> Result<(MmapMut, MmapMut)> {
    let file = File::from(memfd_create("guest", MemfdFlags::CLOEXEC)?);
    file.set_len((pages * PAGE) as u64)?;
    // SAFETY: the file has no name, and this program reads its pages only between two calls of the
    // guests.
    let map = || unsafe { MmapOptions::new().populate().map_mut(&file) };
    Ok((map()?, map()?))
}

/// Memory whose untouched pages are withheld from [`Withheld::begin`] on: a task that accesses one
/// waits for a handler of userfaults, which does not exist.
pub(super) struct Withheld {
    pub(super) memory: MmapMut,
}

impl Withheld {
    /// Returns memory that is not withheld yet.
    pub(super) fn new(pages: usize) -> Result<Self> {
        let memory = ordinary(pages)?;
        // A huge page would be allocated completely at the first access.
        // SAFETY: the range is that of the mapping, and nothing in it changes.
        let advised = unsafe {
            let start = memory.as_ptr().cast_mut().cast();
            libc::madvise(start, memory.len(), libc::MADV_NOHUGEPAGE)
        };
        check(advised).context("madvise")?;
        Ok(Self { memory })
    }

    /// Withholds all untouched pages from now on.
    pub(super) fn begin(&self) -> Result<()> {
        // SAFETY: makes a descriptor, which stays open until the process ends.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) };
        let fd = check(fd.try_into()?).context("userfaultfd")?;
        let mut api = [API_VERSION, 0, 0];
        // SAFETY: `struct uffdio_api` is three words.
        check(unsafe { libc::ioctl(fd, API, api.as_mut_ptr()) }).context("UFFDIO_API")?;
        let start = self.memory.as_ptr() as u64;
        let mut range = [start, self.memory.len() as u64, MODE_MISSING, 0];
        // SAFETY: `struct uffdio_register` is four words, and the range is the mapping's.
        check(unsafe { libc::ioctl(fd, REGISTER, range.as_mut_ptr()) })
            .context("UFFDIO_REGISTER")?;
        Ok(())
    }
}

/// Returns memory that the kernel treats as a device's, mapped by frame number.
pub(super) fn device(pages: usize) -> Result<MmapMut> {
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .custom_flags(libc::O_SYNC)
        .open("/dev/mem")?;
    let mut map = MmapOptions::new();
    // SAFETY: nothing in this program looks at the bytes, and writes to ROM are without effect.
    let mapped = unsafe { map.offset(FIRMWARE).len(pages * PAGE).map_mut(&file) };
    mapped.context("cannot map /dev/mem")
}

/// Makes the kernel swap memory out.
pub(super) fn swap_out(memory: &MmapMut) -> Result<()> {
    // SAFETY: the range is that of the mapping, whose content stays.
    let advised = unsafe {
        let start = memory.as_ptr().cast_mut().cast();
        libc::madvise(start, memory.len(), libc::MADV_PAGEOUT)
    };
    check(advised).context("MADV_PAGEOUT").map(drop)
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
