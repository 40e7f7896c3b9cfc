// SPDX-License-Identifier: GPL-2.0-only

//! Counts of an event by the values of a field.

use anyhow::Result;
use ddlab::Machine;

use super::Triggers;

/// Counts of an event by the values of a field. The histogram ends when it is dropped.
pub(crate) struct Histogram<'a> {
    event: &'static str,
    triggers: Triggers<'a>,
}

impl<'a> Histogram<'a> {
    /// Starts to count an event, which is `system/name`, by a field.
    pub(crate) fn start(machine: &'a Machine, event: &'static str, key: &str) -> Result<Self> {
        let trigger = (event.to_owned(), format!("hist:keys={key}"));
        let triggers = Triggers::set(machine, &event.replace('/', "-"), [trigger])?;
        Ok(Self { event, triggers })
    }

    /// Returns the values of the field that were seen.
    pub(crate) fn values(&self) -> Result<Vec<u64>> {
        let text = self.triggers.text(self.event)?;
        let values = text.lines().filter_map(|line| {
            let value = line.strip_prefix("{ ")?.split_once(':')?.1;
            value.split_whitespace().next()?.parse().ok()
        });
        Ok(values.collect())
    }

    /// Returns the number of events in whose stack there is a function of a module.
    pub(crate) fn by_module(&self, module: &str) -> Result<u64> {
        counted(&self.triggers.text(self.event)?, &format!("[{module}]"))
    }
}

/// Adds up the events of the entries that contain a word.
fn counted(text: &str, word: &str) -> Result<u64> {
    let mut count = 0;
    for entry in text.split("\n{ ").skip(1) {
        let (key, values) = entry.split_once('}').unwrap_or((entry, ""));
        if key.contains(word) {
            let hits = values.split_whitespace().nth(1).unwrap_or_default();
            count += hits.parse::<u64>()?;
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_of_a_module_are_counted() {
        let text = "# event histogram\n#\n\n\
            { common_stacktrace:\n         wakeup_kswapd+0x1/0x2\n         \
            dd_page_alloc+0x1/0x2 [doubledecker_host]\n} hitcount:          2\n\
            { common_stacktrace:\n         wakeup_kswapd+0x1/0x2\n         \
            handle_mm_fault+0x1/0x2\n} hitcount:          5\n\
            { common_stacktrace:\n         dd_other+0x1/0x2 [doubledecker_host]\n\
            } hitcount:          1\n\nTotals:\n    Hits: 8\n    Entries: 3\n    Dropped: 0\n";
        assert_eq!(counted(text, "[doubledecker_host]").unwrap(), 3);
        assert_eq!(counted(text, "[other]").unwrap(), 0);
        assert_eq!(counted("", "x").unwrap(), 0);
        assert!(counted("\n{ a:\n [x]\n} hitcount:", "[x]").is_err());
    }
}
