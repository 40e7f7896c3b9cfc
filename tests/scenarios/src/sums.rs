// SPDX-License-Identifier: GPL-2.0-only

//! Sums over the events of a module's tracepoints, which the kernel makes, so that no event is
//! lost.

use anyhow::{Context as _, Result};
use ddlab::Machine;

/// A separate buffer of tracefs, whose triggers see events whether or not these are recorded.
const INSTANCE: &str = "/sys/kernel/tracing/instances/doubledecker";

/// Sums that the kernel makes of events.
pub(crate) struct Sums<'a> {
    machine: &'a Machine,
    module: &'a str,
    triggers: &'a [(&'a str, &'a str, &'a str)],
}

impl<'a> Sums<'a> {
    /// Starts to add up. `triggers` are events of a module, each with the field by whose values the
    /// kernel separates them, and the fields that it adds up, two at most.
    pub(crate) fn start(
        machine: &'a Machine,
        module: &'a str,
        triggers: &'a [(&'a str, &'a str, &'a str)],
    ) -> Result<Self> {
        let this = Self {
            machine,
            module,
            triggers,
        };
        machine.exec_ok(["mkdir", INSTANCE])?;
        this.write("")?;
        Ok(this)
    }

    fn write(&self, sign: &str) -> Result<()> {
        for (event, key, fields) in self.triggers {
            let trigger = format!("{sign}hist:keys={key}:vals={fields}");
            self.machine
                .write_file(&format!("{}/trigger", self.folder(event)), trigger)?;
        }
        Ok(())
    }

    fn folder(&self, event: &str) -> String {
        format!("{INSTANCE}/events/{}/{event}", self.module)
    }

    /// Returns the sum of a field, or with `hitcount` the number of events.
    pub(crate) fn of(&self, event: &str, field: &str) -> Result<u64> {
        let path = format!("{}/hist", self.folder(event));
        sum(&self.machine.read_text(&path)?, field)
    }

    /// Ends it.
    pub(crate) fn end(self) -> Result<()> {
        self.write("!")?;
        self.machine.exec_ok(["rmdir", INSTANCE]).map(drop)
    }
}

/// Adds a field up over the entries of a histogram of tracefs.
fn sum(text: &str, field: &str) -> Result<u64> {
    let mut sum = 0;
    for line in text.lines().filter(|line| line.starts_with('{')) {
        let (_, values) = line.split_once('}').context("an entry without an end")?;
        let mut words = values.split_whitespace();
        let named = words.find(|word| word.trim_end_matches(':') == field);
        named.with_context(|| format!("no {field} in {line}"))?;
        sum += words.next().context("no number")?.parse::<u64>()?;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_added_up() {
        let text = "# event histogram\n#\n\n\
            { vm:          1 } hitcount:          9  pages:       1024  stored:       1000\n\
            { vm:          2 } hitcount:          1  pages:          6  stored:          0\n\n\
            Totals:\n    Hits: 10\n    Entries: 2\n    Dropped: 0\n";
        assert_eq!(sum(text, "pages").unwrap(), 1030);
        assert_eq!(sum(text, "stored").unwrap(), 1000);
        assert_eq!(sum(text, "hitcount").unwrap(), 10);
        assert_eq!(sum("", "pages").unwrap(), 0);
        assert!(sum(text, "hits").is_err());
    }
}
