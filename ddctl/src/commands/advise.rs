// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl advise`.

use crate::{
    advice::{self, AdviceReport, HostView},
    context::Context,
    error::Result,
    output::Frame,
    target::name_vms,
};
use clap::Args;
use ddnl::Side;
use std::fmt::Write;

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
    // Writing to a string cannot fail.
    for (number, advice) in (1..).zip(&report.advice) {
        let mark = format!("{number}. ");
        text += &paragraph(&mark, &advice.finding);
        for command in &advice.commands {
            let _ = writeln!(text, "     {command}");
        }
        text += &paragraph("   ", &advice.effect);
        text.push('\n');
    }
    if report.advice.is_empty() {
        text += "The numbers suggest no change.\n\n";
    }
    if !report.unknown.is_empty() {
        text += "What is not known:\n";
    }
    for unknown in &report.unknown {
        text += &paragraph("- ", unknown);
    }
    text
}

/// Breaks a text into lines that fit 80 columns, the first of which begins with a mark.
fn paragraph(mark: &str, text: &str) -> String {
    const WIDTH: usize = 79;
    let mut lines = String::new();
    let mut line = mark.to_owned();
    let mut length = mark.len();
    for word in text.split(' ') {
        let word_length = word.chars().count();
        if length + 1 + word_length > WIDTH && length > mark.len() {
            lines += line.trim_end();
            lines.push('\n');
            line = " ".repeat(mark.len());
            length = mark.len();
        }
        if length > mark.len() {
            line.push(' ');
            length += 1;
        }
        line += word;
        length += word_length;
    }
    lines + &line + "\n"
}
