// SPDX-License-Identifier: GPL-2.0-only

//! JSON schema of what `--json` prints, and of the lines of the status socket.

use crate::{check::CheckReport, dry_run::DryRun, report::Report};
use ddnl::schema::Document;
use serde_json::Value;

/// Returns the schema of each verb. A line of the status socket is that of `status`.
pub fn document() -> Value {
    let mut document = Document::default();
    document.add::<CheckReport>("check");
    document.add::<DryRun>("dry-run");
    document.add::<Report>("status");
    document.finish("ddhostd")
}
