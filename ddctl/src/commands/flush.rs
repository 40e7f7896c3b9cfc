// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl flush`.

use crate::{
    context::{Context, OpenModule},
    error::Result,
    eviction,
    output::Frame,
    report::FlushReport,
    target::{find_pool, find_vm, name_vms, pool_label, split},
};
use clap::Args;
use ddnl::FlushTarget;

/// Drop cached pages
///
/// No data is lost: the next read of a dropped page comes from disk.
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl flush web",
    "\n  ddctl flush web/nginx",
    "\n  ddctl flush --all",
))]
pub(crate) struct Arguments {
    /// On a host, a VM by number, process id, name or uuid, optionally with one of its
    /// containers; in a guest, a container by name or number
    #[arg(value_name = "VM[/CONTAINER]", required_unless_present = "all")]
    target: Option<String>,
    /// Drop the pages of all VMs (host) or of this whole VM (guest)
    #[arg(long, conflicts_with = "target")]
    all: bool,
}

pub(crate) fn run(context: &mut Context<'_>, arguments: &Arguments) -> Result<()> {
    let target = arguments.target.as_deref();
    let (what, report) = match context.either()? {
        OpenModule::Host(mut host) => {
            let mut flush = FlushTarget::default();
            let mut what = String::from("all VMs");
            if let Some((vm, container)) = target.map(split) {
                let vms = name_vms(context.system, host.vms()?);
                let vm = find_vm(&vms, vm)?;
                flush.vm = Some(vm.vm.id);
                what = format!("VM {}", vm.label());
                if let Some(container) = container {
                    let pools = host.pools(flush.vm)?;
                    let pool = find_pool(&pools, container)?;
                    flush.pool = Some(pool.id);
                    what = format!("container {} of VM {}", pool_label(pool), vm.label());
                }
            }
            eviction::flush(&mut *host, flush)?;
            let report = FlushReport::Host {
                vm: flush.vm,
                container: flush.pool,
            };
            (what, report)
        }
        OpenModule::Guest(mut guest) => {
            let mut pool = None;
            let mut what = String::from("this VM");
            if let Some(container) = target {
                let pools = guest.pools()?;
                let found = find_pool(&pools, container)?;
                pool = Some(found.id);
                what = format!("container {}", pool_label(found));
            }
            guest.flush(pool)?;
            (what, FlushReport::Guest { container: pool })
        }
    };
    Frame::done(format!("Dropped the pages of {what}"), &report).print(context)
}
