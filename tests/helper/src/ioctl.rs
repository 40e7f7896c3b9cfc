// SPDX-License-Identifier: GPL-2.0-only

//! The ioctls of ext4 and XFS that exchange, share or mark extents, or change a whole filesystem.

use std::{
    fs::{File, Metadata},
    io,
    os::{
        fd::{AsFd, AsRawFd as _},
        unix::fs::MetadataExt as _,
    },
};

use rustix::ioctl::{NoArg, Opcode, Setter, Updater, ioctl, opcode};

/// `struct move_extent` of ext4.
#[repr(C)]
#[derive(Default)]
struct MoveExtent {
    reserved: u32,
    donor: u32,
    start: u64,
    donor_start: u64,
    len: u64,
    moved: u64,
}

/// `struct xfs_exchange_range`.
#[repr(C)]
#[derive(Default)]
struct ExchangeRange {
    file: i32,
    pad: u32,
    offset: u64,
    other_offset: u64,
    len: u64,
    flags: u64,
}

/// `struct xfs_commit_range`, which ends in the state of the other file that `XFS_IOC_START_COMMIT`
/// has noted.
#[repr(C)]
struct CommitRange {
    range: ExchangeRange,
    noted: [u64; 6],
}

/// `struct xfs_bstime`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct XfsTime {
    seconds: i64,
    nanoseconds: i32,
}

/// `struct xfs_bstat`, of which the kernel compares the two times that are named here.
#[repr(C)]
#[derive(Default)]
struct XfsStat {
    before: [u64; 5],
    accessed: XfsTime,
    modified: XfsTime,
    changed: XfsTime,
    behind: [u64; 6],
}

/// `struct xfs_swapext`.
#[repr(C)]
struct SwapExtents {
    version: i64,
    target: i64,
    other: i64,
    offset: i64,
    len: i64,
    pad: [u8; 16],
    stat: XfsStat,
}

/// `struct file_clone_range`.
#[repr(C)]
struct CloneRange {
    source: i64,
    offset: u64,
    len: u64,
    to: u64,
}

/// `struct file_dedupe_range` with one `file_dedupe_range_info`.
#[repr(C)]
struct Dedupe {
    offset: u64,
    len: u64,
    count: u16,
    reserved: [u16; 3],
    file: i64,
    to: u64,
    shared: u64,
    status: i32,
    reserved_too: u32,
}

/// `struct fsverity_enable_arg`.
#[repr(C)]
#[derive(Default)]
struct EnableVerity {
    version: u32,
    algorithm: u32,
    block: u32,
    salt_len: u32,
    salt: u64,
    signature_len: u32,
    reserved: u32,
    signature: u64,
    reserved_too: [u64; 11],
}

/// `struct ext4_tune_sb_params`, of which only the maximum number of mounts is set.
#[repr(C)]
struct Tune {
    set: u32,
    interval: u32,
    errors: u16,
    mounts: u16,
    max_mounts: u16,
    stride: u16,
    others: [u64; 27],
}

/// `struct fsuuid`, behind the head that the number of the ioctl counts.
#[repr(C)]
struct Uuid {
    len: u32,
    flags: u32,
    uuid: [u8; 16],
}

const MIGRATE: Opcode = opcode::none(b'f', 9);
const ALLOCATE_DELAYED: Opcode = opcode::none(b'f', 12);
const PRECACHE_EXTENTS: Opcode = opcode::none(b'f', 18);
const CLEAR_EXTENT_CACHE: Opcode = opcode::none(b'f', 40);
const CHECKPOINT: Opcode = opcode::write::<u32>(b'f', 43);
const SET_UUID: Opcode = opcode::write::<[u32; 2]>(b'f', 44);
const TUNE: Opcode = opcode::write::<Tune>(b'f', 46);
const SET_LABEL: Opcode = opcode::write::<[u8; 256]>(0x94, 50);
const MOVE_EXT: Opcode = opcode::read_write::<MoveExtent>(b'f', 15);
const SET_GENERATION: Opcode = opcode::write::<i64>(b'f', 4);
const SWAP_BOOT: Opcode = opcode::none(b'f', 17);
const ENABLE_VERITY: Opcode = opcode::write::<EnableVerity>(b'f', 133);
const EXCHANGE_RANGE: Opcode = opcode::write::<ExchangeRange>(b'X', 129);
const START_COMMIT: Opcode = opcode::read::<CommitRange>(b'X', 130);
const COMMIT_RANGE: Opcode = opcode::write::<CommitRange>(b'X', 131);
const SWAP_EXTENTS: Opcode = opcode::read_write::<SwapExtents>(b'X', 109);
const CLONE_RANGE: Opcode = opcode::write::<CloneRange>(0x94, 13);
/// The size in the number is that of the structure without the elements behind its head.
const DEDUPE: Opcode = opcode::read_write::<[u64; 3]>(0x94, 54);

