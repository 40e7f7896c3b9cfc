// SPDX-License-Identifier: GPL-2.0

//! Room in a tier: which VM and which pool pages are evicted from, and how many.
//!
//! One eviction runs at a time, by the task that has locked the list of VMs. A task that waited for
//! the lock checks again whether there is room before it evicts more.
//!
//! The tier is full when it holds its capacity, or all that the host can spare. In the second case
//! a put fills the pages that were evicted for it, by weight as ever, and needs no other memory.

use super::carried::Page;
use super::evict::{entities, evict, evict_aged, oldest_age, shrink, TURN};
use super::session::Session;
use super::tier::Tier;
use crate::number::Number;
use crate::partition::{self, collect, collect_in_turns, victim, Entity};
use core::ops::{Deref, DerefMut};
use ddabi::genl::Mode;

/// Rounds of eviction for one reservation, because other tasks may take the room that was made.
const ROUNDS: usize = 64;

/// Pages that are taken from a VM in a turn when the host needs memory.
const VM_TURN: u64 = 8 * TURN;

/// Evicted pages that the next puts fill. A host that is short of memory would not provide them
/// again if they were freed.
pub trait Stock<P> {
    /// Returns the number of pages.
    fn len(&self) -> u64;

    /// Returns whether there is no page.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps pages, as many as there is room for; the others stay where they are.
    fn add(&self, pages: &mut [Option<P>]);

    /// Fills places with pages. Returns their number.
    fn take(&self, places: &mut [Option<P>]) -> usize;

    /// Gives up to `pages` back to the host. Returns their number.
    fn give_back(&self, pages: u64) -> u64;
}

/// A tier without a stock, whose evicted pages are freed at once.
impl<P> Stock<P> for () {
    fn len(&self) -> u64 {
        0
    }

    fn add(&self, _pages: &mut [Option<P>]) {}

    fn take(&self, _places: &mut [Option<P>]) -> usize {
        0
    }

    fn give_back(&self, _pages: u64) -> u64 {
        0
    }
}

/// A VM that has registered.
pub trait Vm {
    /// Its registrations.
    type Session: Session;

    /// Returns its number. No other VM has it.
    fn number(&self) -> u32;

    /// Returns its weight when pages are divided.
    fn share(&self) -> u32;

    /// Returns its current session, if it has one.
    fn session(&self) -> Option<impl Deref<Target = Self::Session>>;
}

/// The VMs of a host. The owner protects the list by a lock. Only the task that has locked it chooses
/// victims.
pub trait VmList {
    /// A VM.
    type Vm: Vm;

    /// Reference to a VM in the list.
    type Ref: Deref<Target = Self::Vm>;

    /// Returns the parts of the list of VMs.
    fn parts(&mut self) -> Parts<'_, Self::Ref>;
}

/// The VMs, and memory for computing entitlements.
#[derive(Debug)]
pub struct Parts<'a, V> {
    /// The VMs.
    pub vms: &'a [V],
    /// One for each VM, in the same order.
    pub entities: &'a mut [Entity],
    /// As many as a VM may have pools.
    pub pools: &'a mut [Entity],
}

/// A tier with its memory, and the VMs that share it.
pub trait Host {
    /// A number that processors share.
    type Number: Number;
    /// A page of the tier's memory.
    type Page: Page;
    /// Pages for the next puts.
    type Stock: Stock<Self::Page>;
    /// A registration of a guest.
    type Session: Session<Page = Self::Page, Number = Self::Number>;
    /// The VMs.
    type VmList: VmList<Vm: Vm<Session = Self::Session>>;

    /// Returns the accounts of the tier.
    fn tier(&self) -> &Tier<Self::Number>;

    /// Locks the list of VMs. The task that holds it must not allocate, and takes only the locks of
    /// shards and of a stock, because tasks that free memory wait for it.
    fn lock(&self) -> impl DerefMut<Target = Self::VmList>;

    /// Locks the list of VMs, unless another task holds it.
    fn try_lock(&self) -> Option<impl DerefMut<Target = Self::VmList>>;

    /// Returns the stock.
    fn stock(&self) -> &Self::Stock;

    /// Fills `pages` with new pages, as far as the host can spare memory or the tier is below its
    /// floor. Returns their number.
    fn allocate(&self, pages: &mut [Option<Self::Page>], below_floor: bool) -> usize;

    /// Returns the idle pages of the host, beyond those that it keeps free.
    fn spare(&self) -> u64;

    /// Returns the time in milliseconds since some beginning.
    fn milliseconds(&self) -> u64;

    /// Called after each eviction batch, with the number of its pages.
    fn evicted(&self, pages: u64);

