// SPDX-License-Identifier: GPL-2.0-only

//! Histogram triggers of tracefs. The kernel counts the events itself, so that no event is lost,
//! however many there are.

mod exits;
mod histogram;
mod sums;

use anyhow::Result;
use ddlab::Machine;

pub(crate) use exits::{ExitCounts, Exits};
pub(crate) use histogram::Histogram;
pub(crate) use sums::Sums;

/// Directory of the separate buffers of tracefs. Triggers of a buffer see events whether or not
/// these are recorded.
const INSTANCES: &str = "/sys/kernel/tracing/instances";

/// Triggers in a buffer of their own. They are removed when this is dropped.
#[derive(Debug)]
struct Triggers<'a> {
    machine: &'a Machine,
    instance: String,
    /// Events (`system/name`) and their triggers, in the order in which they were set.
    set: Vec<(String, String)>,
}

impl<'a> Triggers<'a> {
    /// Sets triggers for events. No other buffer of the machine has the same name.
    fn set(
        machine: &'a Machine,
        name: &str,
        triggers: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self> {
        let mut this = Self {
            machine,
            instance: format!("{INSTANCES}/{name}"),
            set: Vec::new(),
        };
        machine.exec_ok(["mkdir", &this.instance])?;
        for (event, trigger) in triggers {
            machine.write_file(&this.file(&event, "trigger"), trigger.as_str())?;
            this.set.push((event, trigger));
        }
        Ok(this)
    }

    /// Returns what was counted of an event.
    fn text(&self, event: &str) -> Result<String> {
        self.machine.read_text(&self.file(event, "hist"))
    }

    fn file(&self, event: &str, name: &str) -> String {
        format!("{}/events/{event}/{name}", self.instance)
    }
}

impl Drop for Triggers<'_> {
    fn drop(&mut self) {
        // A trigger may use variables of earlier ones. If one of them cannot be removed, the
        // machine has failed, and the scenario fails at its next step.
        for (event, trigger) in self.set.iter().rev() {
            let file = self.file(event, "trigger");
            let _ = self.machine.write_file(&file, format!("!{trigger}"));
        }
        let _ = self.machine.exec_ok(["rmdir", &self.instance]);
    }
}
