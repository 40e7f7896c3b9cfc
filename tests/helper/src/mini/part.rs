// SPDX-License-Identifier: GPL-2.0-only

//! The tests with mini VMs.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use ddabi::hypercall::{Operation, Status};
use kvm_ioctls::Kvm;
use memmap2::MmapMut;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::{Value, json};

use super::{
    memory::{self, PAGE, Withheld},
    vm::{Done, MiniVm},
};

/// Pages of a run.
const RUN: u16 = 32;
/// Maximum number of pages of a put.
const MAX_PAGES: u16 = 1024;

/// Returns a result together with the time that the operation took.
fn timed(done: Result<Done>, since: Instant) -> Result<Value> {
    let done = done?;
    Ok(json!({
        "done": done.done,
        "ok": done.outcome.status == Status::Ok,
        "us": u64::try_from(since.elapsed().as_micros())?,
    }))
}

pub(super) fn say(value: &Value) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{value}")?;
    Ok(out.flush()?)
}

/// Puts and gets a run of present frames, then one of the frames from `other` on.
fn exchange(vm: &mut MiniVm<'_>, other: u64) -> Result<Value> {
    let mut order = |operation, place| -> Result<Value> {
        let start = Instant::now();
        timed(vm.move_pages(operation, place, RUN), start)
    };
    let own = order(Operation::Put, (0, 0))?;
    let put = order(Operation::Put, (u64::from(MAX_PAGES), other))?;
    let get = order(Operation::Get, (0, other))?;
    // A get without a hit leaves nothing at the host.
    let again = order(Operation::Get, (0, 0))?;
    Ok(json!({"own": own, "put": put, "get": get, "again": again}))
}

/// Half of the frames are present, and the others are withheld.
pub(super) fn absent() -> Result<()> {
    let kvm = Kvm::new()?;
    let mut withheld = Withheld::new(2 * usize::from(MAX_PAGES))?;
    withheld.memory[..usize::from(MAX_PAGES) * PAGE].fill(1);
    withheld.begin()?;
    let mut vm = MiniVm::new(&kvm)?;
    vm.frames(&withheld.memory)?;
    vm.hello()?;
    say(&exchange(&mut vm, u64::from(MAX_PAGES))?)?;
    loop {
        vm.order(Operation::Put, u64::from(MAX_PAGES), RUN)?;
    }
}

/// Present frames are followed by those of a device.
pub(super) fn device() -> Result<()> {
    let kvm = Kvm::new()?;
    let (ordinary, device) = (filled(MAX_PAGES)?, memory::device(2)?);
    let mut vm = MiniVm::new(&kvm)?;
    vm.frames(&ordinary)?;
    vm.hello()?;
    let own = vm.order(Operation::Put, 0, 1)?.done;
    let mut other = MiniVm::new(&kvm)?;
    other.frames(&device)?;
    other.hello()?;
    let put = other.order(Operation::Put, 0, 1)?.done;
    let get = other.order(Operation::Get, 0, 1)?.done;
    say(&json!({"own": own, "put": put, "get": get}))
}

/// Makes the largest possible put twice. Before the second one the frames are swapped out.
pub(super) fn swapped() -> Result<()> {
    let kvm = Kvm::new()?;
    let memory = filled(MAX_PAGES)?;
    let mut vm = MiniVm::new(&kvm)?;
    vm.frames(&memory)?;
    vm.hello()?;
    let mut put = || -> Result<Value> {
        let start = Instant::now();
        timed(vm.order(Operation::Put, 0, MAX_PAGES), start)
    };
    let resident = put()?;
    memory::swap_out(&memory)?;
    let swapped = put()?;
    say(&json!({"resident": resident, "swapped": swapped}))
}

/// A guest registers twice, and calls of its first session arrive late. Then it is rolled back.
pub(super) fn sessions() -> Result<()> {
    let kvm = Kvm::new()?;
    let mut vm = MiniVm::new(&kvm)?;
    vm.hello()?;
    let first = vm.session();
    vm.hello()?;
    let second = vm.session();
    let straggler = vm.ping(first)?;
    let current = vm.ping(second)?;
    vm.roll_back();
    let rolled_back = vm.ping(second)?;
    let after = vm.ping(second)?;
    let name = |status: Status| format!("{status:?}");
    say(&json!({
        "straggler": name(straggler),
        "current": name(current),
        "rolled_back": name(rolled_back),
        "after": name(after),
    }))
}

/// Another process holds the VM after this one has ended.
pub(super) fn orphan() -> Result<()> {
    let kvm = Kvm::new()?;
    let mut vm = MiniVm::new(&kvm)?;
    vm.hello()?;
    let mut heir = Command::new("sleep");
    let heir = heir.arg("3600").stdin(vm.descriptor()?).spawn()?;
    say(&json!({"heir": heir.id()}))
}

/// Sets the limit of open files of this process.
pub(super) fn allow_files(files: u64) -> Result<()> {
    let limit = Rlimit {
        current: Some(files),
        maximum: Some(files),
    };
    Ok(setrlimit(Resource::Nofile, limit)?)
}

/// Registers a number of VMs.
pub(super) fn crowd(vms: u32) -> Result<()> {
    allow_files(u64::from(vms) * 4 + 100)?;
    let kvm = Kvm::new()?;
    let memory = filled(1)?;
    let mut crowd = Vec::new();
    for _ in 0..vms {
        let mut vm = MiniVm::new(&kvm)?;
        vm.frames(&memory)?;
        // KVM has allocated its memory for the VM once the VM has run.
        vm.ping(1)?;
        crowd.push(vm);
    }
    let before = kernel_memory()?;
    let mut statuses = BTreeMap::<String, u32>::new();
    let mut stored = 0;
    for vm in &mut crowd {
        let status = vm.hello()?.status;
        *statuses.entry(format!("{status:?}")).or_default() += 1;
        if status == Status::Ok {
            stored += u32::from(vm.order(Operation::Put, 0, 1)?.done);
        }
    }
    let charged = kernel_memory()?.saturating_sub(before);
    say(&json!({"statuses": statuses, "stored": stored, "charged": charged}))?;
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

/// Returns memory whose pages are all present.
fn filled(pages: u16) -> Result<MmapMut> {
    let mut memory = memory::ordinary(pages.into())?;
    for (page, number) in memory.chunks_mut(PAGE).zip(1u16..) {
        // Equal pages could be merged.
        page[..2].copy_from_slice(&number.to_le_bytes());
        page[2..].fill(7);
    }
    Ok(memory)
}

/// Returns the bytes of kernel memory charged to this program's cgroup.
fn kernel_memory() -> Result<u64> {
    let cgroup = fs::read_to_string("/proc/self/cgroup")?;
    let path = cgroup.trim().strip_prefix("0::").context("cgroup v2")?;
    let Ok(stat) = fs::read_to_string(format!("/sys/fs/cgroup{path}/memory.stat")) else {
        // The root cgroup has no such file.
        return Ok(0);
    };
    let line = stat.lines().find_map(|line| line.strip_prefix("kernel "));
    Ok(line
        .context("memory.stat has no line `kernel`")?
        .trim()
        .parse()?)
}
