// SPDX-License-Identifier: GPL-2.0

//! `ddctl container`.

mod add;
mod list;
mod set_policy;

use crate::{
    cli,
    error::Result,
    output::Frame,
    session::Session,
    target::{find_pool, pool_label},
};
use clap::{Args, Subcommand};
use serde_json::json;

/// List, enrol and remove containers (guest)
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    List(list::Arguments),
    Add(add::Arguments),
    Remove(RemoveArguments),
    SetWeight(SetWeightArguments),
    SetPolicy(set_policy::Arguments),
}

/// Remove a container; its pages are dropped
#[derive(Args, Debug)]
pub(crate) struct RemoveArguments {
    /// Container by name, number or cgroup
    container: String,
}

/// Set the weight of containers
#[derive(Args, Debug)]
pub(crate) struct SetWeightArguments {
    /// Container by name, number or cgroup
    #[arg(
        required = true,
        value_name = "CONTAINER",
        allow_negative_numbers = true
    )]
    containers: Vec<String>,
    /// Weight from 0 to 10000
    #[arg(value_parser = cli::weight, allow_negative_numbers = true)]
    weight: u32,
}

pub(crate) fn run(session: &mut Session<'_>, verb: &Verb) -> Result<()> {
    match verb {
        Verb::Add(arguments) => add::run(session, arguments),
        Verb::List(arguments) => list::run(session, arguments),
        Verb::SetPolicy(arguments) => set_policy::run(session, arguments),
        Verb::Remove(arguments) => remove(session, &arguments.container),
        Verb::SetWeight(arguments) => {
            let guest = session.guest("container set-weight")?;
            let containers = &arguments.containers;
            super::set_weight::containers(session, guest.control, containers, arguments.weight)
        }
    }
}

fn remove(session: &mut Session<'_>, container: &str) -> Result<()> {
    let mut guest = session.guest("container remove")?;
    let pools = guest.control.pools()?;
    let pool = find_pool(&pools, container)?;
    guest.control.remove_pool(pool.id)?;
    let text = format!("Removed container {}", pool_label(pool));
    Frame::done(text, json!({ "container": pool.id })).print(session)
}