    /// Lets the scheduler run other tasks. Called between two steps of a long operation.
    fn cond_resched(&self);

    /// Returns whether the calling task is being killed, in which case long operations end early.
    fn is_dying(&self) -> bool;

    /// Returns the time from which ages are computed while all pages form one FIFO.
    fn now(&self) -> u64 {
        self.tier().now()
    }

    /// Returns the time in which an eviction batch is put, in the same unit.
    fn batch_time(&self) -> u64 {
        self.tier().batch_time()
    }

    /// Raises the limit of the tier if the host has had memory to spare for a while.
    fn recover(&self) {
        let now = self.milliseconds();
        self.tier().recover(now, || self.spare());
    }
}

/// Reserves room in the tier for `pages`, or for as many as the limit if that is less, and evicts
/// pages for it if necessary. Returns the number of pages reserved, which is 0 if eviction frees too
/// few.
#[inline]
pub fn make_room<H: Host>(host: &H, pages: u64) -> u64 {
    match host.tier().reserve(pages) {
        true => pages,
        false => evict_for(host, pages),
    }
}

/// Like [`make_room`], for a tier without enough room.
#[cold]
#[inline(never)]
fn evict_for<H: Host>(host: &H, pages: u64) -> u64 {
    let tier = host.tier();
    for _ in 0..ROUNDS {
        if tier.reserve(pages) {
            return pages;
        }
        host.recover();
        let pages = pages.min(tier.limit());
        if tier.reserve(pages) {
            return pages;
        }
        let mut vm_list = host.lock();
        if tier.reserve(pages) {
            return pages;
        }
        let stock = tier.is_scarce().then_some(host.stock());
        let evicted = evict_batch(host, &mut *vm_list, stock);
        // Reserve while the list of VMs is still locked, or another task could take the room every
        // time. Do so even if nothing was evicted: the victim may have emptied itself.
        if tier.reserve(pages) {
            return pages;
        }
        if evicted == 0 {
            break;
        }
    }
    0
}

/// Gets pages for a put that has room reserved for them. Returns their number.
pub(super) fn fill<H: Host>(host: &H, pages: &mut [Option<H::Page>]) -> usize {
    let got = allocate(host, pages);
    got + recycle(host, &mut pages[got..])
}

/// Gets pages from the stock and from the host's memory. Returns their number.
fn allocate<H: Host>(host: &H, pages: &mut [Option<H::Page>]) -> usize {
    let got = host.stock().take(pages);
    // The room for these pages is reserved, so that it is included in `used`.
    let below_floor = host.tier().used() <= host.tier().floor();
    got + host.allocate(&mut pages[got..], below_floor)
}

/// Gets pages by eviction, because the host has no memory for the caller. The limit falls to the
/// pages that the tier holds, plus the host's idle pages, which the caller may not allocate. Returns
/// their number.
fn recycle<H: Host>(host: &H, pages: &mut [Option<H::Page>]) -> usize {
    if pages.is_empty() {
        return 0;
    }
    let missing = pages.len() as u64;
    let mut vm_list = host.lock();
    let held = (host.tier().used() + host.stock().len()).saturating_sub(missing);
    lower_limit(host, held + host.spare());
    let mut got = 0;
    for _ in 0..ROUNDS {
        got += host.stock().take(&mut pages[got..]);
        if got == pages.len() || evict_batch(host, &mut *vm_list, Some(host.stock())) == 0 {
            break;
        }
    }
    got
}

/// Lowers the limit of the tier: the host can spare no more than these pages.
fn lower_limit<H: Host>(host: &H, pages: u64) {
    host.tier().lower_limit(pages, host.milliseconds());
}

/// Takes back pages whose content is not needed any more. While the host is short of memory, they
/// are kept for the next puts.
pub fn retire<H: Host>(host: &H, pages: &mut [Option<H::Page>]) {
    if host.tier().is_scarce() {
        host.stock().add(pages);
    }
    pages.fill_with(|| None);
}

/// Returns the pages that could be given to a host that is short of memory: those above the floor.
pub fn surplus<H: Host>(host: &H) -> u64 {
    (host.tier().used() + host.stock().len()).saturating_sub(host.tier().floor())
}

/// Gives up to `pages` back to a host that is short of memory, and lowers the limit. Returns their
/// number.
pub fn give_back<H: Host>(host: &H, vm_list: &mut H::VmList, pages: u64) -> u64 {
    let tier = host.tier();
    let pages = pages.min(surplus(host));
    let stocked = host.stock().give_back(pages);
    let used = tier.used();
    let pages = (pages - stocked).min(used.saturating_sub(tier.floor()));
    lower_limit(host, used - pages);
    let evicted = match tier.mode() {
        Mode::Weighted => {
            entitle(vm_list, tier.limit());
            take_in_turns(vm_list, pages)
        }
        Mode::GlobalFifo => evict_by_age(host, vm_list, pages, None),
    };
    stocked + evicted
}