/// Overwrites the blocks of the journal with zeros.
const ZERO_OUT: u32 = 2;
/// Sets the maximum number of mounts.
const TUNE_MAX_MOUNTS: u32 = 4;

/// Exchanges up to the end of both files, which swap their lengths.
pub(crate) const TO_END: u64 = 1;
/// The files have equal bytes in the range.
const SAME: i32 = 0;

/// Swaps the extents of a range (in blocks) with those of the donor. Returns the number of blocks
/// that were swapped, and the error that prevented the rest.
pub(crate) fn move_extents(
    file: &File,
    donor: &File,
    (start, donor_start, len): (u64, u64, u64),
) -> (u64, io::Result<()>) {
    let mut range = MoveExtent {
        // Descriptors are not negative.
        donor: donor.as_raw_fd() as u32,
        start,
        donor_start,
        len,
        ..MoveExtent::default()
    };
    // SAFETY: the number is that of the structure, which the kernel reads and writes.
    let done = unsafe { ioctl(file, Updater::<MOVE_EXT, _>::new(&mut range)) };
    // This field is written on failure, too.
    (range.moved, done.map_err(Into::into))
}

/// Sets the generation of a file.
pub(crate) fn set_generation(file: &File, generation: u32) -> io::Result<()> {
    let argument = i64::from(generation);
    // SAFETY: the kernel reads four bytes of the eight that the number says.
    Ok(unsafe { ioctl(file, Setter::<SET_GENERATION, _>::new(argument)) }?)
}

/// Swaps the content with the boot loader's inode.
pub(crate) fn swap_boot(file: &File) -> io::Result<()> {
    bare::<SWAP_BOOT>(file)
}

/// Describes the blocks of a file by extents.
pub(crate) fn migrate(file: &File) -> io::Result<()> {
    bare::<MIGRATE>(file)
}

/// Allocates blocks for pages that were written to memory only.
pub(crate) fn allocate_delayed(file: &File) -> io::Result<()> {
    bare::<ALLOCATE_DELAYED>(file)
}

/// Reads the extents of a file into memory.
pub(crate) fn precache_extents(file: &File) -> io::Result<()> {
    bare::<PRECACHE_EXTENTS>(file)
}

/// Drops the extents of a file from memory.
pub(crate) fn clear_extent_cache(file: &File) -> io::Result<()> {
    bare::<CLEAR_EXTENT_CACHE>(file)
}

/// Calls an ioctl that has no argument.
fn bare<const NUMBER: Opcode>(file: &File) -> io::Result<()> {
    // SAFETY: it has no argument.
    Ok(unsafe { ioctl(file, NoArg::<NUMBER>::new()) }?)
}

/// Writes all blocks in the journal of a file's filesystem to their places, and possibly zeros to
/// the journal.
pub(crate) fn checkpoint(file: &File, zeros: bool) -> io::Result<()> {
    let flags = if zeros { ZERO_OUT } else { 0 };
    // SAFETY: the number is that of the structure, which the kernel reads.
    Ok(unsafe { ioctl(file, Setter::<CHECKPOINT, _>::new(flags)) }?)
}

/// Sets the label of a file's filesystem.
pub(crate) fn set_label(file: &File) -> io::Result<()> {
    let mut label = [0; 256];
    label[..5].copy_from_slice(b"label");
    // SAFETY: the number is that of the structure, which the kernel reads.
    Ok(unsafe { ioctl(file, Setter::<SET_LABEL, _>::new(label)) }?)
}

/// Sets the UUID of a file's filesystem.
pub(crate) fn set_uuid(file: &File) -> io::Result<()> {
    let argument = Uuid {
        len: 16,
        flags: 0,
        uuid: [7; 16],
    };
    // SAFETY: the kernel reads the head and the bytes behind it.
    Ok(unsafe { ioctl(file, Setter::<SET_UUID, _>::new(argument)) }?)
}

/// Sets a parameter in the superblock of a file's filesystem.
pub(crate) fn tune(file: &File) -> io::Result<()> {
    let argument = Tune {
        set: TUNE_MAX_MOUNTS,
        interval: 0,
        errors: 0,
        mounts: 0,
        max_mounts: 100,
        stride: 0,
        others: [0; 27],
    };
    // SAFETY: the number is that of the structure, which the kernel reads.
    Ok(unsafe { ioctl(file, Setter::<TUNE, _>::new(argument)) }?)
}

