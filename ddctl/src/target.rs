// SPDX-License-Identifier: GPL-2.0-only

//! Finding the VM or container the user means.

use crate::{
    error::{Error, Kind, Result},
    system::System,
};
use ddabi::pool::DEFAULT_POOL;
use ddnl::{Pool, Vm};
use ddvm::vmm::{PATIENCE, Vmm};

/// A VM with its VMM's names.
#[derive(Clone, Debug)]
pub(crate) struct NamedVm {
    pub(crate) vm: Vm,
    pub(crate) vmm: Vmm,
}

impl NamedVm {
    /// Returns the process of its VMM, if that is still running.
    pub(crate) fn pid(&self) -> Option<u32> {
        Some(self.vm.pid).filter(|pid| *pid != 0)
    }

    /// Returns a text that distinguishes it from other VMs of the same name.
    fn candidate(&self) -> String {
        let number = |number: Option<u32>| number.map_or("?".into(), |number| number.to_string());
        let (pid, uid) = (number(self.pid()), number(self.vmm.uid));
        format!("id:{} (pid {pid}, uid {uid})", self.vm.id)
    }

    /// Returns its name, or `vm` and its number.
    pub(crate) fn label(&self) -> String {
        match &self.vmm.name {
            Some(name) => name.clone(),
            None => format!("vm{}", self.vm.id),
        }
    }
}

/// Reads the names of each VM from the command line of its VMM.
pub(crate) fn name_vms(system: &dyn System, vms: Vec<Vm>) -> Vec<NamedVm> {
    let names = Vmm::all(&system.file("/proc"), vms.iter().map(|vm| vm.pid));
    let named = |(vm, vmm)| NamedVm { vm, vmm };
    vms.into_iter().zip(names).map(named).collect()
}

/// Splits `VM[/CONTAINER]`.
pub(crate) fn split(target: &str) -> (&str, Option<&str>) {
    match target.split_once('/') {
        Some((vm, container)) => (vm, Some(container)),
        None => (target, None),
    }
}

/// Finds the VM with this number, process, name or uuid; the prefixes `id:`, `pid:`, `name:` and
/// `uuid:` select one of these. A plain number is never a name, or a user could name a VM after
/// the number of one that is gone.
pub(crate) fn find_vm<'a>(vms: &'a [NamedVm], wanted: &str) -> Result<&'a NamedVm> {
    let number: Option<u32> = wanted.parse().ok();
    let by_id = |text: &str| {
        text.parse()
            .is_ok_and(|id: u32| has(vms, |vm| vm.vm.id == id))
    };
    let found: Vec<&NamedVm> = match wanted.split_once(':') {
        Some(("id", id)) => matching(vms, |vm| id.parse() == Ok(vm.vm.id)),
        Some(("pid", pid)) => {
            matching(vms, |vm| vm.pid().is_some() && pid.parse().ok() == vm.pid())
        }
        Some(("name", name)) => matching(vms, |vm| vm.vmm.name.as_deref() == Some(name)),
        Some(("uuid", uuid)) => matching(vms, |vm| has_uuid(vm, uuid)),
        _ if by_id(wanted) => matching(vms, |vm| Some(vm.vm.id) == number),
        _ if number.is_some() => matching(vms, |vm| vm.pid().is_some() && vm.pid() == number),
        _ => matching(vms, |vm| vm.label() == wanted || has_uuid(vm, wanted)),
    };
    match found.as_slice() {
        [vm] => Ok(vm),
        [] => Err(Error::new(Kind::NotFound, format!("no VM `{wanted}`")).hint(present(vms))),
        several => Err(Error::new(
            Kind::NotFound,
            format!("`{wanted}` is the name of {} VMs", several.len()),
        )
        .hint(format!(
            "name it by number: {}",
            list(several.iter().map(|vm| vm.candidate()))
        ))),
    }
}

/// Returns the hint for a VM that was not found: the VMs that exist.
fn present(vms: &[NamedVm]) -> String {
    let there = match vms {
        [] => return "no VM has loaded doubledecker_guest yet".into(),
        _ => format!("there are {}", list(vms.iter().map(NamedVm::label))),
    };
    let silent: Vec<String> = vms
        .iter()
        .filter(|vm| vm.vmm.silent)
        .map(NamedVm::candidate)
        .collect();
    if silent.is_empty() {
        return there;
    }
    format!(
        "{there}; the command line, and with it the name, of {} could not be read within {} s: \
         try again, or name the VM by number",
        list(silent.into_iter()),
        PATIENCE.as_secs()
    )
}

/// Finds the pool with this number, name or cgroup; `default` is the VM's default pool. Neither a
/// number nor `default` is ever a name, or a user who chooses the name of a container could make
/// it receive commands meant for another one.
pub(crate) fn find_pool<'a>(pools: &'a [Pool], wanted: &str) -> Result<&'a Pool> {
    let number: Option<u32> = wanted.parse().ok();
    let is_wanted = |pool: &&Pool| match number {
        Some(number) => pool.id == number,
        None if wanted == "default" => pool.id == DEFAULT_POOL,
        None => pool.name == wanted || pool.cgroup.as_deref() == Some(wanted),
    };
    let found: Vec<&Pool> = pools.iter().filter(is_wanted).collect();
    match found.as_slice() {
        [pool] => Ok(pool),
        [] => Err(
            Error::new(Kind::NotFound, format!("no container `{wanted}`")).hint(match pools {
                [] => "no container is enrolled".into(),
                _ => format!("there are {}", list(pools.iter().map(pool_label))),
            }),
        ),
        several => Err(Error::new(
            Kind::NotFound,
            format!("`{wanted}` is the name of {} containers", several.len()),
        )
        .hint(format!(
            "name it by number: {}",
            list(several.iter().map(|pool| pool.id.to_string()))
        ))),
    }
}

/// Returns the printable name of a pool, or `pool` and its number.
pub(crate) fn pool_label(pool: &Pool) -> String {
    crate::output::printable(&pool_name(pool))
}

/// Returns the name of a pool, not yet made printable.
pub(crate) fn pool_name(pool: &Pool) -> String {
    match (pool.name.as_str(), pool.id) {
        ("", DEFAULT_POOL) => "default".into(),
        ("", id) => format!("pool{id}"),
        (name, _) => name.into(),
    }
}

fn matching(vms: &[NamedVm], wanted: impl Fn(&NamedVm) -> bool) -> Vec<&NamedVm> {
    vms.iter().filter(|vm| wanted(vm)).collect()
}

fn has(vms: &[NamedVm], wanted: impl Fn(&NamedVm) -> bool) -> bool {
    vms.iter().any(wanted)
}

fn has_uuid(vm: &NamedVm, uuid: &str) -> bool {
    let own = vm.vmm.uuid.as_deref();
    own.is_some_and(|own| own.eq_ignore_ascii_case(uuid))
}

/// Returns the first names, and the number of the others.
fn list(names: impl Iterator<Item = String>) -> String {
    const MAX_NAMES: usize = 8;
    let names: Vec<String> = names.collect();
    match names.get(MAX_NAMES..) {
        Some(more) if !more.is_empty() => {
            format!("{} and {} more", names[..MAX_NAMES].join(", "), more.len())
        }
        _ => names.join(", "),
    }
}
