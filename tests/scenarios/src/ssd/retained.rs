// SPDX-License-Identifier: GPL-2.0-only

//! Pages that stay on a device after a guest has read them.

use anyhow::{Result, ensure};
use ddlab::{Command, FileSpec, Guest, Machine, Target};

use super::{counted, device::Device, read};
use crate::{
    accounting, ddctl,
    stage::{percent, ratio},
};

/// Pages at the end of the file, which are in the page cache after it was read.
const CHANGED: u64 = 64;

/// A filesystem that keeps the data of small files in their inodes.
const INLINE: &str = "/run/inline";

/// Data in an inode change without any folio that becomes dirty. The file is read before the second
/// write, so that its page stays, and not before the third one.
fn inline_data(host: &Machine, guest: &Guest, file: &FileSpec) -> Result<()> {
    let name = &file.path;
    let run = |line: String| guest.run_ok(&Command::shell(line).cgroup(name));
    let image = "/run/inline.img";
    guest.exec_ok(["modprobe", "loop"])?;
    guest.shell(format!(
        "truncate -s 64M {image} && mkfs.ext4 -q -O inline_data -I 256 {image} && mkdir {INLINE} && \
         mount -o loop {image} {INLINE}"
    ))?;
    let write = |text: &str| {
        run(format!(
            "printf {text} | dd of={INLINE}/file conv=notrunc,fsync status=none"
        ))
    };
    let read = || run(format!("cat {INLINE}/file"));
    write("first")?;
    // The module learns of a filesystem when it reads a page.
    for _ in 0..2 {
        guest.drop_caches(false)?;
        read()?;
    }
    guest.drop_caches(false)?;
    let before = counted(host, name)?;
    read()?;
    let kept = counted(host, name)? - before;
    ensure!(kept.hits_retained > 0, "inline data did not stay: {kept:?}");
    for text in ["again", "third"] {
        write(text)?;
        guest.drop_caches(false)?;
        if text == "again" {
            let now = read()?;
            ensure!(now == text, "the file has `{now}` instead of `{text}`");
            guest.drop_caches(false)?;
        }
    }
    let now = read()?;
    ensure!(now == "third", "the file has `{now}` instead of `third`");
    guest.shell(format!("umount {INLINE} && rmdir {INLINE} && rm {image}"))?;
    Ok(())
}

/// Reads a file whose pages are all on a device, and changes some of them. The file has its content
/// of before afterwards.
pub(super) fn check(
    host: &Machine,
    guest: &Guest,
    device: &Device,
    file: &FileSpec,
) -> Result<Vec<Target>> {
    ddctl::run(host, "ssd set --retain on")?;
    // An answer of the host tells the guest; then all pages are put once more, or stay.
    read(guest, file)?;
    read(guest, file)?;
    let (before, was) = (counted(host, &file.path)?, ddctl::counters(guest)?);
    let written = device.stats(host)?.written_pages;
    read(guest, file)?;
    let change = counted(host, &file.path)? - before;
    let skipped = ddctl::counters(guest)?.put_retained - was.put_retained;
    let written = device.stats(host)?.written_pages - written;
    accounting::check(host)?;

    // Changed pages are neither kept nor returned, although the others stay.
    let pages = file.len / 4096;
    let path = format!("/mnt/{}", file.path);
    let part = format!("bs=4k count={CHANGED} status=none");
    let last = pages - CHANGED;
    let copy = "/run/changed";
    guest.shell(format!("dd if={path} of={copy} skip={last} {part}"))?;
    guest.shell(format!(
        "dd if=/dev/zero of={path} seek={last} conv=notrunc,fsync {part}"
    ))?;
    guest.drop_caches(false)?;
    let zeroes = guest.shell(format!(
        "dd if={path} skip={last} {part} | tr -d '\\0' | wc -c"
    ))?;
    ensure!(
        zeroes.trim() == "0",
        "{zeroes} bytes of an older content were read"
    );
    guest.shell(format!(
        "dd if={copy} of={path} seek={last} conv=notrunc,fsync {part}; rm {copy}"
    ))?;
    read(guest, file)?;

    inline_data(host, guest, file)?;

    // Pages that the guest has in its page cache while the setting ends are put like all others.
    ddctl::run(host, "ssd set --retain off")?;
    read(guest, file)?;
    let before = counted(host, &file.path)?;
    read(guest, file)?;
    let exclusive = counted(host, &file.path)? - before;
    ensure!(
        exclusive.hits_retained == 0 && exclusive.ssd_puts > pages / 2,
        "{exclusive:?}"
    );
    accounting::check(host)?;
    Ok(vec![
        Target::at_least(
            "ssd: pages that the tier kept, of those it returned",
            95.0,
            percent(change.hits_retained, change.ssd_hits),
            "%",
        ),
        Target::at_least(
            "ssd: pages that left the guest without a put, of those kept",
            95.0,
            percent(skipped, change.hits_retained),
            "%",
        ),
        Target::at_most(
            "ssd: pages written for a page read, if pages are kept",
            0.02,
            ratio(written, pages),
            "",
        ),
    ])
}
