// SPDX-License-Identifier: GPL-2.0-only

//! Room in the memory tier: from which VM and which pool pages are evicted, and how many.
//!
//! A put that finds no room evicts from its own VM if that VM has all pages that it may have, which
//! does not involve other VMs. Otherwise Algorithm 1 chooses a VM under the lock of the list of
//! VMs. The lock is held only for the choice, and a put does not wait for it: while another task is
//! choosing, the put replaces pages of its own VM. The background evictor keeps some room free, and
//! chooses several victims at a time.
//!
//! The tier is full when it has as many pages as its capacity, or all pages that the host can
//! spare. In the second case a put needs no other memory than the pages that were evicted for it,
//! also by weight.

use super::carried::Page;
use super::cause::Cause;
use super::choice::{choose_turns, evict_chosen, Claim, CHOSEN};
use super::evict::{evict_aged, evict_by_weight, oldest_age, shrink, Freed, Parameters, TURN};
use super::promotion::{is_promotion_due, promote_pages};
use super::session::Session;
use super::standing::{self, Standing};
use super::tier::Tier;
use crate::number::Number;
use crate::partition::{Entity, Victims};
use core::ops::{Deref, DerefMut};
use ddabi::genl::Mode;

/// Maximum number of rounds of eviction for a put. There can be several because other tasks may
/// take the room that was made.
const ROUNDS: usize = 64;

/// Maximum number of victims that are chosen in one pass over the list of VMs.
pub const VM_VICTIMS: usize = 64;

/// Maximum number of pages that are taken from a VM in a turn when the host needs memory.
const VM_TURN: u64 = 8 * TURN;

/// A turn takes no more than one part in this many of the average number of pages of a VM.
const TURNS: u64 = 16;

/// Pages whose content is no longer needed, and which the next puts fill. A put that fills one
/// neither allocates nor makes the kernel clear a page, and a host that is short of memory would
/// not provide a freed page again.
///
/// A stock may consist of several parts, of which a processor uses one.
pub trait Stock<P> {
    /// Returns the number of pages.
    fn len(&self) -> u64;

    /// Returns whether there is no page.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes as many pages as there is room for; the others stay in `pages`.
    fn add(&self, pages: &mut [Option<P>]);

    /// Fills `places` with pages of the part of the stock that belongs to the current processor.
    /// Returns their number.
    fn take(&self, places: &mut [Option<P>]) -> usize;

    /// Fills `places` with pages of the parts of all processors. Returns their number.
    fn take_any(&self, places: &mut [Option<P>]) -> usize {
        self.take(places)
    }

    /// Gives up to `pages` of the pages that `is_wanted` accepts back to the host. Returns their
    /// number.
    fn give_back(&self, pages: u64, is_wanted: impl Fn(&P) -> bool) -> u64;
}

/// No stock: evicted pages are freed at once.
impl<P> Stock<P> for () {
    fn len(&self) -> u64 {
        0
    }

    fn add(&self, _pages: &mut [Option<P>]) {}

    fn take(&self, _places: &mut [Option<P>]) -> usize {
        0
    }

    fn give_back(&self, _pages: u64, _is_wanted: impl Fn(&P) -> bool) -> u64 {
        0
    }
}

/// A VM that has registered.
pub trait Vm {
    /// A session of the VM.
    type Session: Session;

    /// Returns the number of the VM, which is unique.
    fn number(&self) -> u32;

    /// Returns the weight with which the memory tier is divided.
    fn share(&self) -> u32;

    /// Returns the weight with which the SSD tier is divided.
    fn ssd_share(&self) -> u32;

    /// Returns the current session, if there is one.
    fn session(&self) -> Option<impl Deref<Target = Self::Session>>;

    /// Calls `look` with the current session, if there is one. While it runs, the owner keeps the
    /// session from ending, so that the caller never drops the last reference to it: that frees
    /// the memory of its index, which takes long. `look` must take no lock.
    fn peek<R>(&self, look: impl FnOnce(&Self::Session) -> R) -> Option<R> {
        self.session().map(|session| look(&session))
    }

    /// Returns the standing that the VM has published.
    fn standing(&self) -> &Standing<<Self::Session as Session>::Number>;
}

/// The VMs of a host. The owner protects the list by a lock. Only the holder of the lock chooses
/// victims.
pub trait VmList {
    /// A VM.
    type Vm: Vm;

    /// Reference to a VM, which keeps it in memory after it has left the list.
    type Ref: Deref<Target = Self::Vm> + Clone;

    /// Returns the parts of the list of VMs.
    fn parts(&mut self) -> Parts<'_, Self::Ref>;
}

