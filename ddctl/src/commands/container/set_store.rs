// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl container set-store`.

use super::add::Choice;
use crate::{
    context::Context,
    error::Result,
    output::Frame,
    report::StoreReport,
    target::{find_pool, pool_label},
};
use clap::Args;
use ddabi::pool::Store;
use ddnl::{PoolChange, reply::store_word};

/// Choose where a container's pages are cached
///
/// Pages in the memory tier move to the SSD tier in the background if the new store needs that, as
/// fast as its devices can be written. Pages in the SSD tier stay there until they are read, or, if
/// the new store has memory, until the memory tier has a lot of room.
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl container set-store nginx ssd",
))]
pub(crate) struct Arguments {
    /// Container by name, number or cgroup; `default` for pages outside of all containers
    container: String,
    /// Tiers that cache the pages
    #[arg(value_enum)]
    store: Choice,
}

pub(super) fn run(context: &mut Context<'_>, arguments: &Arguments) -> Result<()> {
    let mut guest = context.guest("container set-store")?;
    let pools = guest.control.pools()?;
    let pool = find_pool(&pools, &arguments.container)?;
    let store = Store::from(arguments.store);
    let change = PoolChange {
        store: Some(store),
        ..PoolChange::default()
    };
    guest.control.set_pool(pool.id, change)?;
    let store = store_word(store);
    let text = format!("Store of container {} is now {store}", pool_label(pool));
    let container = pool.id;
    Frame::done(text, &StoreReport { container, store }).print(context)
}
