// SPDX-License-Identifier: GPL-2.0

//! `ddctl container set-policy`.

use crate::{
    context::Context,
    error::Result,
    output::Frame,
    target::{find_pool, pool_label},
    value,
};
use clap::Args;
use ddnl::{Policy, PoolChange};
use serde_json::json;

/// Choose which of a container's pages are worth keeping
///
/// adaptive: whatever does best in small; fifo: everything enters, the oldest leaves; workingset:
/// what the kernel calls refaulted; tinylfu: what is read more often than what would leave; s3: a
/// small queue for the unknown, a main queue for pages that come again; mru: what is there stays,
/// for loops larger than the share. Pages that are kept stay; what was learnt is forgotten.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Container by name, number or cgroup; `default` for everything outside containers
    container: String,
    /// adaptive, fifo, workingset, tinylfu, s3 or mru
    #[arg(value_parser = value::policy)]
    policy: Policy,
}

pub(super) fn run(context: &mut Context<'_>, arguments: &Arguments) -> Result<()> {
    let mut guest = context.guest("container set-policy")?;
    let pools = guest.control.pools()?;
    let pool = find_pool(&pools, &arguments.container)?;
    let change = PoolChange {
        policy: Some(arguments.policy),
        ..PoolChange::default()
    };
    guest.control.set_pool(pool.id, change)?;
    let policy = arguments.policy.name();
    let text = format!("Policy of container {} is now {policy}", pool_label(pool));
    Frame::done(text, json!({ "container": pool.id, "policy": policy })).print(context)
}
