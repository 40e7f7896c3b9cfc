// SPDX-License-Identifier: GPL-2.0-only

//! Compares four uses of the same memory of a host for the files of its guests.
//!
//! A [`Workload`] runs in every [`way::Way`]: the memory goes to the guests, to the host's page
//! cache, to one FIFO for all, or to DoubleDecker. The disk is slowed down below all of them.

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

/// Parameters of a comparison.
#[derive(Clone, Debug)]
pub struct Options {
    /// The accelerator of the host machine.
    pub accel: Accel,
    /// Directory for logs and results.
    pub dir: PathBuf,
    /// The workloads.
    pub workloads: Vec<Workload>,
}

/// Compares the ways, and prints the progress on standard error.
///
/// # Errors
///
/// Fails if a machine or a program in one fails. Missed goals are not errors.
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
    Ok(Comparison::new(&lab, &options.workloads, measured))
}
