// SPDX-License-Identifier: GPL-2.0-only

//! Paths in the source tree.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// Returns the top of the source tree.
pub(crate) fn top() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Returns the directory of results, whatever directory cargo itself builds in.
pub(crate) fn target() -> PathBuf {
    top().join("target")
}

/// Returns a command for the cargo that started this program, at the top.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(top());
    command
}
