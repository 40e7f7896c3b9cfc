// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl set-capacity`.

use crate::{
    context::Context,
    error::{Error, Kind, Result},
    eviction,
    output::Frame,
    size::{Size, show_bytes, show_pages},
    system::System,
    value,
};
use clap::Args;
use ddnl::ConfigChange;
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
    let memory = memory(context.system)?;
    let pages = |size: Option<Size>| size.map(|size| size.pages(memory));
    let capacity = pages(arguments.capacity).unwrap_or(host.status.capacity);
    // The module lowers a floor that would be above the capacity.
    let floor = pages(arguments.floor).unwrap_or(host.status.floor.min(capacity));
    let batch = pages(arguments.batch).unwrap_or(host.status.batch.into());
    check(capacity, floor, batch, memory)?;
    let change = ConfigChange {
        capacity: arguments.capacity.map(|_| capacity),
        floor: arguments.floor.map(|_| floor),
        mode: None,
        batch: match arguments.batch {
            None => None,
            Some(_) => Some(u32::try_from(batch).map_err(|_| batch_error())?),
        },
        deadline: None,
    };
    if host.control.configure(&change)? > 0 {
        eviction::until_within_limit(context.system, &mut *host.control)?;
    }
    let text = format!(
        "Capacity is now {}, floor {}, eviction batch {}",
        show_pages(capacity),
        show_pages(floor),
        show_pages(batch)
    );
    let json = json!({
        "capacity_pages": capacity,
        "floor_pages": floor,
        "batch_pages": batch,
    });
    Frame::done(text, json).print(context)
}

fn check(capacity: u64, floor: u64, batch: u64, memory: u64) -> Result<()> {
    if Size::Bytes(memory).pages(memory) < capacity {
        return Err(Error::new(
            Kind::Usage,
            format!(
                "a capacity of {} is more than this machine's memory of {}",
                show_pages(capacity),
                show_bytes(memory)
            ),
        )
        .hint("leave memory for the VMs themselves; 25% is a good start"));
    }
    if floor > capacity {
        return Err(Error::new(
            Kind::Usage,
            format!(
                "the floor of {} is above the capacity of {}",
                show_pages(floor),
                show_pages(capacity)
            ),
        )
        .hint("give a lower --floor SIZE in the same command"));
    }
    if batch == 0 {
        return Err(batch_error());
    }
    Ok(())
}

fn batch_error() -> Error {
    Error::new(Kind::Usage, "the eviction batch is out of range").hint("2M is the default")
}

/// Bytes of this machine's memory.
fn memory(system: &dyn System) -> Result<u64> {
    let path = system.file("/proc/meminfo");
    let text = std::fs::read_to_string(&path)?;
    let kilobytes = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse::<u64>().ok());
    kilobytes
        .map(|kilobytes| kilobytes << 10)
        .ok_or_else(|| Error::new(Kind::Failed, "/proc/meminfo has no MemTotal"))
}