/// Makes a file that is open for reading only a verity file.
pub(crate) fn enable_verity(file: &File, block: u32) -> io::Result<()> {
    let argument = EnableVerity {
        version: 1,
        // SHA-256.
        algorithm: 1,
        block,
        ..EnableVerity::default()
    };
    // SAFETY: the number is that of the structure, which the kernel reads.
    Ok(unsafe { ioctl(file, Setter::<ENABLE_VERITY, _>::new(argument)) }?)
}

/// Exchanges ranges of two files: that of the other one at `to` with that of the file at `offset`.
pub(crate) fn exchange(
    (file, offset): (&File, u64),
    (other, to): (&File, u64),
    len: u64,
    flags: u64,
) -> io::Result<()> {
    let argument = ExchangeRange {
        file: file.as_raw_fd(),
        pad: 0,
        offset,
        other_offset: to,
        len,
        flags,
    };
    // SAFETY: the number is that of the structure, which the kernel reads.
    Ok(unsafe { ioctl(other, Setter::<EXCHANGE_RANGE, _>::new(argument)) }?)
}

/// Exchanges ranges of two files as [`exchange`] does, if the other one has not changed since this
/// function noted its state.
pub(crate) fn commit(
    (file, offset): (&File, u64),
    (other, to): (&File, u64),
    len: u64,
) -> io::Result<()> {
    let mut argument = CommitRange {
        range: ExchangeRange::default(),
        noted: [0; 6],
    };
    // SAFETY: the number is that of the structure, which the kernel writes.
    unsafe { ioctl(other, Updater::<START_COMMIT, _>::new(&mut argument)) }?;
    argument.range = ExchangeRange {
        file: file.as_raw_fd(),
        pad: 0,
        offset,
        other_offset: to,
        len,
        flags: 0,
    };
    // SAFETY: the number is that of the structure, which the kernel reads.
    Ok(unsafe { ioctl(other, Setter::<COMMIT_RANGE, _>::new(argument)) }?)
}

/// Swaps all extents of two files of equal length.
pub(crate) fn swap_extents(target: &File, other: &File) -> io::Result<()> {
    let now: Metadata = target.metadata()?;
    let time = |seconds, nanoseconds: i64| XfsTime {
        seconds,
        // The value is below 10^9.
        nanoseconds: nanoseconds as i32,
    };
    let mut argument = SwapExtents {
        version: 0,
        target: target.as_raw_fd().into(),
        other: other.as_raw_fd().into(),
        offset: 0,
        len: i64::try_from(now.size()).map_err(io::Error::other)?,
        pad: [0; 16],
        stat: XfsStat {
            modified: time(now.mtime(), now.mtime_nsec()),
            changed: time(now.ctime(), now.ctime_nsec()),
            ..XfsStat::default()
        },
    };
    // SAFETY: the number is that of the structure, which the kernel reads.
    Ok(unsafe { ioctl(target, Updater::<SWAP_EXTENTS, _>::new(&mut argument)) }?)
}

/// Makes a file share the blocks of a range of another one.
pub(crate) fn clone_range(
    from: impl AsFd,
    offset: u64,
    len: u64,
    (into, to): (&File, u64),
) -> io::Result<()> {
    let argument = CloneRange {
        source: from.as_fd().as_raw_fd().into(),
        offset,
        len,
        to,
    };
    // SAFETY: the number is that of the structure, which the kernel reads.
    Ok(unsafe { ioctl(into, Setter::<CLONE_RANGE, _>::new(argument)) }?)
}

/// Makes two files share a range if its bytes are equal. Returns the number of shared bytes.
pub(crate) fn dedupe(
    (from, offset): (&File, u64),
    (with, to): (&File, u64),
    len: u64,
) -> io::Result<u64> {
    let mut argument = Dedupe {
        offset,
        len,
        count: 1,
        reserved: [0; 3],
        file: with.as_raw_fd().into(),
        to,
        shared: 0,
        status: SAME,
        reserved_too: 0,
    };
    // SAFETY: the kernel reads and writes the head and one element behind it.
    unsafe { ioctl(from, Updater::<DEDUPE, _>::new(&mut argument)) }?;
    match argument.status {
        SAME => Ok(argument.shared),
        status if status < 0 => Err(io::Error::from_raw_os_error(-status)),
        _ => Ok(0),
    }
}
