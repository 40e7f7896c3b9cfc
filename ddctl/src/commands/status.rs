// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl status`.

use crate::{
    context::{self, Context},
    error::Result,
    output::{Frame, Properties},
    report::StatusReport,
    watch::{self, Watch},
};
use clap::Args;
use ddabi::{PAGE_SIZE, genl::LinkState};
use ddconf::size::{show_bytes, show_pages};
use ddnl::{CounterFields, GuestStatus, HostStatus, Side, reply};

/// Show the modules, the memory tier and the link to the host
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl status",
    "\n  ddctl status --watch 5",
    "\n  ddctl status --json",
))]
pub(crate) struct Arguments {
    #[command(flatten)]
    watch: Watch,
}

pub(crate) fn run(context: &mut Context<'_>, arguments: &Arguments) -> Result<()> {
    watch::show(context, &arguments.watch, |context, _| draw(context))
}

fn draw(context: &Context<'_>) -> Result<Frame> {
    let wanted = |side| context.wanted().is_none_or(|wanted| wanted == side);
    let mut report = StatusReport {
        host: None,
        guest: None,
    };
    let mut texts = Vec::new();
    if wanted(Side::Host) {
        if let Some(host) = context.open_host()? {
            texts.push(host_text(&host.status, context.columns()));
            report.host = Some(host.status);
        }
    }
    if wanted(Side::Guest) {
        if let Some(guest) = context.open_guest()? {
            texts.push(guest_text(&guest.status, context.columns()));
            report.guest = Some(guest.status);
        }
    }
    match (texts.is_empty(), context.wanted()) {
        (false, _) => Ok(Frame::new(texts.join("\n"), &report)),
        (true, Some(side)) => Err(ddnl::Error::NotLoaded { side }.into()),
        (true, None) => Err(context::neither()),
    }
}

fn host_text(status: &HostStatus, columns: usize) -> String {
    let mut facts = Properties::default();
    facts.add(
        "Host module",
        version(&status.module_version, status.abi_version),
    );
    let capacity = status.capacity.max(1);
    facts.add(
        "Memory tier",
        format!(
            "{} of {} used ({} %)",
            show_pages(status.used),
            show_pages(status.capacity),
            status.used.saturating_mul(100) / capacity
        ),
    );
    facts.add("Host can spare", show_pages(status.limit));
    facts.add("Floor", show_pages(status.floor));
    facts.add("Mode", reply::mode_word(status.mode));
    facts.add("Eviction batch", show_pages(status.batch.into()));
    facts.add("VMs", status.vms.to_string());
    let counters = &status.counters;
    facts.add("Calls", counters.calls.to_string());
    let refused = named(counters, |name| name.starts_with("refused_"));
    if !refused.is_empty() {
        facts.add("Refused", refused);
    }
    facts.add(
        "Evicted",
        show_pages(counters.evicted.saturating_add(counters.shrunk)),
    );
    let index = show_bytes(counters.index_bytes);
    facts.add(
        "Index memory",
        match status.index_limit {
            0 => index,
            limit => format!("{index} of at most {}", show_pages(limit)),
        },
    );
    facts.text(columns)
}

fn guest_text(status: &GuestStatus, columns: usize) -> String {
    let mut facts = Properties::default();
    facts.add(
        "Guest module",
        version(&status.module_version, status.abi_version),
    );
    let host = match (status.state, status.vm) {
        (LinkState::Attached, Some(vm)) => format!("attached as VM {vm}"),
        (LinkState::Attached, None) => "attached".into(),
        (LinkState::Alone, _) => "not found: nothing is cached".into(),
        (LinkState::Refused, _) => "refuses this guest: see the kernel log".into(),
    };
    facts.add("Host", host);
    facts.add("Pools", status.pools.to_string());
    let counters = &status.counters;
    facts.add("Calls", counters.calls.to_string());
    facts.add(
        "Put",
        format!(
            "{} of {} pages offered",
            counters.put_stored, counters.put_offered
        ),
    );
    let skipped = named(counters, |name| name.starts_with("put_skipped_"));
    if !skipped.is_empty() {
        facts.add("Not offered", skipped);
    }
    facts.add(
        "Got",
        format!(
            "{} of {} pages requested",
            counters.get_hits, counters.get_asked
        ),
    );
    facts.add(
        "Absent",
        format!("{} pages read without a call", counters.read_absent),
    );
    facts.add(
        "Presence map",
        format!(
            "{} of {} files, {}",
            show_pages(counters.map_pages),
            counters.map_files,
            show_bytes(counters.map_bytes)
        ),
    );
    facts.text(columns)
}

fn version(module: &Option<String>, abi: u32) -> String {
    let module = module.as_deref().unwrap_or("of unknown version");
    format!(
        "{module}, ABI {abi}, pages of {}",
        show_bytes(PAGE_SIZE as u64)
    )
}

/// Returns the counters that are not zero, by the last word of their names.
fn named(counters: &impl CounterFields, wanted: fn(&str) -> bool) -> String {
    let words: Vec<String> = counters
        .counters()
        .into_iter()
        .filter(|(name, value)| wanted(name) && *value > 0)
        .map(|(name, value)| {
            let short = name.rsplit_once('_').map_or(name, |(_, short)| short);
            format!("{short} {value}")
        })
        .collect();
    words.join(", ")
}
