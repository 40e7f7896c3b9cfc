// SPDX-License-Identifier: GPL-2.0-only

//! Sums over the events of a module's tracepoints.

use anyhow::{Context as _, Result};
use ddlab::Machine;

use super::Triggers;

/// Sums that the kernel makes of events. They end when they are dropped.
pub(crate) struct Sums<'a> {
    module: &'a str,
    triggers: Triggers<'a>,
}

impl<'a> Sums<'a> {
    /// Starts to add up. `sums` are events of a module, each with the field by whose values the
    /// kernel separates them, and the fields that it adds up, two at most.
    pub(crate) fn start(
        machine: &'a Machine,
        module: &'a str,
        sums: &[(&str, &str, &str)],
    ) -> Result<Self> {
        let triggers = sums.iter().map(|(event, key, fields)| {
            let trigger = format!("hist:keys={key}:vals={fields}");
            (format!("{module}/{event}"), trigger)
        });
        let triggers = Triggers::set(machine, module, triggers)?;
        Ok(Self { module, triggers })
    }

    /// Returns the sum of a field, or with `hitcount` the number of events.
    pub(crate) fn of(&self, event: &str, field: &str) -> Result<u64> {
        let text = self.triggers.text(&format!("{}/{event}", self.module))?;
        sum(&text, field)
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
