// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl container set-policy`.

use crate::{
    context::Context,
    error::Result,
    output::Frame,
    report::PolicyReport,
    target::{find_pool, pool_label},
    value,
};
use clap::Args;
use ddnl::{Policy, PoolChange};

/// Choose which of a container's pages to cache
///
/// The policy decides while the container's share is full. Pages that are cached already stay; the
/// history of the previous policy is discarded.
#[derive(Args, Debug)]
#[command(after_help = POLICIES)]
pub(crate) struct Arguments {
    /// Container by name, number or cgroup; `default` for pages outside of all containers
    container: String,
    /// adaptive, fifo, workingset, tinylfu, s3 or mru
    #[arg(value_parser = value::policy)]
    policy: Policy,
}

const POLICIES: &str = "\
Policies:
  adaptive    use the policy that does best in small simulations (default)
  fifo        cache every page, evict the oldest
  workingset  cache pages that the guest kernel counts as refaults
  tinylfu     cache pages that are read more often than the page to evict
  s3          cache every page, evict first those that came only once
  mru         keep the cached pages, for loops larger than the share

Examples:
  ddctl container set-policy nginx tinylfu";

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
    let container = pool.id;
    Frame::done(text, &PolicyReport { container, policy }).print(context)
}
