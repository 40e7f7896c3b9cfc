// SPDX-License-Identifier: GPL-2.0

//! `ddctl set-weight`.

use crate::{
    cli,
    error::{Error, Kind, Result},
    output::Frame,
    session::{Either, Session},
    target::{NamedVm, find_pool, find_vm, name_vms, pool_label, split},
};
use clap::Args;
use ddnl::{GuestControl, HostControl, Pool, PoolChange};
use serde_json::json;

/// Set the weight of VMs (host) or of containers (guest)
///
/// Shares are weight over the sum of the peers' weights. Weight 0 means that nothing new is
/// cached.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// VM by number, process, name or uuid (host), or container by name or number (guest)
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,
    /// Weight from 0 to 10000
    #[arg(value_parser = cli::weight())]
    weight: u32,
}

pub(crate) fn run(session: &mut Session<'_>, arguments: &Arguments) -> Result<()> {
    match session.either()? {
        Either::Host(host) => vms(session, host, arguments),
        Either::Guest(guest) => containers(session, guest, &arguments.targets, arguments.weight),
    }
}

/// All targets are found before the first is changed.
fn vms(
    session: &mut Session<'_>,
    mut host: Box<dyn HostControl>,
    arguments: &Arguments,
) -> Result<()> {
    let weight = arguments.weight;
    let vms = name_vms(session.system, host.vms()?);
    let targets: Vec<&NamedVm> = arguments
        .targets
        .iter()
        .map(|target| match split(target) {
            (vm, None) => find_vm(&vms, vm),
            (vm, Some(container)) => Err(foreign(vm, container, weight)),
        })
        .collect::<Result<_>>()?;
    for target in targets {
        let id = target.vm.id;
        host.set_vm_weight(id, weight)?;
        let text = format!("Weight of VM {} is now {weight}", target.label());
        Frame::done(text, json!({ "vm": id, "weight": weight })).print(session)?;
    }
    Ok(())
}

/// Sets containers' weights; `container set-weight` is the same.
pub(crate) fn containers(
    session: &mut Session<'_>,
    mut guest: Box<dyn GuestControl>,
    targets: &[String],
    weight: u32,
) -> Result<()> {
    let pools = guest.pools()?;
    let targets: Vec<&Pool> = targets
        .iter()
        .map(|target| find_pool(&pools, target))
        .collect::<Result<_>>()?;
    for pool in targets {
        let change = PoolChange {
            weight: Some(weight),
            store: None,
        };
        guest.set_pool(pool.id, change)?;
        let text = format!("Weight of container {} is now {weight}", pool_label(pool));
        Frame::done(text, json!({ "container": pool.id, "weight": weight })).print(session)?;
    }
    Ok(())
}

fn foreign(vm: &str, container: &str, weight: u32) -> Error {
    Error::new(
        Kind::Usage,
        format!("containers divide their own VM's share: `{vm}/{container}` has no weight here"),
    )
    .hint(format!(
        "run `ddctl set-weight {container} {weight}` in VM {vm}, or edit its policyd.toml"
    ))
}
