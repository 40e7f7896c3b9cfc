// SPDX-License-Identifier: GPL-2.0

//! What is told about VMs and pools, put together from where it is counted.

use crate::state::Host;
use crate::vm::session::Session;
use crate::vm::Vm;
use ddabi::name::Name;
use ddabi::policy::Policy;
use ddabi::pool::{PoolStats, Store};
use ddcore::host::walk::counted;
use kernel::sync::Arc;

/// A registered VM.
pub(crate) struct VmView {
    pub(crate) vm: Arc<Vm>,
    pub(crate) entitlement: u64,
    pub(crate) pools: u32,
    /// The sum over its pools.
    pub(crate) stats: PoolStats,
}

/// A pool of a registered VM.
pub(crate) struct PoolView {
    pub(crate) vm: u32,
    pub(crate) number: u32,
    pub(crate) name: Name,
    pub(crate) store: Store,
    pub(crate) policy: Policy,
    pub(crate) stats: PoolStats,
}

impl Host {
    /// Number of registered VMs.
    pub(crate) fn vm_count(&self) -> usize {
        let roster = self.vms.lock();
        let sessions = (0..roster.vms().len()).filter(|at| roster.session(*at).is_some());
        sessions.count()
    }

    /// The registered VM with this number.
    pub(crate) fn vm(&self, number: u32) -> Option<(Arc<Vm>, Arc<Session>)> {
        let roster = self.vms.lock();
        let vm = roster.vms().iter().find(|vm| vm.number == number)?;
        Some((vm.clone(), vm.session()?))
    }

    /// The first registered VM with a number of at least `from`.
    pub(crate) fn vm_from(&self, from: u32) -> Option<VmView> {
        let mut roster = self.vms.lock();
        let (at, session) = (0..roster.vms().len())
            .filter(|at| roster.vms()[*at].number >= from)
            .find_map(|at| Some((at, roster.session(at)?)))?;
        let vm = roster.vms()[at].clone();
        let entitlement = roster.entitle(self.tier.limit())[at].entitlement;
        drop(roster);
        let mut stats = PoolStats::default();
        let mut pools = 0;
        for (number, pool) in session.live_pools() {
            pools += 1;
            add(&mut stats, &pool.stats(&counted(&*session, number), 0));
        }
        stats.weight = u64::from(vm.weight());
        stats.entitlement = entitlement;
        Some(VmView {
            vm,
            entitlement,
            pools,
            stats,
        })
    }

    /// The first pool of a registered VM at or behind a place, in the order of VMs and pools.
    pub(crate) fn pool_from(&self, from: (u32, u32), only: Option<u32>) -> Option<PoolView> {
        let (mut vm, mut pool) = from;
        loop {
            let (found, session) = self.session_from(vm, only)?;
            if found.number > vm {
                pool = 0;
            }
            let next = session.live_pools().find(|(number, _)| *number >= pool);
            if let Some((number, place)) = next {
                return Some(PoolView {
                    vm: found.number,
                    number,
                    name: place.name(),
                    store: place.settings().store,
                    policy: place.policy(),
                    stats: self.pool_stats(&found, &session, number)?,
                });
            }
            vm = found.number.checked_add(1)?;
            pool = 0;
        }
    }

    fn session_from(&self, from: u32, only: Option<u32>) -> Option<(Arc<Vm>, Arc<Session>)> {
        let roster = self.vms.lock();
        let wanted = |number| number >= from && only.is_none_or(|only| only == number);
        let mut vms = roster.vms().iter().filter(|vm| wanted(vm.number));
        vms.find_map(|vm| Some((vm.clone(), vm.session()?)))
    }

    /// Statistics of a pool.
    pub(crate) fn pool_stats(&self, vm: &Vm, session: &Session, pool: u32) -> Option<PoolStats> {
        let place = session.pool(pool)?;
        let entitlement = session.entitlement(pool, self.entitlement(vm));
        Some(place.stats(&counted(session, pool), entitlement))
    }

    /// Returns the pages a VM is entitled to. Guests can ask for this, and evictions wait for the
    /// list of VMs: it is held for a single pass only.
    fn entitlement(&self, vm: &Vm) -> u64 {
        let mut roster = self.vms.lock();
        let mut numbers = roster.vms().iter().map(|other| other.number);
        let at = numbers.position(|number| number == vm.number);
        let entities = roster.entitle(self.tier.limit());
        at.map_or(0, |at| entities[at].entitlement)
    }
}

/// Adds what is counted; not weight and entitlement.
fn add(sum: &mut PoolStats, other: &PoolStats) {
    macro_rules! add {
        ($($field:ident)*) => {
            $(sum.$field = sum.$field.wrapping_add(other.$field);)*
        };
    }
    add! {
        used puts put_refused_off put_refused_memory put_refused_fault gets hits misses flushes
        evictions moved_in moved_out hits_foreign get_batches put_batches put_refused_absent
    }
    for (sum, other) in sum.get_latency.iter_mut().zip(&other.get_latency) {
        *sum = sum.wrapping_add(*other);
    }
    for (sum, other) in sum.put_latency.iter_mut().zip(&other.put_latency) {
        *sum = sum.wrapping_add(*other);
    }
}
