// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl container`.

mod add;
mod list;
mod set_policy;
mod set_store;

use crate::{
    context::Context,
    error::Result,
    output::Frame,
    report::RemovedReport,
    target::{find_pool, pool_label},
    value,
};
use clap::{Args, Subcommand};

/// List, enrol and remove containers (guest)
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    List(list::Arguments),
    Add(add::Arguments),
    Remove(RemoveArguments),
    SetWeight(SetWeightArguments),
    SetPolicy(set_policy::Arguments),
    SetStore(set_store::Arguments),
}

/// Remove a container and drop its pages
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl container remove nginx",
))]
pub(crate) struct RemoveArguments {
    /// Container by name, number or cgroup
    container: String,
}

/// Set the weight of containers
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl container set-weight nginx 300",
))]
pub(crate) struct SetWeightArguments {
    /// Container by name, number or cgroup
    #[arg(
        required = true,
        value_name = "CONTAINER",
        allow_negative_numbers = true
    )]
    containers: Vec<String>,
    /// Weight from 0 to 10000
    #[arg(value_parser = value::last_weight, allow_negative_numbers = true)]
    weight: u32,
    /// Weight in the SSD tier, if it differs
    #[arg(long, value_name = "WEIGHT", value_parser = value::weight, allow_negative_numbers = true)]
    ssd: Option<u32>,
}

pub(crate) fn run(context: &mut Context<'_>, verb: &Verb) -> Result<()> {
    match verb {
        Verb::Add(arguments) => add::run(context, arguments),
        Verb::List(arguments) => list::run(context, arguments),
        Verb::SetPolicy(arguments) => set_policy::run(context, arguments),
        Verb::SetStore(arguments) => set_store::run(context, arguments),
        Verb::Remove(arguments) => remove(context, &arguments.container),
        Verb::SetWeight(arguments) => {
            let guest = context.guest("container set-weight")?;
            let containers = &arguments.containers;
            let weights = (arguments.weight, arguments.ssd);
            super::set_weight::containers(context, guest.control, containers, weights)
        }
    }
}

fn remove(context: &mut Context<'_>, container: &str) -> Result<()> {
    let mut guest = context.guest("container remove")?;
    let pools = guest.control.pools()?;
    let pool = find_pool(&pools, container)?;
    guest.control.remove_pool(pool.id)?;
    let text = format!("Removed container {}", pool_label(pool));
    Frame::done(text, &RemovedReport { container: pool.id }).print(context)
}
