// SPDX-License-Identifier: GPL-2.0-only

//! Pages change their frames while they are in the page cache: their frames are taken out of use,
//! they are migrated to another NUMA node, and large folios are split. The content that arrives at
//! the host afterwards is the file's.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::Path,
    ptr,
};

use anyhow::{Context as _, Result, ensure};
use ddhelper::churn::PAGE;
use memmap2::{Advice, Mmap};

use super::{kept::Kept, let_go};

const PAGES: usize = 64;
/// Number of pages whose frames are taken out of use, for as long as the kernel runs.
const RETIRED: usize = 8;
/// Maximum number of attempts to migrate all pages. The kernel does not migrate a page that another
/// task uses at that moment.
const TIMES: usize = 50;
/// The caller, for `move_pages`.
const OWN: libc::pid_t = 0;
/// Flag of `move_pages` that moves pages that no other process maps.
const MPOL_MF_MOVE: libc::c_int = 1 << 1;
/// Flags of `/proc/kpageflags`: the first page of a compound one, and the others.
const COMPOUND: u64 = 1 << 15 | 1 << 16;
/// The bits of `/proc/self/pagemap` with the number of the frame.
const FRAME: u64 = (1 << 55) - 1;

pub(super) fn frames(dir: &Path) -> Result<u64> {
    let kept = Kept::create(dir, "frames", PAGES)?;
    let mut sum = kept.stays("frames were taken out of use", || retire(&kept.file))?;
    sum += kept.stays("migration", || migrate(&kept.file))?;
    Ok(sum + split(dir)?)
}

/// Maps a file with all of its pages.
fn map(file: &File) -> Result<Mmap> {
    // SAFETY: no other task changes the file.
    let map = unsafe { Mmap::map(file)? };
    map.advise(Advice::PopulateRead)?;
    Ok(map)
}

/// Makes the kernel migrate pages from their frames.
fn retire(file: &File) -> Result<()> {
    let map = map(file)?;
    let before = numbers(&map)?;
    for page in 0..RETIRED {
        let start = map[page * PAGE..].as_ptr().cast_mut().cast();
        // SAFETY: the page is mapped, and migration keeps its content.
        let done = unsafe { libc::madvise(start, PAGE, libc::MADV_SOFT_OFFLINE) };
        ensure!(done == 0, std::io::Error::last_os_error());
    }
    map.advise(Advice::PopulateRead)?;
    let moved = differences(&before, &numbers(&map)?);
    ensure!(moved >= RETIRED, "{moved} pages have other frames");
    drop(map);
    let_go(file)
}

/// Migrates each page to the other node.
fn migrate(file: &File) -> Result<()> {
    let map = map(file)?;
    let before = nodes(&map, None)?;
    let others: Vec<i32> = before.iter().map(|node| 1 - node).collect();
    for _ in 0..TIMES {
        if nodes(&map, Some(&others))? == others {
            drop(map);
            return let_go(file);
        }
    }
    anyhow::bail!(
        "pages do not migrate from {before:?}: {:?}",
        nodes(&map, None)?
    )
}

/// Migrates the pages of a mapping to nodes, if there are any. Returns the nodes of the pages, or
/// the negative error of a page that was not migrated.
fn nodes(map: &Mmap, to: Option<&[i32]>) -> Result<Vec<i32>> {
    let pages: Vec<*const u8> = map.chunks(PAGE).map(<[u8]>::as_ptr).collect();
    let mut found = vec![0; pages.len()];
    let to = to.map_or(ptr::null(), <[i32]>::as_ptr);
    // SAFETY: the three arrays have an element for each page, and migration keeps their content.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            OWN,
            pages.len(),
            pages.as_ptr(),
            to,
            found.as_mut_ptr(),
            MPOL_MF_MOVE,
        )
    };
    ensure!(done >= 0, std::io::Error::last_os_error());
    Ok(found)
}

/// Splits the large folios that a write has made, before the host gets any page of the file.
fn split(dir: &Path) -> Result<u64> {
    let kept = Kept::create(dir, "frames.split", PAGES)?;
    let map = map(&kept.file)?;
    ensure!(compound(&map)? > 0, "there is no large folio");
    let path = kept.path.display();
    let request = format!("{path},0x0,{PAGES:#x},0");
    fs::write("/sys/kernel/debug/split_huge_pages", request).context("cannot split folios")?;
    map.advise(Advice::PopulateRead)?;
    let left = compound(&map)?;
    ensure!(left == 0, "{left} pages are in large folios");
    drop(map);
    let_go(&kept.file)?;
    kept.look("folios were split", kept.most())
}

/// Returns the numbers of the frames of a mapping.
fn numbers(map: &Mmap) -> Result<Vec<u64>> {
    let first = map.as_ptr() as usize / PAGE;
    let entries = words("/proc/self/pagemap", first as u64, map.len() / PAGE)?;
    Ok(entries.into_iter().map(|entry| entry & FRAME).collect())
}

/// Returns the number of pages that are part of a large folio.
fn compound(map: &Mmap) -> Result<usize> {
    let flags = numbers(map)?.into_iter().map(|number| {
        let flags = words("/proc/kpageflags", number, 1)?;
        Ok(flags[0] & COMPOUND != 0)
    });
    let flags: Vec<bool> = flags.collect::<Result<_>>()?;
    Ok(flags.into_iter().filter(|large| *large).count())
}

/// Reads words of eight bytes from a file of the kernel.
fn words(path: &str, first: u64, count: usize) -> Result<Vec<u64>> {
    let mut bytes = vec![0; count * 8];
    File::open(path)?.read_exact_at(&mut bytes, first * 8)?;
    let words = bytes.chunks_exact(8).map(|word| {
        let word = word.try_into().context("a word has eight bytes")?;
        Ok(u64::from_ne_bytes(word))
    });
    words.collect()
}

fn differences(one: &[u64], other: &[u64]) -> usize {
    one.iter().zip(other).filter(|(a, b)| a != b).count()
}
