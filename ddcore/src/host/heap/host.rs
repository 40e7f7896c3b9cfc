// SPDX-License-Identifier: GPL-2.0-only

//! A tier with its memory, and the VMs that share it.

use super::{Lock, Owner, Session, Stock, Tier, VmList};
use crate::host::evict::Freed;
use crate::host::room;
use crate::host::standing::settle;
use alloc::sync::Arc;
use core::ops::DerefMut;
use core::sync::atomic::AtomicU64;

/// A host.
pub struct Host<O: Owner> {
    /// State of the owner.
    pub own: O,
    /// The accounts of the tier.
    pub tier: Arc<Tier>,
    /// The VMs.
    pub vm_list: O::Lock<VmList<O::Vm>>,
    /// Evicted pages that the next puts fill.
    pub stock: Stock<O>,
}

impl<O: Owner> Host<O> {
    /// Creates a host without VMs, which keeps at most `stocked` pages in its stock.
    pub fn new(tier: Arc<Tier>, stocked: usize, own: O) -> Self {
        Self {
            own,
            tier,
            vm_list: O::Lock::new(VmList::new()),
            stock: Stock::new(stocked),
        }
    }

    /// Adds a VM.
    pub fn add_vm(&self, vm: O::Vm) -> Arc<O::Vm> {
        let vm = self.vm_list.lock().add(vm);
        settle(&self.tier, &*vm);
        vm
    }
}

impl<O: Owner> room::Host for Host<O> {
    type Number = AtomicU64;
    type Page = O::Page;
    type Stock = Stock<O>;
    type Session = Session<O>;
    type VmList = VmList<O::Vm>;

    #[inline]
    fn tier(&self) -> &Tier {
        &self.tier
    }

    fn lock(&self) -> impl DerefMut<Target = VmList<O::Vm>> {
        self.vm_list.lock()
    }

    fn try_lock(&self) -> Option<impl DerefMut<Target = VmList<O::Vm>>> {
        self.vm_list.try_lock()
    }

    fn stock(&self) -> &Stock<O> {
        &self.stock
    }

    fn allocate(&self, pages: &mut [Option<O::Page>], below_floor: bool) -> usize {
        O::allocate(self, pages, below_floor)
    }

    fn spare(&self) -> u64 {
        self.own.spare()
    }

    fn node(&self, page: &O::Page) -> Option<usize> {
        self.own.node(page)
    }

    fn milliseconds(&self) -> u64 {
        self.own.milliseconds()
    }

    fn ssd_pages(&self) -> u64 {
        O::ssd_pages(self)
    }

    fn evicted(&self, pages: &Freed) {
        O::evicted(self, pages);
    }

    fn cond_resched(&self) {}

    fn now(&self) -> u64 {
        O::common_time(self)
    }

    fn batch_time(&self) -> u64 {
        O::batch_time(self)
    }
}
