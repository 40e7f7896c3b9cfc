// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl set-capacity`.

use crate::{
    context::Context,
    error::{Error, Kind, Result},
    eviction,
    output::Frame,
    report::CapacityReport,
    save, value,
};
use clap::Args;
use ddconf::size::{Size, show_pages};
use ddvm::{
    Editor,
    tier::{self, Sizes, Threshold},
};

/// Set capacity, floor, eviction batch and thresholds of the memory tier (host)
///
/// Sizes are written like 512M, 2G, or 25% of this machine's memory.
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl set-capacity 25% --floor 512M",
    "\n  ddctl set-capacity 8G --save",
))]
pub(crate) struct Arguments {
    /// Largest size of the memory tier
    #[arg(value_name = "SIZE", value_parser = value::size, required_unless_present_any = ["floor", "batch", "keep_free", "promote_free"])]
    capacity: Option<Size>,
    /// Memory that the tier keeps when the host runs short of memory
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    floor: Option<Size>,
    /// Memory that one eviction frees
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    batch: Option<Size>,
    /// Free room that the background evictor maintains by moving pages to the SSD tier or evicting
    /// them; `auto` for the smaller of a batch and a 64th of the capacity
    #[arg(long, value_name = "SIZE", value_parser = threshold)]
    keep_free: Option<Threshold>,
    /// Free room above which pages of the SSD tier are moved back to memory; `auto` for the smaller
    /// of 64M and a quarter of the capacity
    #[arg(long, value_name = "SIZE", value_parser = threshold)]
    promote_free: Option<Threshold>,
    /// Make the sizes permanent: write them into /etc/doubledecker/host.toml for ddhostd
    #[arg(long)]
    save: bool,
}

fn threshold(text: &str) -> std::result::Result<Threshold, String> {
    text.parse()
}

pub(crate) fn run(context: &mut Context<'_>, arguments: &Arguments) -> Result<()> {
    let mut host = context.host("set-capacity")?;
    let memory = tier::memory(&context.system.file("/proc/meminfo"))?;
    let sizes = Sizes {
        capacity: arguments.capacity,
        floor: arguments.floor,
        batch: arguments.batch,
        keep_free: arguments.keep_free,
        promote_free: arguments.promote_free,
    };
    let change = sizes.change(memory, Some(host.status.capacity))?;
    let capacity = change.capacity.unwrap_or(host.status.capacity);
    // The module lowers a floor that would be above the capacity.
    let floor = change.floor.unwrap_or(host.status.floor.min(capacity));
    let batch = change.batch.unwrap_or(host.status.batch);
    let editor = match arguments.save {
        true => Some(edit(context, &sizes)?),
        false => None,
    };
    if host.control.configure(&change)? > 0 {
        eviction::until_within_limit(context.system, &mut *host.control)?;
    }
    let status = host.control.status()?;
    let mut text = format!(
        "Capacity is now {}, floor {}, eviction batch {}\n",
        show_pages(capacity),
        show_pages(floor),
        show_pages(batch.into())
    );
    if change.keep_free.is_some() || change.promote_free.is_some() {
        text += &format!(
            "{} are kept free, and pages are promoted while more than {} are free\n",
            show_pages(status.keep_free),
            show_pages(status.promote_free)
        );
    }
    let mut report = CapacityReport {
        capacity_pages: capacity,
        floor_pages: floor,
        batch_pages: batch,
        keep_free_pages: status.keep_free,
        promote_free_pages: status.promote_free,
        saved: None,
    };
    let mut result = Ok(());
    match editor.map(|editor| save::finish(context.system, editor)) {
        None => {
            text += "The setting is lost when the module is loaded again, or when ddhostd applies \
                         its file, if that has another; `--save` makes it permanent\n";
        }
        Some(Ok(saved)) => {
            text += &format!("{}\n", saved.text());
            report.saved = Some(saved.path());
        }
        // The sizes are in force although they could not be saved.
        Some(Err(error)) => result = Err(error),
    }
    Frame::new(text, &report).print(context)?;
    result
}

/// Changes the file of the host in memory.
fn edit<'a>(context: &Context<'_>, sizes: &'a Sizes) -> Result<Editor<'a>> {
    let mut editor = save::open(context.system)?;
    editor
        .change(|file| file.set_sizes(sizes))
        .map_err(|error| Error::new(Kind::Failed, error).hint("nothing was changed"))?;
    Ok(editor)
}
