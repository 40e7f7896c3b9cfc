// SPDX-License-Identifier: GPL-2.0-only

//! Writes of which several are under way at the same time.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsRawFd as _, RawFd},
        unix::fs::FileExt as _,
    },
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use io_uring::{IoUring, opcode, types};
use libc::{SYS_io_destroy, SYS_io_getevents, SYS_io_setup, SYS_io_submit, c_long, syscall};
use rustix::fs::{Advice, fadvise};

/// Number of writes in a queue.
const DEPTH: usize = 4;

/// The interface for the writes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Queue {
    /// io_uring.
    Ring,
    /// io_submit.
    Aio,
}

/// `struct iocb`.
#[repr(C)]
struct Control {
    data: u64,
    key: u32,
    flags: u32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    len: u64,
    offset: i64,
    reserved: u64,
    more_flags: u32,
    event: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    control: u64,
    result: i64,
    result_too: i64,
}

const PWRITE: u16 = 1;

impl Queue {
    /// Writes bytes in pieces of whole `unit`s, all of them at the same time.
    pub(crate) fn write(
        self,
        file: &File,
        bytes: &[u8],
        offset: u64,
        unit: usize,
    ) -> io::Result<()> {
        let piece = bytes.len().div_ceil(DEPTH).next_multiple_of(unit).max(unit);
        let starts = (0..).step_by(piece);
        let pieces: Vec<_> = starts
            .zip(bytes.chunks(piece))
            .map(|(start, bytes)| (offset + start as u64, bytes))
            .collect();
        match self {
            Self::Ring => ring(file.as_raw_fd(), &pieces),
            Self::Aio => aio(file.as_raw_fd(), &pieces),
        }
    }

    /// Does the same while another thread reads the range and drops the pages.
    pub(crate) fn write_beside_reader(
        self,
        (file, reader): (&File, &File),
        bytes: &[u8],
        offset: u64,
        unit: usize,
    ) -> io::Result<()> {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut page = [0; 4096];
                while !done.load(Ordering::Relaxed) {
                    // It may read old or new content, which is not checked.
                    let _ = reader.read_at(&mut page, offset);
                    let _ = fadvise(reader, offset, None, Advice::DontNeed);
                }
            });
            let written = self.write(file, bytes, offset, unit);
            done.store(true, Ordering::Relaxed);
            written
        })
    }
}

fn ring(file: RawFd, pieces: &[(u64, &[u8])]) -> io::Result<()> {
    let mut ring = IoUring::new(DEPTH as u32)?;
    for (offset, bytes) in pieces {
        // Pieces are far below 4 GiB.
        let write = opcode::Write::new(types::Fd(file), bytes.as_ptr(), bytes.len() as u32);
        let write = write.offset(*offset).build().user_data(bytes.len() as u64);
        // SAFETY: the bytes stay borrowed until all writes have been waited for.
        unsafe { ring.submission().push(&write) }.map_err(io::Error::other)?;
    }
    through(|| ring.submit_and_wait(pieces.len()))?;
    let mut ended = 0;
    for done in ring.completion() {
        ended += 1;
        judge(done.result().into(), done.user_data())?;
    }
    all(ended, pieces.len())
}

fn aio(file: RawFd, pieces: &[(u64, &[u8])]) -> io::Result<()> {
    let controls: Vec<Control> = pieces
        .iter()
        .map(|(offset, bytes)| Control {
            data: bytes.len() as u64,
            key: 0,
            flags: 0,
            opcode: PWRITE,
            priority: 0,
            // Descriptors are not negative, and offsets are far below 2^63.
            file: file as u32,
            buffer: bytes.as_ptr().expose_provenance() as u64,
            len: bytes.len() as u64,
            offset: *offset as i64,
            reserved: 0,
            more_flags: 0,
            event: 0,
        })
        .collect();
    let pointers: Vec<*const Control> = controls.iter().map(std::ptr::from_ref).collect();
    let mut events = [Event::default(); DEPTH];
    let mut context: usize = 0;
    let count = pieces.len() as c_long;
    // SAFETY: the kernel writes one word.
    returned(unsafe { syscall(SYS_io_setup, DEPTH as c_long, &raw mut context) })?;
    // SAFETY: the kernel reads as many pointers and what they point to, all of which lives on.
    let submitted = returned(unsafe { syscall(SYS_io_submit, context, count, pointers.as_ptr()) });
    let wanted = usize::try_from(*submitted.as_ref().unwrap_or(&0)).unwrap_or(0);
    let mut ended = 0;
    let mut collected = Ok(());
    // A signal ends the call early with the existing events.
    while ended < wanted && collected.is_ok() {
        let room = &mut events[ended..wanted];
        let got = through(|| {
            let no_limit = std::ptr::null::<libc::timespec>();
            // SAFETY: the kernel writes at most as many events as the buffer can hold.
            returned(unsafe {
                syscall(
                    SYS_io_getevents,
                    context,
                    room.len() as c_long,
                    room.len() as c_long,
                    room.as_mut_ptr(),
                    no_limit,
                )
            })
        });
        collected = got.map(|got| ended += got as usize);
    }
    // SAFETY: the context is not used any more. The call waits for requests in flight.
    returned(unsafe { syscall(SYS_io_destroy, context) })?;
    submitted?;
    collected?;
    for event in &events[..ended] {
        judge(event.result, event.data)?;
    }
    all(ended, pieces.len())
}

/// Repeats a call that was interrupted by a signal, or by freezing and thawing of tasks.
fn through<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn returned(value: c_long) -> io::Result<c_long> {
    match value {
        ..0 => Err(io::Error::last_os_error()),
        value => Ok(value),
    }
}

/// Returns an error unless a write has the wanted result.
fn judge(result: i64, wanted: u64) -> io::Result<()> {
    match u64::try_from(result) {
        Ok(done) if done == wanted => Ok(()),
        Ok(done) => Err(io::Error::other(format!("{done} bytes, not {wanted}"))),
        // A negative result is the negated number of an error.
        Err(_) => Err(io::Error::from_raw_os_error(-result as i32)),
    }
}

fn all(ended: usize, wanted: usize) -> io::Result<()> {
    match ended == wanted {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "{ended} of {wanted} writes ended"
        ))),
    }
}
