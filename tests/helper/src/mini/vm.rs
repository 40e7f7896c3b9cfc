// SPDX-License-Identifier: GPL-2.0-only

//! A VM with one processor, in 64-bit mode, that makes one hypercall after the other.

use std::{
    arch::x86_64::__cpuid,
    os::fd::{AsRawFd as _, BorrowedFd, OwnedFd},
};

use anyhow::{Context as _, Result, bail, ensure};
use ddabi::{
    ABI_VERSION, NAME_LEN,
    answer::{HelloAnswer, PoolAnswer, RESULTS},
    hypercall::{NUMBER, Operation, Outcome, Status},
    key::FileKey,
    policy::Policy,
    pool::{DEFAULT_WEIGHT, SAME_WEIGHT, SsdAdmit, Store},
    request::{BODY, Hello, PoolBody, REQUEST_MAGIC, RequestHeader, Run},
};
use kvm_bindings::{KVM_MAX_CPUID_ENTRIES, kvm_regs, kvm_segment, kvm_userspace_memory_region};
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd, VmFd};
use memmap2::MmapMut;
use zerocopy::{FromBytes as _, Immutable, IntoBytes};

use super::memory::{self, PAGE};

// Layout of the guest's own memory.
const TABLES: [usize; 3] = [PAGE, 2 * PAGE, 3 * PAGE];
const CODE: usize = 4 * PAGE;
const REQUEST: usize = 6 * PAGE;
const ANSWER: usize = REQUEST + PAGE;
const OWN_PAGES: usize = 8;

/// The first frame that requests name.
pub(super) const FRAMES: u64 = 0x1000;

/// A page table's entry: present, writable.
const ENTRY: u64 = 3;
/// Marks an entry that maps 2 MiB of memory instead of a table.
const LARGE: u64 = 1 << 7;

const CR0_PROTECTED_PAGED: u64 = 1 | 1 << 31;
const CR4_PAE: u64 = 1 << 5;
const EFER_LONG_MODE: u64 = 1 << 8 | 1 << 10;
const FLAGS: u64 = 1 << 1;

/// Result of a put or get of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) outcome: Outcome,
    pub(super) done: bool,
}

/// The VM. The memory that it was given lives at least as long.
pub(super) struct MiniVm<'a> {
    vcpu: VcpuFd,
    vm: VmFd,
    own: MmapMut,
    frames: Option<&'a MmapMut>,
    session: u64,
    sequence: u64,
}