/// Evicts until the tier is within its limit, or the calling task is killed. In the latter case the
/// next puts evict the other pages.
pub fn enforce_limit<H: Host>(host: &H) {
    while host.tier().is_overfull() && !host.is_dying() {
        if evict_batch(host, &mut *host.lock(), None) == 0 {
            break;
        }
        host.cond_resched();
    }
}

/// Returns the session of the VM at a place of a list of VMs.
fn session<'a, V: Vm + 'a>(
    vms: &'a [impl Deref<Target = V>],
    at: usize,
) -> Option<impl Deref<Target = V::Session> + 'a> {
    vms.get(at)?.session()
}

/// Returns the sessions of the VMs of a list of VMs, without places for VMs that have no session.
fn sessions<'a, V: Vm + 'a>(
    vms: &'a [impl Deref<Target = V>],
) -> impl Iterator<Item = impl Deref<Target = V::Session> + 'a> + 'a {
    (0..vms.len()).filter_map(|at| session(vms, at))
}

/// Divides `pages` among the VMs of a list of VMs.
pub fn entitle<R: VmList>(vm_list: &mut R, pages: u64) {
    let Parts { vms, entities, .. } = vm_list.parts();
    for (entity, vm) in entities.iter_mut().zip(vms) {
        let session = vm.session();
        *entity = Entity {
            weight: if session.is_some() { vm.share() } else { 0 },
            entitlement: 0,
            used: session.map_or(0, |session| session.used()),
        };
    }
    partition::entitle(entities, pages);
}

/// Evicts one batch, whose pages go to a stock if one is given. Returns their number.
pub fn evict_batch<H: Host>(host: &H, vm_list: &mut H::VmList, stock: Option<&H::Stock>) -> u64 {
    let batch = host.tier().batch();
    let evicted = match host.tier().mode() {
        Mode::Weighted => evict_by_weight(host, vm_list, batch, stock),
        Mode::GlobalFifo => evict_by_age(host, vm_list, batch, stock),
    };
    host.evicted(evicted);
    evicted
}

/// Algorithm 1 among the VMs, then among the pools of the victim: a guest with its pages in a
/// thousand pools gives a batch like any other.
fn evict_by_weight<H: Host>(
    host: &H,
    vm_list: &mut H::VmList,
    batch: u64,
    stock: Option<&H::Stock>,
) -> u64 {
    entitle(vm_list, host.tier().limit());
    let Parts {
        vms,
        entities: entitled,
        pools,
    } = vm_list.parts();
    let Some(at) = victim(entitled, batch) else {
        return 0;
    };
    let vm = entitled[at];
    let Some(session) = session(vms, at) else {
        return 0;
    };
    let pools = entities(&*session, pools);
    // A VM that uses its peers' spare pages divides these like its own: its pools share what it
    // holds.
    partition::entitle(pools, vm.entitlement.max(vm.used));
    collect(pools, batch, |pool, pages| {
        evict(&*session, pool as u32, pages, stock)
    })
}

/// Takes up to `pages` from the VMs by their entitlements, in turns, because the kernel requests a
/// few pages at a time. With many VMs, a whole batch would be most of the pages of one VM or pool.
/// Returns the number of pages.
fn take_in_turns<R: VmList>(vm_list: &mut R, pages: u64) -> u64 {
    let Parts {
        vms,
        entities,
        pools,
    } = vm_list.parts();
    collect_in_turns(entities, pages, VM_TURN, |at, pages| {
        session(vms, at).map_or(0, |session| shrink(&*session, pages, pools))
    })
}

/// Evicts the oldest pages of all VMs, to within a batch. Returns their number.
fn evict_by_age<H: Host>(
    host: &H,
    vm_list: &mut H::VmList,
    batch: u64,
    stock: Option<&H::Stock>,
) -> u64 {
    let now = host.now();
    let vms = vm_list.parts().vms;
    let oldest = sessions(vms).filter_map(|session| oldest_age(&*session, now));
    let Some(oldest) = oldest.max() else {
        return 0;
    };
    let least = oldest.saturating_sub(host.batch_time());
    let mut evicted = 0;
    for session in sessions(vms) {
        evicted += evict_aged(&*session, (now, least), batch - evicted, stock);
        if evicted >= batch {
            break;
        }
    }
    evicted
}
