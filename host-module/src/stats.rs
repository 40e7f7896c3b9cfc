// SPDX-License-Identifier: GPL-2.0-only

//! Statistics of VMs and pools, collected from the sessions that count them.

use crate::state::Host;
use crate::vm::pool::Pool;
use crate::vm::session::Session;
use crate::vm::Vm;
use ddabi::name::Name;
use ddabi::policy::Policy;
use ddabi::pool::{PoolStats, SsdAdmit, Store};
use ddcore::host::session::TierKind;
use ddcore::host::visit;
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
    pub(crate) ssd_weight: u32,
    pub(crate) store: Store,
    pub(crate) policy: Policy,
    pub(crate) ssd_admit: SsdAdmit,
    pub(crate) stats: PoolStats,
}

impl Host {
    /// Returns the registered VMs with a number of at least `from`, in the order of their numbers,
    /// and their sessions. The list of VMs is not locked while the caller works on one of them.
    pub(crate) fn sessions(&self, from: u32) -> impl Iterator<Item = (Arc<Vm>, Arc<Session>)> + '_ {
        visit::vms(self, from).filter_map(|vm| {
            let session = vm.session()?;
            Some((vm, session))
        })
    }

    /// Returns the registered VM with this number, and its session.
    pub(crate) fn vm(&self, number: u32) -> Option<(Arc<Vm>, Arc<Session>)> {
        let vm = visit::vms(self, number).next()?;
        let session = vm.session().filter(|_| vm.number == number)?;
        Some((vm, session))
    }

    /// Returns the statistics of the registered VM with the lowest number of at least `from`.
    pub(crate) fn vm_from(&self, from: u32) -> Option<VmView> {
        let (vm, session) = self.sessions(from).next()?;
        let entitlement = vm.entitlement();
        let mut stats = PoolStats::default();
        let mut pools = 0;
        for (number, pool) in session.live_pools(0) {
            pools += 1;
            stats.merge(&counted_stats(&session, number, pool));
        }
        stats.weight = u64::from(vm.weight());
        stats.entitlement = entitlement;
        stats.ssd_entitlement = vm.ssd_entitlement();
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
            let (found, session) = match only {
                Some(only) if vm > only => return None,
                Some(only) => self.vm(only)?,
                None => self.sessions(vm).next()?,
            };
            if found.number > vm {
                pool = 0;
            }
            let next = session.live_pools(pool).next();
            if let Some((number, place)) = next {
                return Some(PoolView {
                    vm: found.number,
                    number,
                    name: place.name(),
                    ssd_weight: place.settings().ssd_weight(),
                    store: place.settings().store,
                    policy: place.policy(),
                    ssd_admit: place.ssd_admit(),
                    stats: pool_stats(&found, &session, number)?,
                });
            }
            vm = found.number.checked_add(1)?;
            pool = 0;
        }
    }
}

/// Returns the statistics of a pool without its entitlements.
fn counted_stats(session: &Session, number: u32, pool: &Pool) -> PoolStats {
    let counted = |tier| counted(session, number, tier);
    pool.stats(&counted(TierKind::Memory), &counted(TierKind::Ssd))
}

/// Returns the statistics of a pool. This takes no lock of the host, because guests request the
/// statistics.
pub(crate) fn pool_stats(vm: &Vm, session: &Session, pool: u32) -> Option<PoolStats> {
    let place = session.pool(pool)?;
    Some(PoolStats {
        entitlement: session.entitlement(pool, vm.entitlement()),
        ssd_entitlement: session.ssd_entitlement(pool, vm.ssd_entitlement()),
        ..counted_stats(session, pool, place)
    })
}
