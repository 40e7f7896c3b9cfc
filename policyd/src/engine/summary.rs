// SPDX-License-Identifier: GPL-2.0-only

//! A summary of the daemon's state in one line.

use std::fmt;

/// State of the daemon that the service manager shows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Summary {
    /// Whether the module is loaded.
    pub module: bool,
    /// Containers of the file that exist.
    pub wanted: usize,
    /// Containers of the file that are enrolled.
    pub enrolled: usize,
    /// Whether all targets can be met, if there are any and it is known.
    pub feasible: Option<bool>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.module {
            return f.write_str("waiting for the kernel module doubledecker_guest");
        }
        let Self {
            wanted, enrolled, ..
        } = self;
        let short = match self.feasible {
            Some(false) => "; not all targets can be met",
            Some(true) | None => "",
        };
        write!(f, "{enrolled} of {wanted} containers enrolled{short}")
    }
}
