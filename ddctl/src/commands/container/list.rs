// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl container list`.

use crate::{
    commands::stats::hit_ratio,
    context::Context,
    error::Result,
    output::{Frame, Table, printable, show_ratio},
    report::ContainersReport,
    target::pool_label,
    watch::{self, Watch},
};
use clap::Args;
use ddconf::size::show_pages;
use ddnl::reply::store_word;

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
        5,
        &[
            "ID", "NAME", "CGROUP", "STORE", "POLICY", "WEIGHT", "USED", "ENTITLED", "HIT",
        ],
    );
    for pool in &pools {
        let stats = pool.stats_or_zero();
        table.row([
            pool.id.to_string(),
            pool_label(pool),
            pool.cgroup.as_deref().map_or("-".into(), printable),
            store_word(pool.store).into(),
            pool.policy.name().into(),
            pool.weight.to_string(),
            show_pages(stats.used),
            show_pages(stats.entitlement),
            show_ratio(hit_ratio(&stats)),
        ]);
    }
    let containers = pools.iter().map(Into::into).collect();
    Ok(Frame::new(table.text(), &ContainersReport { containers }))
}