/// The VMs, and memory for computing entitlements.
#[derive(Debug)]
pub struct Parts<'a, V> {
    /// The VMs, in the order of their numbers.
    pub vms: &'a [V],
    /// One entity for each VM, in the same order.
    pub entities: &'a mut [Entity],
    /// Victims that were chosen before. With many VMs, a pass over the list chooses several, so
    /// that the cost per eviction does not grow. The owner clears them when a VM joins or leaves.
    pub victims: &'a mut Victims<VM_VICTIMS>,
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

    /// Locks the list of VMs. The holder of the lock must neither allocate nor take a lock under
    /// which memory is allocated, because memory reclaim waits for it.
    fn lock(&self) -> impl DerefMut<Target = Self::VmList>;

    /// Locks the list of VMs, unless another task holds it.
    fn try_lock(&self) -> Option<impl DerefMut<Target = Self::VmList>>;

    /// Returns the stock.
    fn stock(&self) -> &Self::Stock;

    /// Fills `pages` with new pages while the host can spare memory or the tier is below its floor.
    /// Returns their number.
    fn allocate(&self, pages: &mut [Option<Self::Page>], below_floor: bool) -> usize;

    /// Returns the number of idle pages of the host beyond those that it keeps free.
    fn spare(&self) -> u64;

    /// Returns the NUMA node of a page of memory, or `None` if all memory is on one node.
    fn node(&self, _page: &Self::Page) -> Option<usize> {
        None
    }

    /// Returns the time in milliseconds since an arbitrary moment.
    fn milliseconds(&self) -> u64;

    /// Makes the background evictor call [`refill`] soon. An owner without a background evictor
    /// does nothing; puts then evict themselves.
    fn wake_evictor(&self) {}

    /// Called after the limit of the tier has fallen because the host is short of memory, with the
    /// limit.
    fn limit_fell(&self, _pages: u64) {}

    /// Called after each eviction batch, with its pages.
    fn evicted(&self, pages: &Freed);

    /// Called after pages were promoted, with their number.
    fn promoted(&self, _pages: u64) {}

    /// Returns the capacity of the SSD tier in pages.
    fn ssd_pages(&self) -> u64 {
        0
    }

    /// Lets the scheduler run other tasks. Called between two steps of a long operation.
    fn cond_resched(&self);

    /// Returns the time from which ages are computed while all pages form one FIFO.
    fn now(&self) -> u64 {
        self.tier().now()
    }

    /// Returns the time in which as many pages are put as an eviction batch has, in the same unit.
    fn batch_time(&self) -> u64 {
        self.tier().batch_time()
    }

    /// Raises the limit of the tier if the host has had memory to spare for a while.
    fn recover(&self) {
        let now = self.milliseconds();
        self.tier().recover(now, || self.spare());
    }
}

/// Origin of a call: its VM, and the session in which it was made.
pub struct Origin<'a, H: Host> {
    /// The host that serves the call.
    pub host: &'a H,
    /// The VM.
    pub vm: &'a <H::VmList as VmList>::Vm,
    /// The session, which may have ended in the meantime.
    pub session: &'a H::Session,
}

impl<H: Host> Clone for Origin<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H: Host> Copy for Origin<'_, H> {}

impl<H: Host> Origin<'_, H> {
    /// Returns whether the VM has all pages that it may have, so that its puts replace its own
    /// pages.
    fn is_replete(&self) -> bool {
        let used = self.session.used();
        used > 0 && used >= standing::capacity(self.host.tier(), self.vm, used)
    }

    /// Evicts up to `pages` pages of the VM itself. Returns their numbers.
    fn evict(&self, pages: u64, may_demote: bool) -> Freed {
        let _claim = Claim::new(self.vm, pages);
        let how = how(self.host, self.vm, Cause::Put, may_demote);
        evict_by_weight(self.session, pages, how, Some(self.host.stock()))
    }

    /// Evicts one batch for a put, and adds the pages to the stock. If `may_demote` is not set, no
    /// page is demoted, because it would occupy its memory until it is written. If `alone` is set,
    /// other VMs lose no pages by their weights. Returns the number of pages.
    fn evict_batch(&self, may_demote: bool, alone: bool) -> u64 {
        let host = self.host;
        let stock = Some(host.stock());
        let batch = host.tier().batch();
        let evicted = match host.tier().mode() {
            Mode::GlobalFifo => {
                let how = (batch, Cause::Put);
                Freed::evicted(evict_by_age(host, &mut *host.lock(), how, stock))
            }
            Mode::Weighted if alone || self.is_replete() => self.evict(batch, may_demote),
            Mode::Weighted => {
                let why = (Cause::Put, may_demote);
                match evict_chosen(host, || host.try_lock(), 1, batch, why, stock) {
                    0 => self.evict(batch, may_demote),
                    evicted => return evicted,
                }
            }
        };
        host.evicted(&evicted);
        evicted.total()
    }
}

