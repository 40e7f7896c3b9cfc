// SPDX-License-Identifier: GPL-2.0-only

//! JSON schema of what `--json` prints, and of the lines of the status socket.

use crate::{check::CheckReport, dry_run::DryRunReport, engine::Report};
use ddnl::schema::Document;
use serde_json::Value;

/// Returns the schema of each verb. A line of the status socket is that of `explain`.
pub fn document() -> Value {
    let mut document = Document::default();
    document.add::<CheckReport>("check");
    document.add::<DryRunReport>("dry-run");
    document.add::<Report>("explain");
    document.finish("policyd")
}
