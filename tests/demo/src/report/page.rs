// SPDX-License-Identifier: GPL-2.0-only

//! The frame of a report, and common parts.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use ddlab::Target;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::recording::Recording;

const STYLE: &str = include_str!("style.css");

/// Returns a whole document.
pub(crate) fn page(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main { (body) }
            }
        }
    }
}

/// Writes a document as a directory's `report.html`.
pub(crate) fn write(dir: &Path, page: &Markup) -> Result<()> {
    let path = dir.join("report.html");
    fs::write(&path, &page.0).with_context(|| format!("cannot write {}", path.display()))
}

/// Returns the promises and their results.
pub(crate) fn promises(targets: &[Target]) -> Markup {
    html! {
        table {
            thead {
                tr { th { "promise" } th { "target" } th { "measured" } th { "met" } }
            }
            tbody {
                @for target in targets {
                    tr {
                        td { (target.name) }
                        td.figure { (target.target) }
                        td.figure { (target.measured) }
                        td.figure {
                            @if target.met { "yes" } @else { strong { "no" } }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the explanations of the numbers in a timeline.
pub(crate) fn changes(recording: &Recording) -> Markup {
    html! {
        ol.changes {
            @for change in &recording.changes {
                li {
                    (change.text) " "
                    span.quiet { "at " (format!("{:.0}", change.at)) " s" }
                }
            }
        }
    }
}
