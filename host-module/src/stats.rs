// SPDX-License-Identifier: GPL-2.0

//! Statistics of VMs and pools, collected from the sessions that count them.

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
    /// The sum over the VM's pools, with weight and entitlement of the VM.
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
    /// Returns the number of registered VMs.
    pub(crate) fn vm_count(&self) -> usize {
        let vm_list = self.vms.lock();
        let sessions = (0..vm_list.vms().len()).filter(|at| vm_list.session(*at).is_some());
        sessions.count()
    }

    /// Returns the registered VM with this number, and its session.
    pub(crate) fn vm(&self, number: u32) -> Option<(Arc<Vm>, Arc<Session>)> {
        let vm_list = self.vms.lock();
        let vm = vm_list.vms().iter().find(|vm| vm.number == number)?;
        Some((vm.clone(), vm.session()?))
    }

    /// Returns the registered VM with the lowest number of at least `from`.
    pub(crate) fn vm_from(&self, from: u32) -> Option<VmView> {
        let mut vm_list = self.vms.lock();
        let (at, session) = (0..vm_list.vms().len())
            .filter(|at| vm_list.vms()[*at].number >= from)
            .find_map(|at| Some((at, vm_list.session(at)?)))?;
        let vm = vm_list.vms()[at].clone();
        let entitlement = vm_list.entitle(self.tier.limit())[at].entitlement;
        drop(vm_list);
        let mut stats = PoolStats::default();
        let mut pools = 0;
        for (number, pool) in session.live_pools() {
            pools += 1;
            stats.merge(&pool.stats(&counted(&*session, number), 0));
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

    /// Returns the first pool at or after `from`, a VM's number and a pool's. Pools are ordered by
    /// VM and number. If `only` is given, pools of other VMs are left out.
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
        let vm_list = self.vms.lock();
        let wanted = |number| number >= from && only.is_none_or(|only| only == number);
        let mut vms = vm_list.vms().iter().filter(|vm| wanted(vm.number));
        vms.find_map(|vm| Some((vm.clone(), vm.session()?)))
    }

    /// Returns the statistics of a pool.
    pub(crate) fn pool_stats(&self, vm: &Vm, session: &Session, pool: u32) -> Option<PoolStats> {
        let place = session.pool(pool)?;
        let entitlement = session.entitlement(pool, self.entitlement(vm));
        Some(place.stats(&counted(session, pool), entitlement))
    }

    /// Returns the pages a VM is entitled to. Guests can ask for this, and evictions wait for the
    /// list of VMs: it is held for a single pass only.
    fn entitlement(&self, vm: &Vm) -> u64 {
        let mut vm_list = self.vms.lock();
        let mut numbers = vm_list.vms().iter().map(|other| other.number);
        let at = numbers.position(|number| number == vm.number);
        let entities = vm_list.entitle(self.tier.limit());
        at.map_or(0, |at| entities[at].entitlement)
    }
}
