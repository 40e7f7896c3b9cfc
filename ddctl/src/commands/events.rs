// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl events`.

use crate::{
    context::Context, error::Result, output::printable, report::EventReport, value,
    watch::timestamp,
};
use clap::Args;
use ddnl::{Event, printable_json, schema::versioned};
use serde_json::json;
use std::fmt::Write;

/// Print events until interrupted or until the module is unloaded
///
/// On a host, the events are VMs and pools that come and go; in a guest, hosts that are found and
/// lost. With --json, prints one object per line.
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl events",
    "\n  ddctl events --count 1 --json",
))]
pub(crate) struct Arguments {
    /// Stop after COUNT events
    #[arg(long, value_name = "COUNT", value_parser = value::count)]
    count: Option<u64>,
}

pub(crate) fn run(context: &mut Context<'_>, arguments: &Arguments) -> Result<()> {
    let side = context.side()?;
    // Refuses a module of another version, whose events would be misread.
    context.either()?;
    let mut events = context.system.events(side)?;
    let mut told = 0;
    while arguments.count.is_none_or(|count| told < count) {
        match events.next_event() {
            Ok(Some(event)) => {
                print(context, &event)?;
                told += 1;
            }
            Ok(None) => return Err(ddnl::Error::NotLoaded { side }.into()),
            Err(error @ ddnl::Error::Overrun) => context.warn(&error.to_string())?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn print(context: &mut Context<'_>, event: &Event) -> Result<()> {
    let time = timestamp(context.system.now());
    if context.json {
        let event = event.clone();
        let json = versioned(json!(EventReport { time, event }));
        writeln!(context.out, "{}", printable_json(&json.to_string()))?;
    } else {
        writeln!(
            context.out,
            "{time}  {:<10}{}",
            event.label(),
            details(event)
        )?;
    }
    context.out.flush()?;
    Ok(())
}

fn details(event: &Event) -> String {
    let mut text = String::new();
    let numbers = [
        ("vm", event.vm),
        ("pid", event.pid),
        ("container", event.pool),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            // Writing to a string cannot fail.
            let _ = write!(text, "  {name} {number}");
        }
    }
    if let Some(name) = event.name.as_deref().filter(|name| !name.is_empty()) {
        let _ = write!(text, "  {}", printable(name));
    }
    text
}
