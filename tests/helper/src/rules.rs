// SPDX-License-Identifier: GPL-2.0-only

//! Sequences of steps that a random churn makes too rarely. Each is made for one rule of the cache,
//! and bytes are wrong after it if the rule is broken.
//!
//! The steps require that no other task uses the filesystem, or reclaims from the cgroup, which is
//! that of this program.

mod atomic;
mod attach;
mod block;
mod change;
mod cut;
mod dax;
mod direct;
mod donor;
mod encrypt;
mod frames;
mod generation;
mod kept;
mod layout;
mod overtake;
mod poison;
mod queued;
mod quota;
mod readonly;
mod realtime;
mod reuse;
mod scrub;
mod shutdown;
mod swap;
mod tail;
mod unmount;
mod whole;
mod zeroes;

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use ddhelper::churn::{PAGE, fill};
use rustix::{
    fs::{Advice, fadvise},
    mount::{MountFlags, UnmountFlags, mount, unmount},
    thread::{CpuSet, sched_setaffinity},
};

/// The place where a rule is tested.
#[derive(Debug, clap::Args)]
pub(crate) struct RuleArguments {
    /// The rule
    rule: Rule,
    /// Mount point of the filesystem
    #[arg(long)]
    mount: PathBuf,
    /// Its device
    #[arg(long)]
    device: String,
    /// Its type
    #[arg(long)]
    fstype: String,
    /// Cgroup (path below the mount) of this program
    #[arg(long)]
    cgroup: String,
}

/// The rules.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Rule {
    /// An atomic write forgets the pages that it replaces
    Atomic,
    /// Changes of a file that were under way when the module was loaded are over before a page is
    /// put
    Attach,
    /// A page of which a block was written is not read from the host any more
    Block,
    /// A page that changed in any of the usual ways is not read from the host any more
    Change,
    /// A folio that was written in part clears its bits
    Cut,
    /// A file that was DAX for some time has the content written then
    Dax,
    /// No page is put while a direct write to its file is under way
    Direct,
    /// A file that gave its blocks away is read from its new ones
    Donor,
    /// No page of an encrypted file is put
    Encrypt,
    /// Pages that have changed their frames are put with their content
    Frames,
    /// Pages put under a generation are not found after changes under another one
    Generation,
    /// Pages stay when their blocks are described in another way
    Layout,
    /// A put in flight does not outlast a change of its page
    Overtake,
    /// A page in a broken frame is not put
    Poison,
    /// No page is put while an asynchronous direct write begins
    Queued,
    /// A quota file has the content that the kernel wrote
    Quota,
    /// Pages stay when their filesystem becomes read-only and writable
    Readonly,
    /// A file on the realtime device has the content written there
    Realtime,
    /// A file finds no page of another one that had its inode
    Reuse,
    /// A file whose extents are repaired is forgotten
    Scrub,
    /// Pages stay when their filesystem is shut down
    Shutdown,
    /// A file that was swapped to has the content on the disk
    Swap,
    /// A folio from the host is zero beyond the end of the file
    Tail,
    /// No page of an unmounted filesystem is found
    Unmount,
    /// Pages stay when their filesystem as a whole is changed
    Whole,
    /// Blocks that the disk filled with zeros are read as zeros
    Zeroes,
}

/// Tests a rule and prints how many bytes were wrong.
pub(crate) fn rule(arguments: &RuleArguments) -> Result<()> {
    let dir = &arguments.mount;
    let (device, fstype) = (&arguments.device, &arguments.fstype);
    let wrong = match arguments.rule {
        Rule::Atomic => atomic::atomic(dir),
        Rule::Attach => attach::attach(dir, device),
        Rule::Block => block::block(dir),
        Rule::Change => change::change(dir),
        Rule::Cut => cut::cut(dir),
        Rule::Dax => dax::dax(dir),
        Rule::Direct => direct::direct(dir),
        Rule::Donor => donor::donor(dir),
        Rule::Encrypt => encrypt::encrypt(dir),
        Rule::Frames => frames::frames(dir),
        Rule::Generation => generation::generation(dir),
        Rule::Layout => layout::layout(dir),
        Rule::Overtake => overtake::overtake(dir, &arguments.cgroup),
        Rule::Poison => poison::poison(dir),
        Rule::Queued => queued::queued(dir, device, fstype),
        Rule::Quota => quota::quota(dir, device, fstype),
        Rule::Readonly => readonly::readonly(dir, device, fstype),
        Rule::Realtime => realtime::realtime(dir),
        Rule::Reuse => reuse::reuse(dir),
        Rule::Scrub => scrub::scrub(dir),
        Rule::Shutdown => shutdown::shutdown(dir, device, fstype),
        Rule::Swap => swap::swap(dir),
        Rule::Tail => tail::tail(dir),
        Rule::Unmount => unmount::unmount(dir, device, fstype),
        Rule::Whole => whole::whole(dir, fstype),
        Rule::Zeroes => zeroes::zeroes(dir),
    }?;
    println!("{wrong}");
    Ok(())
}

/// Creates an empty file for reading and writing.
fn create(dir: &Path, name: &str) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(dir.join(name))
}

/// Returns the bytes of a content.
fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fill(seed, 0, &mut bytes);
    bytes
}

/// Puts the pages of a file, which must be clean and unused.
fn give_away(file: &File) -> Result<()> {
    // A filesystem is cached from its first read on.
    let_go(file)?;
    read(file)?;
    Ok(fadvise(file, 0, None, Advice::DontNeed)?)
}

/// Removes written pages from the page cache, so that they come from disk.
fn let_go(file: &File) -> Result<()> {
    file.sync_data()?;
    Ok(fadvise(file, 0, None, Advice::DontNeed)?)
}

fn read(file: &File) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file.metadata()?.len())?];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Returns the number of bytes of a file that differ from the expected ones.
fn wrong(file: &File, want: &[u8]) -> Result<u64> {
    let found = read(file)?;
    let pairs = found.iter().zip(want);
    let different = pairs.filter(|(found, want)| found != want).count();
    Ok((different + found.len().abs_diff(want.len())) as u64)
}

/// Unmounts a filesystem and mounts it again.
fn remount(dir: &Path, device: &str, fstype: &str) -> Result<()> {
    unmount(dir, UnmountFlags::empty()).context("cannot unmount")?;
    mount(device, dir, fstype, MountFlags::NOATIME, None).context("cannot mount")
}

/// Returns the offset of a page.
const fn at(page: usize) -> u64 {
    (page * PAGE) as u64
}

/// Binds this thread and its children to one processor.
fn stay() -> Result<()> {
    let mut cpus = CpuSet::new();
    cpus.set(0);
    Ok(sched_setaffinity(None, &cpus)?)
}
