// SPDX-License-Identifier: GPL-2.0-only

//! Choice of the VMs that lose pages, by Algorithm 1, and their eviction.
//!
//! VMs are chosen under the lock of the list of VMs, and lose their pages after it is released, on
//! several processors at a time. A task claims the pages that it is about to evict, and other tasks
//! count them as gone. Otherwise all of them would choose the same VM, and evict far more than its
//! excess.

use super::cause::Cause;
use super::evict::evict_by_weight;
use super::room::{how, Host, Parts, Vm, VmList};
use super::session::Session;
use super::standing::Whole;
use core::ops::{Deref, DerefMut};

/// A pass chooses one victim for this many VMs.
const VMS_BY_VICTIM: usize = 16;

/// Milliseconds for which chosen victims are used. Later the VMs may have other pages, weights or
/// entitlements.
const VICTIMS_MS: u64 = 100;

/// Maximum number of VMs from which a task evicts before it locks the list of VMs again.
pub(super) const CHOSEN: usize = 16;

/// A VM, and pages that a task is about to evict from it.
pub(super) struct Claim<R: Deref<Target: Vm>> {
    vm: R,
    pages: u64,
}

impl<R: Deref<Target: Vm>> Claim<R> {
    pub(super) fn new(vm: R, pages: u64) -> Self {
        vm.standing().claim(pages);
        Self { vm, pages }
    }
}

impl<R: Deref<Target: Vm>> Deref for Claim<R> {
    type Target = R::Target;

    fn deref(&self) -> &R::Target {
        &self.vm
    }
}

impl<R: Deref<Target: Vm>> Drop for Claim<R> {
    fn drop(&mut self) {
        self.vm.standing().unclaim(self.pages);
    }
}

/// VMs that Algorithm 1 has chosen, one for each eviction.
pub(super) type Chosen<H> = [Option<Claim<<<H as Host>::VmList as VmList>::Ref>>; CHOSEN];

/// Evicts `pages` pages, in batches, from up to `count` VMs. Takes VMs of an earlier choice first;
/// if none of them has pages to evict, Algorithm 1 chooses again. Returns the number of evicted
/// pages, or 0 if `lock` returns no list of VMs.
pub(super) fn evict_chosen<H: Host, G: DerefMut<Target = H::VmList>>(
    host: &H,
    lock: impl Fn() -> Option<G>,
    count: usize,
    pages: u64,
    why: (Cause, bool),
    stock: Option<&H::Stock>,
) -> u64 {
    for is_first in [true, false] {
        let Some(mut vm_list) = lock() else { break };
        if !is_first {
            vm_list.parts().victims.clear();
        }
        let chosen = choose_batches(host, &mut *vm_list, count);
        drop(vm_list);
        let evicted = evict_from(host, chosen, pages, why, stock);
        if evicted > 0 {
            return evicted;
        }
    }
    0
}

/// Chooses VMs for up to `count` evictions of a batch. Uses victims of a recent choice, if any are
/// left.
fn choose_batches<H: Host>(host: &H, vm_list: &mut H::VmList, count: usize) -> Chosen<H> {
    let now = host.milliseconds();
    let Parts { vms, victims, .. } = vm_list.parts();
    if victims.are_used_up(now) {
        let count = count.max(vms.len() / VMS_BY_VICTIM);
        choose(host, vm_list, host.tier().batch(), (count, None));
        vm_list.parts().victims.keep_until(now + VICTIMS_MS);
    }
    claim::<H>(vm_list, host.tier().batch(), count)
}

/// Chooses VMs for up to `count` evictions of `turn` pages because the host needs memory, most of
/// them on `node` if it is given.
pub(super) fn choose_turns<H: Host>(
    host: &H,
    vm_list: &mut H::VmList,
    turn: u64,
    (count, node): (usize, Option<usize>),
) -> Chosen<H> {
    choose(host, vm_list, turn, (count, node));
    let chosen = claim::<H>(vm_list, turn, count);
    // Victims that were chosen for turns must not be used for batches.
    vm_list.parts().victims.clear();
    chosen
}

/// Chooses VMs for up to `count` evictions of `turn` pages by Algorithm 1, which replace those that
/// were chosen before, and publishes the pages that each VM lends. If a NUMA node is given, only
/// VMs with most of their pages there are chosen.
fn choose<H: Host>(
    host: &H,
    vm_list: &mut H::VmList,
    turn: u64,
    (count, node): (usize, Option<usize>),
) {
    let Parts {
        vms,
        entities,
        victims,
    } = vm_list.parts();
    let whole = Whole::of(host.tier());
    for (entity, vm) in entities.iter_mut().zip(vms) {
        let is_there = |session: &H::Session| {
            node.is_none_or(|node| session.state().nodes.are_mostly_on(node))
        };
        let seen = vm.peek(|session| (session.used(), is_there(session)));
        let (used, is_there) = seen.unwrap_or_default();
        *entity = whole.refresh(&**vm, used);
        entity.used = match is_there {
            true => used.saturating_sub(vm.standing().claimed()),
            false => 0,
        };
    }
    victims.choose(entities, turn, count);
}

/// Removes up to `count` VMs from the chosen ones and claims `turn` pages of each.
fn claim<H: Host>(vm_list: &mut H::VmList, turn: u64, count: usize) -> Chosen<H> {
    let Parts { vms, victims, .. } = vm_list.parts();
    let mut victims = victims.take(count);
    [(); CHOSEN].map(|()| {
        let vm = vms.get(victims.next()?)?;
        Some(Claim::new(vm.clone(), turn))
    })
}

/// Evicts a batch from one chosen VM after the other until `pages` pages are evicted. Returns their
/// number.
fn evict_from<H: Host>(
    host: &H,
    chosen: Chosen<H>,
    pages: u64,
    (cause, may_demote): (Cause, bool),
    stock: Option<&H::Stock>,
) -> u64 {
    let batch = host.tier().batch();
    let mut evicted = 0;
    for vm in chosen.into_iter().flatten() {
        let Some(session) = vm.session() else {
            continue;
        };
        let how = how(host, &*vm, cause, may_demote);
        let got = evict_by_weight(&*session, batch, how, stock);
        if got.total() > 0 {
            host.evicted(&got);
        }
        evicted += got.total();
        if evicted >= pages {
            break;
        }
    }
    evicted
}

#[cfg(test)]
mod tests;
