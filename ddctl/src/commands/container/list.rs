// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl container list`.

use crate::{
    context::Context,
    error::Result,
    number,
    output::{Frame, printable},
    report::ContainersReport,
    table::Table,
    target::pool_label,
    watch::{self, Watch},
};
use clap::Args;

/// List containers with their cgroups, policies, weights and shares
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl container list",
    "\n  ddctl container list --watch",
))]
pub(crate) struct Arguments {
    #[command(flatten)]
    watch: Watch,
}

pub(super) fn run(context: &mut Context<'_>, arguments: &Arguments) -> Result<()> {
    watch::show(context, &arguments.watch, |context, _| draw(context))
}

fn draw(context: &Context<'_>) -> Result<Frame> {
    let mut guest = context.guest("container list")?;
    let pools = guest.control.pools()?;
    let mut table = Table::new(
        4,
        &["ID", "NAME", "STORE", "POLICY", "WEIGHT", "USED", "CGROUP"],
    )
    .with_tail();
    for pool in &pools {
        let stats = pool.stats_or_zero();
        table.row([
            pool.id.to_string(),
            pool_label(pool),
            pool.store.name().into(),
            pool.policy.name().into(),
            pool.weight.to_string(),
            number::size(stats.used),
            pool.cgroup.as_deref().map_or("-".into(), printable),
        ]);
    }
    let containers = pools.iter().map(Into::into).collect();
    Ok(Frame::new(
        table.text(context.columns()),
        &ContainersReport { containers },
    ))
}
