// SPDX-License-Identifier: GPL-2.0-only

//! Sections of several reports.

use ddlab::Target;
use ddreport::Promise;
use maud::{Markup, html};

use crate::recording::Recording;

/// Returns the promises and their results.
pub(crate) fn promises(targets: &[Target]) -> Markup {
    let promise = |target: &'_ Target| Promise {
        name: target.name.clone(),
        target: target.target.clone(),
        measured: match &target.detail {
            Some(detail) => format!("{} ({detail})", target.measured),
            None => target.measured.clone(),
        },
        met: target.met,
    };
    ddreport::promises(targets.iter().map(promise))
}

/// Returns the explanations of the numbers in a timeline.
pub(crate) fn changes(recording: &Recording) -> Markup {
    html! {
        ol {
            @for change in &recording.changes {
                li {
                    (change.text) " "
                    span.quiet { "at " (format!("{:.0}", change.at)) " s" }
                }
            }
        }
    }
}
