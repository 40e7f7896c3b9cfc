// SPDX-License-Identifier: GPL-2.0-only

//! Causes for which pages at the host become invalid; mirrors `enum dd_change` in `guest.h`. They
//! are only reported by a tracepoint and have no other effect.

use kernel::ffi::c_uint;
use kernel::prelude::*;

/// The cause for which pages became invalid.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Change {
    /// A folio left the page cache, and is not put.
    Removed,
    /// A folio became dirty.
    Dirtied,
    /// The file was truncated, or a hole was punched.
    Truncated,
    /// The kernel invalidated a range, mostly for a direct write.
    Invalidated,
    /// A direct write began.
    Written,
    /// Two files swapped blocks.
    Swapped,
    /// The file became a swap file.
    SwapFile,
    /// The filesystem was unmounted.
    Unmounted,
    /// The inode got another generation.
    Outdated,
}

impl Change {
    /// Returns the cause for a number of C.
    pub(crate) fn from_raw(raw: c_uint) -> Self {
        match raw {
            1 => Self::Dirtied,
            2 => Self::Truncated,
            3 => Self::Invalidated,
            4 => Self::Written,
            5 => Self::Swapped,
            6 => Self::SwapFile,
            _ => Self::Removed,
        }
    }

    /// Returns the name of the cause in the tracepoint.
    pub(crate) fn word(self) -> &'static CStr {
        match self {
            Self::Removed => c"removed",
            Self::Dirtied => c"dirty",
            Self::Truncated => c"truncate",
            Self::Invalidated => c"invalidate",
            Self::Written => c"direct",
            Self::Swapped => c"extents",
            Self::SwapFile => c"swapfile",
            Self::Unmounted => c"unmount",
            Self::Outdated => c"generation",
        }
    }
}
