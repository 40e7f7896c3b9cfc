// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl doctor`.

mod kernel;
mod machine;
mod module;
mod needs;

use crate::{
    context::Context,
    error::{Kind, Result},
    output::Frame,
    paragraph::{COLUMNS, paragraph},
    system::System,
};
use clap::Args;
use ddnl::Side;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;

/// Check whether this machine can run DoubleDecker, and advise on what is missing
///
/// Checks a host, a guest, or both, depending on the machine. Exits with 1 if a check fails.
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl doctor",
    "\n  ddctl doctor --json",
))]
pub(crate) struct Arguments {}

/// Results of the checks.
#[derive(JsonSchema, Serialize)]
pub(crate) struct DoctorReport {
    /// The results in the order of the checks.
    checks: Vec<Finding>,
    /// Number of checks that failed.
    failed: usize,
}

/// Result of a check.
#[derive(Debug, JsonSchema, Serialize)]
struct Finding {
    /// The module that the check is for.
    side: Side,
    /// Name of the check.
    check: &'static str,
    /// Severity.
    result: Verdict,
    /// The finding.
    message: String,
    /// Advice on what to do next.
    advice: Option<String>,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// The check passed.
    Ok,
    /// It works with restrictions, or the check was not possible.
    Warn,
    /// Does not work.
    Fail,
}

/// Collects findings about one side.
struct Examination<'a> {
    system: &'a dyn System,
    side: Side,
    findings: Vec<Finding>,
}

impl Examination<'_> {
    fn ok(&mut self, check: &'static str, message: impl Into<String>) {
        self.found(check, Verdict::Ok, message.into(), None);
    }

    fn warn(&mut self, check: &'static str, message: impl Into<String>, advice: &str) {
        self.found(check, Verdict::Warn, message.into(), Some(advice.into()));
    }

    fn fail(&mut self, check: &'static str, message: impl Into<String>, advice: &str) {
        self.found(check, Verdict::Fail, message.into(), Some(advice.into()));
    }

    fn found(
        &mut self,
        check: &'static str,
        result: Verdict,
        message: String,
        advice: Option<String>,
    ) {
        self.findings.push(Finding {
            side: self.side,
            check,
            result,
            message,
            advice,
        });
    }

    /// Returns the text of a file, which is empty if the file cannot be read.
    fn read(&self, path: &str) -> String {
        let bytes = std::fs::read(self.system.file(path)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn exists(&self, path: &str) -> bool {
        self.system.file(path).exists()
    }
}

pub(crate) fn run(context: &mut Context<'_>, _: &Arguments) -> Result<u8> {
    let mut findings = Vec::new();
    for side in sides(context) {
        let mut examination = Examination {
            system: context.system,
            side,
            findings: Vec::new(),
        };
        kernel::examine(&mut examination);
        machine::examine(&mut examination);
        module::examine(&mut examination);
        findings.append(&mut examination.findings);
    }
    let failed = findings
        .iter()
        .filter(|finding| finding.result == Verdict::Fail)
        .count();
    let text = text(&findings, failed);
    let checks = findings;
    Frame::new(text, &DoctorReport { checks, failed }).print(context)?;
    Ok(match failed {
        0 => 0,
        _ => Kind::Failed.exit_code(),
    })
}

/// Returns the sides to check: those whose module is loaded, or else those that the hardware
/// suggests.
fn sides(context: &Context<'_>) -> Vec<Side> {
    if let Some(side) = context.wanted() {
        return vec![side];
    }
    let system = context.system;
    let loaded = [
        (Side::Host, loaded(system.host().err().as_ref())),
        (Side::Guest, loaded(system.guest().err().as_ref())),
    ];
    let looks = [
        (Side::Host, system.file("/dev/kvm").exists()),
        (Side::Guest, machine::is_kvm_guest(system)),
    ];
    let of = |signs: [(Side, bool); 2]| -> Vec<Side> {
        let present = signs.into_iter().filter(|(_, present)| *present);
        present.map(|(side, _)| side).collect()
    };
    match (of(loaded), of(looks)) {
        (sides, _) if !sides.is_empty() => sides,
        (_, sides) if !sides.is_empty() => sides,
        _ => vec![Side::Host],
    }
}

fn loaded(error: Option<&ddnl::Error>) -> bool {
    !matches!(error, Some(ddnl::Error::NotLoaded { .. }))
}

fn text(findings: &[Finding], failed: usize) -> String {
    let mut text = String::new();
    let mut side = None;
    // Writing to a string cannot fail.
    for finding in findings {
        if side != Some(finding.side) {
            side = Some(finding.side);
            let _ = writeln!(text, "As a {}:", finding.side);
        }
        let verdict = match finding.result {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Fail => "FAIL",
        };
        let mark = format!("  {verdict:<4}  {:<11} ", finding.check);
        text += &paragraph(&mark, &finding.message, COLUMNS);
        if let Some(advice) = &finding.advice {
            text += &paragraph(&format!("{:20}-> ", ""), advice, COLUMNS);
        }
    }
    let _ = match failed {
        0 => writeln!(text, "No check failed"),
        1 => writeln!(text, "1 check failed"),
        _ => writeln!(text, "{failed} checks failed"),
    };
    text
}
