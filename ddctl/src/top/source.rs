// SPDX-License-Identifier: GPL-2.0-only

//! Reading the modules.

use super::reading::{Counts, Reading, Row, Tier};
use crate::{
    context::{Context, OpenGuest, OpenHost},
    error::Result,
    number,
    target::{NamedVm, name_vms},
    watch::timestamp,
};
use ddabi::{genl::LinkState, ssd::DeviceState};
use ddnl::{
    Device, Pool, Side, Vm,
    reply::{device_state_word, mode_word},
};
use ddvm::vmm::Vmm;
use std::collections::BTreeMap;

/// Reads the module of one side. It asks for the containers of one VM at most, so that its work
/// and its memory follow from the number of VMs.
pub(crate) struct Source {
    side: Side,
    /// Names of VMs by their numbers, with the processes that they were read from. A command line
    /// is read once.
    names: BTreeMap<u32, (u32, Vmm)>,
}

impl Source {
    /// Creates a source of the module that the user chose, or else of the one that is loaded.
    pub(crate) fn new(context: &Context<'_>) -> Result<Self> {
        Ok(Self {
            side: context.side()?,
            names: BTreeMap::new(),
        })
    }

    /// Reads the module, on a host with the containers of this VM.
    pub(crate) fn read(&mut self, context: &Context<'_>, vm: Option<u32>) -> Result<Reading> {
        let missing = || ddnl::Error::NotLoaded { side: self.side };
        let mut reading = match self.side {
            Side::Host => {
                let host = context.open_host()?.ok_or_else(missing)?;
                self.host(context, host, vm)?
            }
            Side::Guest => {
                let guest = context.open_guest()?.ok_or_else(missing)?;
                read_guest(guest)?
            }
        };
        reading.at = context.system.uptime();
        let time = timestamp(context.system.now());
        // The time of day to seconds: `08:00:00`.
        reading.time = time.get(11..19).unwrap_or_default().into();
        Ok(reading)
    }

    fn host(&mut self, context: &Context<'_>, host: OpenHost, vm: Option<u32>) -> Result<Reading> {
        let OpenHost {
            mut control,
            status,
        } = host;
        let vms = self.name(context, control.vms()?);
        let devices = control.devices()?;
        let containers = match vm.filter(|id| vms.iter().any(|vm| vm.vm.id == *id)) {
            None => None,
            Some(id) => match control.pools(Some(id)) {
                Ok(pools) => Some(pools),
                Err(ddnl::Error::NotFound { .. }) => None,
                Err(error) => return Err(error.into()),
            },
        };
        let rows: Vec<Row> = vms.iter().map(Row::from).collect();
        let is_short = status.limit < status.capacity;
        let note = match is_short {
            true => format!("the host can spare {}", number::size(status.limit)),
            false => format!("floor {}", number::size(status.floor)),
        };
        let mut tiers = vec![Tier {
            name: "Memory",
            used: status.used,
            size: status.capacity,
            note,
            alarm: is_short,
        }];
        tiers.extend(ssd_tier(&devices));
        Ok(Reading {
            title: format!("host, {}", mode_word(status.mode)),
            tiers,
            total: sum(&rows),
            container_count: rows.iter().map(|row| u64::from(row.containers)).sum(),
            vms: rows,
            containers: containers.map(|pools| pools.iter().map(Row::from).collect()),
            ..Reading::default()
        })
    }

    /// Names VMs. The names of VMs that were read before are kept, unless their command lines could
    /// not be read.
    fn name(&mut self, context: &Context<'_>, vms: Vec<Vm>) -> Vec<NamedVm> {
        let known = |vm: &Vm| {
            self.names
                .get(&vm.id)
                .is_some_and(|(pid, _)| *pid == vm.pid)
        };
        let unknown: Vec<Vm> = vms.iter().filter(|vm| !known(vm)).cloned().collect();
        let mut names = std::mem::take(&mut self.names);
        for named in name_vms(context.system, unknown) {
            names.insert(named.vm.id, (named.vm.pid, named.vmm));
        }
        let with_name = |vm: Vm| {
            let (pid, vmm) = names.remove(&vm.id).unwrap_or_default();
            if !vmm.silent {
                self.names.insert(vm.id, (pid, vmm.clone()));
            }
            NamedVm { vm, vmm }
        };
        vms.into_iter().map(with_name).collect()
    }
}

fn read_guest(guest: OpenGuest) -> Result<Reading> {
    let OpenGuest {
        mut control,
        status,
    } = guest;
    let pools = control.pools()?;
    let rows: Vec<Row> = pools.iter().map(Row::from).collect();
    let (title, notice) = match (status.state, status.vm) {
        (LinkState::Attached, Some(vm)) => (format!("guest, VM {vm} of its host"), None),
        (LinkState::Attached, None) => ("guest".into(), None),
        (LinkState::Alone, _) => ("guest".into(), Some("no host answers: nothing is cached")),
        (LinkState::Refused, _) => (
            "guest".into(),
            Some("the host refuses this guest: see the kernel log"),
        ),
    };
    Ok(Reading {
        title,
        tiers: guest_tiers(&pools),
        total: sum(&rows),
        container_count: rows.len() as u64,
        containers: Some(rows),
        notice: notice.map(Into::into),
        ..Reading::default()
    })
}

/// Returns the tiers as far as this VM uses them.
fn guest_tiers(pools: &[Pool]) -> Vec<Tier> {
    let mut memory = Tier {
        name: "Memory",
        used: 0,
        size: 0,
        note: "entitlement of this VM".into(),
        alarm: false,
    };
    let mut ssd = Tier {
        name: "SSD",
        ..memory.clone()
    };
    for stats in pools.iter().map(Pool::stats_or_zero) {
        memory.used += stats.used.saturating_sub(stats.ssd_used);
        memory.size += stats.entitlement;
        ssd.used += stats.ssd_used;
        ssd.size += stats.ssd_entitlement;
    }
    let has_ssd = ssd.used + ssd.size > 0;
    [Some(memory), has_ssd.then_some(ssd)]
        .into_iter()
        .flatten()
        .collect()
}

/// Returns the SSD tier of a host, if it has a device.
fn ssd_tier(devices: &[Device]) -> Option<Tier> {
    if devices.is_empty() {
        return None;
    }
    let mut note = match devices.len() {
        1 => "1 device".to_owned(),
        count => format!("{count} devices"),
    };
    let mut alarm = false;
    for device in devices {
        if device.state != DeviceState::Active {
            let state = device_state_word(device.state);
            note += &format!(", device {} is {state}", device.id);
            alarm = true;
        }
    }
    Some(Tier {
        name: "SSD",
        used: devices.iter().map(|device| device.stats.used).sum(),
        size: devices.iter().map(|device| device.stats.places).sum(),
        note,
        alarm,
    })
}

fn sum(rows: &[Row]) -> Counts {
    let mut total = Counts::default();
    for row in rows {
        total.add(&row.counts);
    }
    total
}