/// Returns whether pages of a VM are demoted when they leave the memory tier. While the host is
/// short of memory they are evicted, because a demoted page occupies memory until it is written.
fn demotes<H: Host>(host: &H, vm: &<H::VmList as VmList>::Vm) -> bool {
    vm.ssd_share() > 0 && !host.tier().is_scarce()
}

/// Returns the parameters of an eviction by weight from a VM.
pub(super) fn how<H: Host>(
    host: &H,
    vm: &<H::VmList as VmList>::Vm,
    cause: Cause,
    may_demote: bool,
) -> Parameters {
    Parameters {
        entitlement: standing::entitlement(host.tier(), vm),
        demotes: may_demote && demotes(host, vm),
        cause,
    }
}

/// Reserves room in the tier for `pages` pages, or for fewer if the limit is smaller, and evicts
/// pages for that if necessary. Returns the number of pages for which room was reserved, which is 0
/// if eviction frees too few.
#[inline]
pub fn make_room<H: Host>(origin: &Origin<'_, H>, pages: u64) -> u64 {
    let tier = origin.host.tier();
    if !tier.reserve(pages) {
        return evict_for(origin, pages);
    }
    if tier.shortage() > 0 || is_promotion_due(origin.host) {
        origin.host.wake_evictor();
    }
    pages
}

/// The slow path of [`make_room`]: evicts until there is enough room.
#[cold]
#[inline(never)]
fn evict_for<H: Host>(origin: &Origin<'_, H>, pages: u64) -> u64 {
    let (host, tier) = (origin.host, origin.host.tier());
    for _ in 0..ROUNDS {
        host.recover();
        let pages = pages.min(tier.limit());
        if tier.reserve(pages) {
            return pages;
        }
        let evicted = origin.evict_batch(true, false);
        // This is tried even if nothing was evicted, because another task may have made room.
        if tier.reserve(pages) {
            return pages;
        }
        if evicted == 0 {
            break;
        }
    }
    0
}

/// Gets pages for a put that has reserved room for them. Returns their number.
pub(super) fn fill<H: Host>(origin: &Origin<'_, H>, pages: &mut [Option<H::Page>]) -> usize {
    let got = allocate(origin.host, pages);
    let got = got + recycle(origin, &mut pages[got..]);
    let first = pages.first().and_then(Option::as_ref);
    if let Some(node) = first.and_then(|page| origin.host.node(page)) {
        let used = || origin.session.used();
        origin.session.state().nodes.note(node, got as u64, used);
    }
    got
}

/// Gets pages from the stock and from the host's memory. Returns their number.
fn allocate<H: Host>(host: &H, pages: &mut [Option<H::Page>]) -> usize {
    // Room for these pages was reserved before and is included in `used`.
    draw(host, pages, host.tier().used() <= host.tier().floor())
}

/// Gets pages from the stock, and from the host's memory as [`Host::allocate`] does. Returns their
/// number.
pub fn draw<H: Host>(host: &H, pages: &mut [Option<H::Page>], below_floor: bool) -> usize {
    // A host that is short of memory is not asked for pages that another part of the stock has.
    let got = match host.tier().is_scarce() {
        true => host.stock().take_any(pages),
        false => host.stock().take(pages),
    };
    match got == pages.len() {
        true => got,
        false => got + host.allocate(&mut pages[got..], below_floor),
    }
}

/// Gets pages by eviction, because the host has no memory for the caller. Lowers the limit to the
/// number of pages that the tier has plus the idle pages of the host. Returns the number of pages.
///
/// If the host has enough idle pages, but the caller may not use their NUMA nodes, the tier is not
/// full: the limit stays, and only the VM of the caller loses pages.
fn recycle<H: Host>(origin: &Origin<'_, H>, pages: &mut [Option<H::Page>]) -> usize {
    if pages.is_empty() {
        return 0;
    }
    let host = origin.host;
    let missing = pages.len() as u64;
    let held = (host.tier().used() + host.stock().len()).saturating_sub(missing);
    let spare = host.spare();
    if spare < missing {
        lower_limit(host, held + spare);
    }
    let mut got = 0;
    for _ in 0..ROUNDS {
        got += host.stock().take_any(&mut pages[got..]);
        if got == pages.len() || origin.evict_batch(false, spare >= missing) == 0 {
            break;
        }
    }
    got
}

/// Lowers the limit of the tier to `pages`, because the host cannot spare more.
fn lower_limit<H: Host>(host: &H, pages: u64) {
    if host.tier().lower_limit(pages, host.milliseconds()) {
        host.limit_fell(host.tier().limit());
    }
}

/// Takes back pages whose content is no longer needed. As many as the stock has room for are kept
/// for the next puts.
pub fn retire<H: Host>(host: &H, pages: &mut [Option<H::Page>]) {
    host.stock().add(pages);
    pages.fill_with(|| None);
}

