// SPDX-License-Identifier: GPL-2.0-only

//! Many VMs that share a tier, in steps. The scenario examines the host between two steps, and
//! starts the next one with a signal.

use std::ops::Range;

use anyhow::{Context as _, Result, ensure};
use ddabi::{
    hypercall::{Operation, Status},
    key::FileKey,
    request::Run,
};
use kvm_ioctls::Kvm;
use memmap2::MmapMut;
use serde_json::json;
use signal_hook::{consts::SIGUSR1, iterator::Signals};

use super::{
    memory::{self, PAGE},
    part::{allow_files, say},
    vm::{FRAMES, MiniVm},
};

/// Pages of a put.
const RUN: u64 = 32;

/// Registers `vms` VMs. Each puts `pages`; then the first puts `stream` more pages; then all put
/// `pages` more, in turns; then all read back their pages.
pub(super) fn share(vms: u32, pages: u64, stream: u64) -> Result<()> {
    allow_files(u64::from(vms) * 4 + 100)?;
    // Early signals are queued in it.
    let mut signals = Signals::new([SIGUSR1])?;
    let mut begin = || signals.forever().next().context("no signal");
    let kvm = Kvm::new()?;
    // All VMs have the same frames, because they put and get one after the other.
    let (mut frames, theirs) = memory::shared(RUN as usize)?;
    let mut crowd = Vec::new();
    for number in 0..vms {
        let mut vm = MiniVm::new(&kvm)?;
        vm.frames(&theirs)?;
        ensure!(vm.hello()?.status == Status::Ok, "VM {number} is refused");
        crowd.push(vm);
    }
    for (number, vm) in (0..).zip(&mut crowd) {
        put(vm, &mut frames, number, 0..pages)?;
    }
    say(&json!({"step": "idle"}))?;

    begin()?;
    put(&mut crowd[0], &mut frames, 0, pages..pages + stream)?;
    say(&json!({"step": "streamed"}))?;

    begin()?;
    for first in (0..pages).step_by(RUN as usize) {
        for (number, vm) in (0..).zip(&mut crowd) {
            let first = pages + stream + first;
            put(vm, &mut frames, number, first..first + RUN)?;
        }
    }
    say(&json!({"step": "busy"}))?;

    begin()?;
    let (mut hits, mut wrong) = (0, 0);
    for (number, vm) in (0..).zip(&mut crowd) {
        // Only the first VM has put the pages of the stream.
        let streamed = if number == 0 { stream } else { 0 };
        let (first, last) = (pages + streamed, pages + stream);
        for index in (0..first).chain(last..last + pages) {
            if vm.move_pages(Operation::Get, (index, 0), 1)?.done {
                hits += 1;
                wrong += u64::from(frames[..PAGE] != content(number, index));
            }
        }
    }
    say(&json!({"step": "asked", "hits": hits, "wrong": wrong}))?;
    begin().map(drop)
}

/// Registers `vms` VMs with `pools` pools each, of equal weights, and puts `pages` pages into each
/// pool, a run at a time.
pub(super) fn pools(vms: u32, pools: u32, pages: u64) -> Result<()> {
    allow_files(u64::from(vms) * 4 + 100)?;
    let mut signals = Signals::new([SIGUSR1])?;
    let kvm = Kvm::new()?;
    let (mut frames, theirs) = memory::shared(RUN as usize)?;
    let mut all = Vec::new();
    for number in 0..vms {
        let mut vm = MiniVm::new(&kvm)?;
        vm.frames(&theirs)?;
        ensure!(vm.hello()?.status == Status::Ok, "VM {number} is refused");
        for pool in 0..pools {
            let number = vm.create_pool(&format!("c{pool}"))?;
            for index in (0..pages).step_by(RUN as usize) {
                for (frame, index) in frames.chunks_mut(PAGE).zip(index..) {
                    frame.copy_from_slice(&content(number, index));
                }
                let run = Run {
                    file: FileKey {
                        inode: u64::from(number) + 1,
                        ..FileKey::default()
                    },
                    pool: number,
                    index,
                    gfn: FRAMES,
                    pages: RUN as u16,
                    ..Run::default()
                };
                let put = vm.transfer(Operation::Put, &run)?;
                ensure!(put.done, "pool {number} stores no pages: {put:?}");
            }
        }
        all.push(vm);
    }
    say(&json!({"step": "full"}))?;
    signals.forever().next().context("no signal").map(drop)
}

/// Puts pages of a VM, a run at a time.
fn put(vm: &mut MiniVm<'_>, frames: &mut MmapMut, number: u32, pages: Range<u64>) -> Result<()> {
    for first in pages.step_by(RUN as usize) {
        for (frame, index) in frames.chunks_mut(PAGE).zip(first..) {
            frame.copy_from_slice(&content(number, index));
        }
        vm.move_pages(Operation::Put, (first, 0), RUN as u16)?;
    }
    Ok(())
}

/// Returns the content of a page in the file of VM `number`.
fn content(number: u32, index: u64) -> [u8; PAGE] {
    let mut page = [0; PAGE];
    let word = (u64::from(number) << 32 | index).to_le_bytes();
    for place in page.chunks_mut(word.len()) {
        place.copy_from_slice(&word);
    }
    page
}
