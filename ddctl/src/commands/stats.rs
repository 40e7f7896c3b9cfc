// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl stats`.

mod curve;
mod detail;
mod table;

use crate::{
    context::{Context, OpenModule},
    error::{Error, Kind, Result},
    output::Frame,
    report::{ContainerReport, ContainersReport, StatsReport, VmReport, VmsReport},
    target::{NamedVm, find_pool, find_vm, name_vms, pool_label, split},
    watch::Watch,
    watch::{self, Elapsed},
};
use clap::Args;
use ddabi::pool::PoolStats;
use ddnl::{GuestControl, HostControl, Pool};
use table::Rates;

/// Show use, hits, puts and evictions of VMs and containers
///
/// Shows all VMs and their containers on a host, and all containers in a guest, or only the given
/// VM or container. A single container is shown with all its counters.
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl stats                all VMs, or the containers of a guest",
    "\n  ddctl stats web/nginx      a container of VM web",
    "\n  ddctl stats --watch 2      with rates, every two seconds",
    "\n  ddctl stats nginx --curve  in a guest: hits with other shares",
))]
pub(crate) struct Arguments {
    /// On a host, a VM by number, process id, name or uuid, optionally with one of its
    /// containers; in a guest, a container by name or number
    #[arg(value_name = "VM[/CONTAINER]")]
    target: Option<String>,
    /// Show how many hits containers would have with other shares (guest)
    #[arg(long)]
    curve: bool,
    #[command(flatten)]
    watch: Watch,
}

/// A VM's row and its containers.
struct Group {
    vm: Option<NamedVm>,
    pools: Vec<Pool>,
}

impl Group {
    /// Returns the report of the VM with its containers.
    fn report(&self) -> Option<VmReport> {
        let vm = self.vm.as_ref()?;
        Some(VmReport::new(vm, Some(containers(&self.pools))))
    }
}

pub(crate) fn run(context: &mut Context<'_>, arguments: &Arguments) -> Result<()> {
    let target = arguments.target.as_deref();
    if arguments.curve {
        return watch::show(context, &arguments.watch, |context, _| {
            curve::draw(context, target)
        });
    }
    let mut rates = Rates::default();
    watch::show(context, &arguments.watch, |context, elapsed| {
        draw(context, target, elapsed, &mut rates)
    })
}

fn draw(
    context: &Context<'_>,
    target: Option<&str>,
    elapsed: Elapsed,
    rates: &mut Rates,
) -> Result<Frame> {
    let (groups, one) = match context.either()? {
        OpenModule::Host(host) => at_host(context, host, target)?,
        OpenModule::Guest(guest) => in_guest(guest, target)?,
    };
    let report = match groups.as_slice() {
        [Group { vm: None, pools }] => StatsReport::Guest(ContainersReport {
            containers: containers(pools),
        }),
        groups => StatsReport::Host(VmsReport {
            vms: groups.iter().filter_map(Group::report).collect(),
        }),
    };
    let text = match (one, groups.as_slice()) {
        // JSON does not include the text, and laying out a thousand rows is slow.
        _ if context.json => String::new(),
        (true, [Group { vm, pools }]) => pools
            .iter()
            .map(|pool| detail::text(vm.as_ref(), pool, context.columns()))
            .collect(),
        _ => table::text(&groups, elapsed, rates, context.columns()),
    };
    rates.remember(&groups);
    Ok(Frame::new(text, &report))
}

/// Returns the groups to show, and whether they consist of a single container.
fn at_host(
    context: &Context<'_>,
    mut host: Box<dyn HostControl>,
    target: Option<&str>,
) -> Result<(Vec<Group>, bool)> {
    let vms = name_vms(context.system, host.vms()?);
    let Some((vm, container)) = target.map(split) else {
        let pools = host.pools(None)?;
        let of = |vm: &NamedVm| {
            let own = |pool: &&Pool| pool.vm == Some(vm.vm.id);
            pools.iter().filter(own).cloned().collect()
        };
        let groups = vms.into_iter().map(|vm| Group {
            pools: of(&vm),
            vm: Some(vm),
        });
        return Ok((groups.collect(), false));
    };
    let vm = find_vm(&vms, vm)?;
    let mut pools = host.pools(Some(vm.vm.id))?;
    if let Some(container) = container {
        pools = vec![find_pool(&pools, container)?.clone()];
    }
    let group = Group {
        vm: Some(vm.clone()),
        pools,
    };
    Ok((vec![group], container.is_some()))
}

fn in_guest(mut guest: Box<dyn GuestControl>, target: Option<&str>) -> Result<(Vec<Group>, bool)> {
    let mut pools = guest.pools()?;
    if let Some(container) = target {
        pools = vec![find_pool(&pools, container)?.clone()];
        if pools[0].stats.is_none() {
            return Err(Error::new(
                Kind::Failed,
                format!("container {} has no statistics", pool_label(&pools[0])),
            )
            .hint("the host keeps them: `ddctl status` shows whether a host is attached"));
        }
    }
    let group = Group { vm: None, pools };
    Ok((vec![group], target.is_some()))
}

/// Returns the reports of containers.
fn containers(pools: &[Pool]) -> Vec<ContainerReport> {
    pools.iter().map(ContainerReport::from).collect()
}

/// Returns the number of puts per hit, or `None` without a hit.
pub(crate) fn puts_per_hit(stats: &PoolStats) -> Option<f64> {
    (stats.hits > 0).then(|| stats.puts as f64 / stats.hits as f64)
}

/// Returns the part of the requested pages that were hits, or `None` without a request.
pub(crate) fn hit_ratio(stats: &PoolStats) -> Option<f64> {
    let given = stats.gets.saturating_sub(stats.misses);
    (stats.gets > 0).then(|| given as f64 / stats.gets as f64)
}
