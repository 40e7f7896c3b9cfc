// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl vm`.

use super::stats::hit_ratio;
use crate::{
    context::Context,
    error::Result,
    number,
    output::Frame,
    report::{VmReport, VmsReport},
    table::Table,
    target::name_vms,
    watch::{self, Watch},
};
use clap::{Args, Subcommand};

/// Show VMs (host)
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    List(ListArguments),
}

/// List VMs with their VMMs' names, weights and shares
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl vm list",
    "\n  ddctl vm list --json",
))]
pub(crate) struct ListArguments {
    #[command(flatten)]
    watch: Watch,
}

pub(crate) fn run(context: &mut Context<'_>, verb: &Verb) -> Result<()> {
    let Verb::List(arguments) = verb;
    watch::show(context, &arguments.watch, |context, _| list(context))
}

fn list(context: &Context<'_>) -> Result<Frame> {
    let mut host = context.host("vm list")?;
    let vms = name_vms(context.system, host.control.vms()?);
    let mut table = Table::new(
        2,
        &[
            "ID", "NAME", "PID", "UID", "WEIGHT", "USED", "ENTITLED", "HIT", "POOLS",
        ],
    );
    for named in &vms {
        let vm = &named.vm;
        table.row([
            vm.id.to_string(),
            named.label(),
            show(named.pid()),
            show(named.vmm.uid),
            vm.weight.to_string(),
            number::size(vm.used),
            number::size(vm.entitlement),
            number::percent(hit_ratio(&vm.stats)),
            vm.pools.to_string(),
        ]);
    }
    let report = VmsReport {
        vms: vms.iter().map(|vm| VmReport::new(vm, None)).collect(),
    };
    let text = if vms.is_empty() {
        "No VM has loaded doubledecker_guest yet\n".into()
    } else {
        table.text(context.columns())
    };
    Ok(Frame::new(text, &report))
}

/// Formats a number, or a dash if it is unknown.
fn show(number: Option<u32>) -> String {
    number.map_or("-".into(), |number| number.to_string())
}
