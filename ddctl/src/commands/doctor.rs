// SPDX-License-Identifier: GPL-2.0

//! `ddctl doctor`.

use crate::{error::Result, session::Session};
use clap::Args;

/// Check what this machine needs, and say what to do about what is missing
#[derive(Args, Debug)]
pub(crate) struct Arguments {}

pub(crate) fn run(_session: &mut Session<'_>, _arguments: &Arguments) -> Result<u8> {
    Ok(0)
}
