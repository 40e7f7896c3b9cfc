// SPDX-License-Identifier: GPL-2.0-only

//! A livepatch of one of the functions (`tests/livepatch-module`).

use anyhow::{Result, ensure};
use ddlab::{Machine, wait};

const MODULE: &str = "doubledecker_livepatch";

/// An enabled livepatch.
#[derive(Debug)]
pub(super) struct Livepatch<'a>(&'a Machine);

impl<'a> Livepatch<'a> {
    /// Patches a function for all tasks.
    pub(super) fn enable(machine: &'a Machine, function: &str) -> Result<Self> {
        load(machine, function)?;
        wait::until("the livepatch is enabled", || {
            let transition =
                machine.read_text(&format!("/sys/kernel/livepatch/{MODULE}/transition"))?;
            Ok((transition == "0").then_some(()))
        })?;
        Ok(Self(machine))
    }

    /// A function that the modules divert cannot be patched.
    pub(super) fn is_refused(machine: &Machine, function: &str) -> Result<()> {
        let enabled = load(machine, function);
        ensure!(enabled.is_err(), "a livepatch could patch {function}");
        Ok(())
    }

    /// Disables and unloads it.
    pub(super) fn disable(self) -> Result<()> {
        let enabled = format!("/sys/kernel/livepatch/{MODULE}/enabled");
        self.0.write_file(&enabled, "0")?;
        wait::until("the livepatch is unloaded", || {
            Ok(self.0.unload_module(MODULE).ok())
        })
    }
}

/// Loads the module. The function may be in a module of the kernel.
fn load(machine: &Machine, function: &str) -> Result<()> {
    let symbols = machine.shell(format!("grep -w {function} /proc/kallsyms"))?;
    let object = symbols.lines().find_map(|line| {
        let (_, module) = line.split_once('[')?;
        Some(format!(
            "object={}",
            module.trim_end().trim_end_matches(']')
        ))
    });
    let function = format!("function={function}");
    let parameters = [Some(function.as_str()), object.as_deref()];
    let parameters: Vec<&str> = parameters.into_iter().flatten().collect();
    machine.load_module(MODULE, &parameters)
}
