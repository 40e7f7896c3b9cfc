// SPDX-License-Identifier: GPL-2.0-only

//! The same memory of a host, spent in four ways on the files of its guests.
//!
//! A [`Workload`] runs in every [`way::Way`]: the guests get the memory, the
//! host's page cache, one FIFO for all, or DoubleDecker. The disk is slowed
//! down below all of them.

mod break_even;
mod comparison;
mod measured;
mod memory;
mod meter;
mod page;
mod trial;
mod warmth;
mod way;
mod workload;

use std::path::PathBuf;

use anyhow::Result;
use ddlab::{Accel, Artifacts, Lab, LabConfig};

use crate::step::step;

pub use comparison::Comparison;
pub use workload::Workload;

/// What is to be compared, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the host machine runs.
    pub accel: Accel,
    /// Where logs and results go.
    pub dir: PathBuf,
    /// With what.
    pub workloads: Vec<Workload>,
}

/// Compares the ways, saying on standard error how far it is.
///
/// # Errors
///
/// Fails if a machine or a program in one fails; goals not reached are no errors.
pub fn run(artifacts: &Artifacts, options: &Options) -> Result<Comparison> {
    let lab = step("boot the KVM host", || {
        Lab::boot(LabConfig {
            accel: options.accel,
            ..LabConfig::new(artifacts.clone(), &options.dir)
        })
    })?;
    let mut measured = Vec::new();
    for &workload in &options.workloads {
        measured.extend(trial::run(&lab, workload)?);
    }
    Ok(Comparison::new(lab.config(), measured))
}