/// Returns the number of pages above the floor, which can be given back if the host is short of
/// memory.
pub fn surplus<H: Host>(host: &H) -> u64 {
    (host.tier().used() + host.stock().len()).saturating_sub(host.tier().floor())
}

/// Gives up to `pages` pages back to a host that is short of memory, and lowers the limit. Returns
/// their number. If only one NUMA node is short, and is given, only VMs that have most of their
/// pages there lose pages, as long as there are such VMs, and the tier may use the idle pages of
/// other nodes.
pub fn give_back<H: Host>(host: &H, pages: u64, node: Option<usize>) -> u64 {
    let tier = host.tier();
    let pages = pages.min(surplus(host));
    let is_there = |page: &H::Page| node.is_none_or(|node| host.node(page) == Some(node));
    let stocked = host.stock().give_back(pages, is_there);
    let used = tier.used();
    let pages = (pages - stocked).min(used.saturating_sub(tier.floor()));
    let elsewhere = node.map_or(0, |_| host.spare());
    lower_limit(host, used - pages + elsewhere);
    let evicted = match tier.mode() {
        Mode::Weighted => shrink_in_turns(host, pages, node),
        Mode::GlobalFifo => {
            let how = (pages, Cause::Shortage);
            evict_by_age(host, &mut *host.lock(), how, None)
        }
    };
    stocked + evicted
}

/// Evicts until the tier is within its limit and has some room for the next puts, and promotes
/// pages if much of the tier is free. The background evictor calls this.
pub fn refill<H: Host>(host: &H) {
    loop {
        let shortage = host.tier().shortage();
        if shortage == 0 || evict_batches(host, shortage) == 0 {
            break;
        }
        host.cond_resched();
    }
    promote_pages(host);
}

/// Evicts at least `pages` pages, or fewer if one choice of victims does not suffice, and at most a
/// batch more. Returns the number of pages.
fn evict_batches<H: Host>(host: &H, pages: u64) -> u64 {
    let tier = host.tier();
    let batch = tier.batch();
    // Pages are not kept if the host is short of memory or an administrator has lowered the
    // capacity: the host gets them back.
    let keeps = !tier.is_scarce() && tier.used() <= tier.limit();
    let stock = keeps.then_some(host.stock());
    match tier.mode() {
        Mode::Weighted => {
            let count = pages.div_ceil(batch).min(CHOSEN as u64) as usize;
            let why = (Cause::Reserve, true);
            evict_chosen(host, || Some(host.lock()), count, pages, why, stock)
        }
        Mode::GlobalFifo => {
            let how = (batch, Cause::Reserve);
            let evicted = evict_by_age(host, &mut *host.lock(), how, stock);
            host.evicted(&Freed::evicted(evicted));
            evicted
        }
    }
}

/// Evicts `pages` pages of the VMs by their entitlements, in small turns, because the kernel
/// requests a few pages at a time. With many VMs, a whole batch could be most of the pages of a VM
/// or a pool. Returns the number of pages.
fn shrink_in_turns<H: Host>(host: &H, pages: u64, mut node: Option<usize>) -> u64 {
    let mut taken = 0;
    while taken < pages {
        let mut vm_list = host.lock();
        let vms = vm_list.parts().vms.len() as u64;
        let turn = (host.tier().limit() / TURNS / vms.max(1)).clamp(1, VM_TURN);
        let count = (pages - taken).div_ceil(turn).min(CHOSEN as u64) as usize;
        let chosen = choose_turns(host, &mut *vm_list, turn, (count, node));
        drop(vm_list);
        let before = taken;
        for vm in chosen.into_iter().flatten() {
            if let Some(session) = vm.session() {
                taken += shrink(&*session, turn.min(pages - taken));
            }
        }
        // Without VMs on the node, all VMs lose pages, some of which may be there.
        if taken == before && node.take().is_none() {
            break;
        }
    }
    taken
}

/// Evicts up to a batch of the oldest pages of all VMs. Returns their number.
fn evict_by_age<H: Host>(
    host: &H,
    vm_list: &mut H::VmList,
    (batch, cause): (u64, Cause),
    stock: Option<&H::Stock>,
) -> u64 {
    let now = host.now();
    let vms = vm_list.parts().vms;
    let sessions = || vms.iter().filter_map(|vm| vm.session());
    let Some(oldest) = sessions()
        .filter_map(|session| oldest_age(&*session, now))
        .max()
    else {
        return 0;
    };
    let least = oldest.saturating_sub(host.batch_time());
    let mut evicted = 0;
    for session in sessions() {
        evicted += evict_aged(&*session, (now, least), (batch - evicted, cause), stock);
        if evicted >= batch {
            break;
        }
    }
    evicted
}
