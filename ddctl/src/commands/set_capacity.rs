// SPDX-License-Identifier: GPL-2.0

//! `ddctl set-capacity`.

use crate::{context::Context, error::Result, eviction, output::Frame, value};
use clap::Args;
use ddconf::size::{Size, show_pages};
use ddvm::tier::{self, Sizes};
use serde_json::json;

/// Set capacity, floor and eviction batch of the memory tier (host)
///
/// Sizes are written like 512M, 2G, or 25% of this machine's memory.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The most memory that the cache may use
    #[arg(value_name = "SIZE", value_parser = value::size, required_unless_present_any = ["floor", "batch"])]
    capacity: Option<Size>,
    /// Memory that the cache keeps when the host runs short of memory
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    floor: Option<Size>,
    /// Memory that one eviction frees
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    batch: Option<Size>,
}

pub(crate) fn run(context: &mut Context<'_>, arguments: &Arguments) -> Result<()> {
    let mut host = context.host("set-capacity")?;
    let memory = tier::memory(&context.system.file("/proc/meminfo"))?;
    let sizes = Sizes {
        capacity: arguments.capacity,
        floor: arguments.floor,
        batch: arguments.batch,
    };
    let change = sizes.change(memory, Some(host.status.capacity))?;
    let capacity = change.capacity.unwrap_or(host.status.capacity);
    // The module lowers a floor that would be above the capacity.
    let floor = change.floor.unwrap_or(host.status.floor.min(capacity));
    let batch = change.batch.unwrap_or(host.status.batch);
    if host.control.configure(&change)? > 0 {
        eviction::until_within_limit(&mut *host.control)?;
    }
    let text = format!(
        "Capacity is now {}, floor {}, eviction batch {}",
        show_pages(capacity),
        show_pages(floor),
        show_pages(batch.into())
    );
    let json = json!({
        "capacity_pages": capacity,
        "floor_pages": floor,
        "batch_pages": batch,
    });
    Frame::done(text, json).print(context)
}
