// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl advise`.

use crate::{
    advice::{self, AdviceReport, HostView},
    context::Context,
    error::Result,
    output::Frame,
    paragraph::{COLUMNS, paragraph},
    target::name_vms,
};
use clap::Args;
use ddnl::Side;

/// Suggest changes of weights and sizes, and estimate their effects
///
/// In a guest, compares the weights of the containers with those that their curves of hits by size
/// suggest. A host has no such curves, so that puts, hits, evictions and refusals are examined;
/// they are sums since each VM registered. Nothing is changed.
///
/// The printed commands change the module. Where ddhostd or policyd has the setting in its file,
/// change it there (on a host, `--save` does that), or the daemon undoes it.
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl advise",
    "\n  ddctl advise --json",
))]
pub(crate) struct Arguments {}

pub(crate) fn run(context: &mut Context<'_>, _: &Arguments) -> Result<()> {
    let report = match context.side()? {
        Side::Host => {
            let mut host = context.host("advise")?;
            let vms = name_vms(context.system, host.control.vms()?);
            let devices = host.control.devices()?;
            advice::host(&HostView {
                status: &host.status,
                vms: &vms,
                devices: &devices,
            })
        }
        Side::Guest => {
            let mut guest = context.guest("advise")?;
            advice::guest(&guest.status, &guest.control.pools()?)
        }
    };
    Frame::new(text(&report), &report).print(context)
}

fn text(report: &AdviceReport) -> String {
    let mut text = String::new();
    for (number, advice) in (1..).zip(&report.advice) {
        let mark = format!("{number}. ");
        text += &paragraph(&mark, &advice.finding, COLUMNS);
        for command in &advice.commands {
            text += &continued(command);
        }
        text += &paragraph("   ", &advice.effect, COLUMNS);
        text.push('\n');
    }
    if report.advice.is_empty() {
        text += "The numbers suggest no change.\n\n";
    }
    if !report.unknown.is_empty() {
        text += "What is not known:\n";
    }
    for unknown in &report.unknown {
        text += &paragraph("- ", unknown, COLUMNS);
    }
    text
}

/// Breaks a command into lines that a shell takes for one.
fn continued(command: &str) -> String {
    const MARK: &str = "     ";
    let lines = paragraph(MARK, command, COLUMNS - 2);
    let lines: Vec<&str> = lines.lines().collect();
    format!("{}\n", lines.join(" \\\n"))
}
