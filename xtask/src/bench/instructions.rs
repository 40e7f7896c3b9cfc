// SPDX-License-Identifier: GPL-2.0-only

//! Runs a benchmark in an emulated machine whose clock counts instructions, so that the result is
//! the same on any machine.

use std::fs;

use anyhow::{Context as _, Result};
use ddlab::{Accel, Lab, LabConfig};

use crate::{
    cache,
    image::{self, Content},
    package,
    suite::KernelArgs,
    workspace,
};

/// Directory for the benchmark's result inside a machine.
const INSIDE: &str = "/run/bench";

/// Runs the benchmark with these arguments, and writes `instructions.json` to a folder of the
/// build. Returns whether its targets were met.
pub(super) fn count(folder: &str, arguments: &[&str]) -> Result<bool> {
    package::install_missing()?;
    let _lock = cache::lock("vm.lock")?;
    let artifacts = image::artifacts(&KernelArgs::default(), Accel::Tcg, Content::Bench)?;
    let dir = workspace::target().join(folder);
    let lab = Lab::boot(LabConfig {
        accel: Accel::Tcg,
        vcpus: 1,
        slots: 0,
        count_instructions: true,
        ..LabConfig::new(artifacts, dir.join("machine"))
    })?;
    eprintln!("each nanosecond below is an instruction");
    let mut words = vec!["ddbench"];
    words.extend(arguments);
    words.extend(["--out", INSIDE]);
    let output = lab.host().exec(words)?;
    println!("{}", output.text());
    let result = lab
        .host()
        .exec_ok(["cat", &format!("{INSIDE}/result.json")])?;
    let path = dir.join("instructions.json");
    fs::write(&path, result).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(output.exit.success())
}
