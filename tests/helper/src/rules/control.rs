// SPDX-License-Identifier: GPL-2.0

//! System calls that no crate of ours offers: asynchronous writes, and what ext4 does to
//! single files.

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd as _, RawFd},
    ptr,
};

/// `struct iocb` of `linux/aio_abi.h`, little-endian.
#[repr(C)]
#[derive(Default)]
struct Request {
    data: u64,
    key: u32,
    rw_flags: i32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event: u32,
}

/// `struct io_event` of the same.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    request: u64,
    result: i64,
    result2: i64,
}

const WRITE: u16 = 1;

/// `struct move_extent` of `linux/ext4.h`, in blocks.
#[repr(C)]
struct MoveExtent {
    reserved: u32,
    donor: u32,
    start: u64,
    donor_start: u64,
    len: u64,
    moved: u64,
}

/// `EXT4_IOC_MOVE_EXT`.
const MOVE_EXTENT: libc::Ioctl = libc::_IOWR::<MoveExtent>(b'f' as u32, 15);

/// A context for asynchronous requests.
pub(super) struct Queue(libc::c_ulong);

impl Queue {
    pub(super) fn new() -> io::Result<Self> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes the context's number.
        check(unsafe { libc::syscall(libc::SYS_io_setup, 1, &raw mut context) })?;
        Ok(Self(context))
    }

    /// Writes to the beginning of a file. Returns the number of bytes that were written, once
    /// they are.
    pub(super) fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        let mut request = Request {
            opcode: WRITE,
            file: descriptor(file),
            buffer: bytes.as_ptr().addr() as u64,
            bytes: bytes.len() as u64,
            ..Request::default()
        };
        let mut requests = [&raw mut request];
        // SAFETY: the request and the bytes it names outlive it: its end is waited for.
        check(unsafe { libc::syscall(libc::SYS_io_submit, self.0, 1, requests.as_mut_ptr()) })?;
        let mut event = Event::default();
        let forever = ptr::null::<libc::timespec>();
        loop {
            // SAFETY: there is room for one event.
            let got = check(unsafe {
                libc::syscall(
                    libc::SYS_io_getevents,
                    self.0,
                    1,
                    1,
                    &raw mut event,
                    forever,
                )
            });
            match got {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(_) => break,
            }
        }
        match usize::try_from(event.result) {
            Ok(written) => Ok(written),
            Err(_) => Err(io::Error::from_raw_os_error(-event.result as i32)),
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: no request is on its way.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

/// Gives a file another generation, as `chattr -v` does.
pub(super) fn set_generation(file: &File, generation: u32) -> io::Result<()> {
    // The kernel reads 32 bits, whatever the number of the request says.
    let generation = libc::c_long::from(generation);
    // SAFETY: the kernel reads the number.
    let result = unsafe {
        libc::ioctl(
            file.as_raw_fd(),
            libc::FS_IOC_SETVERSION,
            &raw const generation,
        )
    };
    check(result.into()).map(drop)
}

/// Swaps the blocks below the first `blocks` of two files, and keeps the first one's content.
/// Returns how many were.
pub(super) fn take_blocks(file: &File, donor: &File, blocks: u64) -> io::Result<u64> {
    let mut extent = MoveExtent {
        reserved: 0,
        donor: descriptor(donor),
        start: 0,
        donor_start: 0,
        len: blocks,
        moved: 0,
    };
    // SAFETY: the structure is what the kernel reads and writes.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), MOVE_EXTENT, &raw mut extent) };
    check(result.into())?;
    Ok(extent.moved)
}

fn descriptor(file: &File) -> u32 {
    let raw: RawFd = file.as_raw_fd();
    raw.unsigned_abs()
}

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}
