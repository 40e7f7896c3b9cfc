// SPDX-License-Identifier: GPL-2.0-only

//! What `ddhostd check` found out about a valid file.

use ddvm::Config;
use schemars::JsonSchema;
use serde::Serialize;
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// A valid file.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct CheckReport {
    /// Its path, as the user gave it.
    pub file: PathBuf,
    /// Number of its entries for VMs.
    pub entries: usize,
    /// Number of devices that it lists.
    pub devices: usize,
    /// Number of warnings, which are lines of the standard error.
    pub warnings: usize,
}

impl CheckReport {
    /// Creates the report on a file of which there are this many warnings.
    pub fn new(file: &Path, config: &Config, warnings: usize) -> Self {
        Self {
            file: file.into(),
            entries: config.entries.len(),
            devices: config.ssd.devices.len(),
            warnings,
        }
    }
}

/// For people.
impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: OK, ", self.file.display())?;
        match self.entries {
            1 => f.write_str("1 entry")?,
            entries => write!(f, "{entries} entries")?,
        }
        match self.devices {
            0 => writeln!(f),
            1 => writeln!(f, ", 1 device"),
            devices => writeln!(f, ", {devices} devices"),
        }
    }
}
