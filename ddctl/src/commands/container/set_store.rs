// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl container set-store`.

use super::add::{Admit, StoreChoice};
use crate::{
    context::Context,
    error::Result,
    output::Frame,
    report::StoreReport,
    target::{find_pool, pool_label},
};
use clap::Args;
use ddabi::pool::{SsdAdmit, Store};
use ddnl::PoolChange;

/// Choose where a container's pages are cached
///
/// With the store `ssd`, pages in the memory tier move to the SSD tier in the background, as fast
/// as its devices can be written. With `mem` or `hybrid`, pages in the SSD tier stay there until
/// they are read, or until the memory tier has a lot of room. With `none`, all pages are dropped.
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl container set-store nginx ssd",
    "\n  ddctl container set-store nginx hybrid --ssd-admit second",
))]
pub(crate) struct Arguments {
    /// Container by name, number or cgroup; `default` for pages outside of all containers
    container: String,
    /// Tiers that cache the pages
    #[arg(value_enum)]
    store: StoreChoice,
    /// Which of its pages go to the SSD tier, if that is to change
    #[arg(long, value_enum)]
    ssd_admit: Option<Admit>,
}

pub(super) fn run(context: &mut Context<'_>, arguments: &Arguments) -> Result<()> {
    let mut guest = context.guest("container set-store")?;
    let pools = guest.control.pools()?;
    let pool = find_pool(&pools, &arguments.container)?;
    let store = Store::from(arguments.store);
    let change = PoolChange {
        store: Some(store),
        ssd_admit: arguments.ssd_admit.map(SsdAdmit::from),
        ..PoolChange::default()
    };
    guest.control.set_pool(pool.id, change)?;
    let store = store.name();
    let ssd_admit = change.ssd_admit.map(SsdAdmit::name);
    let mut text = format!("Store of container {} is now {store}", pool_label(pool));
    if let Some(admit) = ssd_admit {
        text += &format!("; it admits to SSDs: {admit}");
    }
    let report = StoreReport {
        container: pool.id,
        store,
        ssd_admit,
    };
    Frame::done(text, &report).print(context)
}
