// SPDX-License-Identifier: GPL-2.0

//! Where things are in the source tree.

use std::path::{Path, PathBuf};

/// The top of the source tree.
pub(crate) fn top() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Where results go, whatever directory cargo itself builds in.
pub(crate) fn target() -> PathBuf {
    top().join("target")
}
