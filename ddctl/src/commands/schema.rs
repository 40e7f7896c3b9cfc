// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl schema`.

use crate::{context::Context, error::Result, schema};
use clap::Args;

/// Print the JSON schema of what --json prints
///
/// The schema has a version, which each output repeats as `schema_version`. The version rises when
/// a field is removed, is renamed or changes its meaning; a new field does not change it.
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl schema > ddctl.schema.json",
))]
pub(crate) struct Arguments {}

pub(crate) fn run(context: &mut Context<'_>, _: &Arguments) -> Result<()> {
    Ok(writeln!(context.out, "{:#}", schema::document())?)
}
