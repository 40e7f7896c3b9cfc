// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl vm`.

use super::stats::hit_ratio;
use crate::{
    context::Context,
    error::Result,
    output::{Frame, Table, show_ratio},
    target::{NamedVm, name_vms},
    watch::{self, Watch},
};
use clap::{Args, Subcommand};
use ddconf::size::show_pages;
use serde_json::{Map, Value, json};

/// Show VMs (host)
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    List(ListArguments),
}

/// List VMs with their VMMs' names, weights and shares
#[derive(Args, Debug)]
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
            show_pages(vm.used),
            show_pages(vm.entitlement),
            show_ratio(hit_ratio(&vm.stats)),
            vm.pools.to_string(),
        ]);
    }
    let json = json!({ "vms": vms.iter().map(vm_json).collect::<Vec<_>>() });
    let text = if vms.is_empty() {
        "No VM has loaded doubledecker_guest yet\n".into()
    } else {
        table.text()
    };
    Ok(Frame { json, text })
}

/// Formats a number, or a dash if it is unknown.
fn show(number: Option<u32>) -> String {
    number.map_or("-".into(), |number| number.to_string())
}

/// Returns a VM as JSON: the module's numbers, and the VMM's names.
pub(crate) fn vm_json(vm: &NamedVm) -> Value {
    let mut fields = fields_of(json!(vm.vm));
    fields.extend(fields_of(json!(vm.vmm)));
    fields.insert("pid".into(), json!(vm.pid()));
    fields.insert("hit_ratio".into(), json!(hit_ratio(&vm.vm.stats)));
    Value::Object(fields)
}

fn fields_of(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