impl<'a> MiniVm<'a> {
    /// Creates a VM that is not registered.
    pub(super) fn new(kvm: &Kvm) -> Result<Self> {
        let vm = kvm.create_vm()?;
        let mut own = memory::ordinary(OWN_PAGES)?;
        prepare(&mut own);
        give(&vm, 0, 0, &own)?;
        let vcpu = vm.create_vcpu(0)?;
        vcpu.set_cpuid2(&kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)?)?;
        let mut registers = vcpu.get_sregs()?;
        let code = kvm_segment {
            limit: u32::MAX,
            selector: 8,
            type_: 11,
            present: 1,
            s: 1,
            l: 1,
            g: 1,
            ..kvm_segment::default()
        };
        let data = kvm_segment {
            selector: 16,
            type_: 3,
            l: 0,
            db: 1,
            ..code
        };
        registers.cs = code;
        registers.ds = data;
        registers.es = data;
        registers.ss = data;
        registers.cr0 = CR0_PROTECTED_PAGED;
        registers.cr3 = TABLES[0] as u64;
        registers.cr4 = CR4_PAE;
        registers.efer = EFER_LONG_MODE;
        vcpu.set_sregs(&registers)?;
        Ok(Self {
            vcpu,
            vm,
            own,
            frames: None,
            session: 0,
            sequence: 0,
        })
    }

    /// Adds memory at [`FRAMES`].
    pub(super) fn frames(&mut self, memory: &'a MmapMut) -> Result<()> {
        give(&self.vm, 1, FRAMES * PAGE as u64, memory)?;
        self.frames = Some(memory);
        Ok(())
    }

    /// Registers.
    pub(super) fn hello(&mut self) -> Result<Outcome> {
        let hello = Hello {
            page_size: PAGE as u32,
            ..Hello::default()
        };
        self.sequence = 0;
        let outcome = self.call(Operation::Hello, 0, &hello)?;
        if outcome.status == Status::Ok {
            ensure!(outcome.answered, "the host answered without a session");
            let answer = HelloAnswer::read_from_prefix(&self.own[ANSWER + RESULTS..]);
            self.session = answer.ok().context("a page")?.0.session;
        }
        Ok(outcome)
    }

    /// Returns another descriptor of the VM, which keeps it alive.
    pub(super) fn descriptor(&self) -> Result<OwnedFd> {
        // SAFETY: the VM has its descriptor as long as it lives.
        let own = unsafe { BorrowedFd::borrow_raw(self.vm.as_raw_fd()) };
        Ok(own.try_clone_to_owned()?)
    }

    /// Returns its session.
    pub(super) fn session(&self) -> u64 {
        self.session
    }

    /// Puts or gets a run of pages, in frames of the same numbers.
    pub(super) fn order(&mut self, operation: Operation, first: u64, pages: u16) -> Result<Done> {
        self.move_pages(operation, (first, first), pages)
    }

    /// Puts or gets a run of pages from an index on, in frames from `frame` on.
    pub(super) fn move_pages(
        &mut self,
        operation: Operation,
        (index, frame): (u64, u64),
        pages: u16,
    ) -> Result<Done> {
        let run = Run {
            file: FileKey {
                inode: 1,
                ..FileKey::default()
            },
            index,
            gfn: FRAMES + frame,
            pages,
            ..Run::default()
        };
        self.transfer(operation, &run)
    }

    /// Puts or gets a run.
    pub(super) fn transfer(&mut self, operation: Operation, run: &Run) -> Result<Done> {
        let outcome = self.call(operation, self.session, run)?;
        let done = outcome.answered && self.own[ANSWER + RESULTS] == 1;
        Ok(Done { outcome, done })
    }

    /// Creates a pool with the usual weight. Returns its number.
    pub(super) fn create_pool(&mut self, name: &str) -> Result<u32> {
        let mut body = PoolBody {
            pool: 0,
            weight: DEFAULT_WEIGHT,
            store: Store::Memory as u32,
            policy: Policy::Fifo as u32,
            ssd_weight: SAME_WEIGHT,
            ssd_admit: SsdAdmit::All as u32,
            name_len: u32::try_from(name.len())?,
            name: [0; NAME_LEN],
        };
        body.name[..name.len()].copy_from_slice(name.as_bytes());
        let outcome = self.call(Operation::PoolCreate, self.session, &body)?;
        ensure!(
            outcome.status == Status::Ok && outcome.answered,
            "no pool {name}: {outcome:?}"
        );
        let answer = PoolAnswer::read_from_prefix(&self.own[ANSWER + RESULTS..]);
        Ok(answer.ok().context("a page")?.0.pool)
    }

    /// Makes a call that the host must accept and whose answer has no result.
    pub(super) fn ping(&mut self, session: u64) -> Result<Status> {
        Ok(self.call(Operation::Ping, session, &[0u8; 0])?.status)
    }

    /// Makes the next call use the number of the last one.
    pub(super) fn roll_back(&mut self) {
        self.sequence -= 1;
    }

    /// Makes a hypercall with one element as its body.
    fn call(
        &mut self,
        operation: Operation,
        session: u64,
        body: &(impl IntoBytes + Immutable + ?Sized),
    ) -> Result<Outcome> {
        self.sequence += 1;
        let header = RequestHeader {
            magic: REQUEST_MAGIC,
            version: ABI_VERSION,
            operation: operation as u16,
            session,
            sequence: self.sequence,
            count: u32::from(!body.as_bytes().is_empty()),
            ..RequestHeader::default()
        };
        let request = &mut self.own[REQUEST..ANSWER];
        request[..BODY].copy_from_slice(header.as_bytes());
        let body = body.as_bytes();
        request[BODY..BODY + body.len()].copy_from_slice(body);
        self.own[ANSWER..ANSWER + RESULTS + 1].fill(0);
        let raw = self.hypercall()?;
        Outcome::from_raw(raw).with_context(|| format!("the hypercall returned {raw:#x}"))
    }

    fn hypercall(&mut self) -> Result<u64> {
        self.vcpu.set_regs(&kvm_regs {
            rax: NUMBER,
            rbx: REQUEST as u64,
            rip: CODE as u64,
            rflags: FLAGS,
            ..kvm_regs::default()
        })?;
        match self.vcpu.run()? {
            VcpuExit::Hlt => Ok(self.vcpu.get_regs()?.rax),
            exit => bail!("the guest did not halt: {exit:?}"),
        }
    }
}

/// Writes the guest's program and page tables.
fn prepare(own: &mut MmapMut) {
    let vendor = __cpuid(0);
    let amd =
        vendor.ebx == u32::from_le_bytes(*b"Auth") || vendor.ebx == u32::from_le_bytes(*b"Hygo");
    // VMMCALL or VMCALL, and HLT.
    let call = if amd { 0xd9 } else { 0xc1 };
    own[CODE..CODE + 4].copy_from_slice(&[0x0f, 0x01, call, 0xf4]);
    let mut entry = |at: usize, value: u64| own[at..at + 8].copy_from_slice(&value.to_le_bytes());
    entry(TABLES[0], TABLES[1] as u64 | ENTRY);
    entry(TABLES[1], TABLES[2] as u64 | ENTRY);
    entry(TABLES[2], ENTRY | LARGE);
}

/// Adds memory to a VM. The caller keeps it as long as the VM.
fn give(vm: &VmFd, slot: u32, at: u64, memory: &MmapMut) -> Result<()> {
    let region = kvm_userspace_memory_region {
        slot,
        flags: 0,
        guest_phys_addr: at,
        memory_size: memory.len() as u64,
        userspace_addr: memory.as_ptr() as u64,
    };
    // SAFETY: the mapping outlives the VM, and what the guest writes there is not trusted.
    unsafe { vm.set_user_memory_region(region) }.context("cannot give memory to a VM")
}
