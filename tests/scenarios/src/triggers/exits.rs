// SPDX-License-Identifier: GPL-2.0-only

//! Time for which KVM keeps vCPUs out of their guests for hypercalls. The kernel measures the time
//! from each `kvm_exit` to the following `kvm_entry`.

use anyhow::{Context as _, Result};
use ddlab::Machine;

use super::Triggers;

/// `VMCALL` of Intel's processors, `VMMCALL` of AMD's.
const HYPERCALLS: &str = "(isa == 1 && exit_reason == 18) || (isa == 2 && exit_reason == 129)";
const BEGIN: &str = "hist:keys=common_pid:begin=common_timestamp.usecs";
const END: &str =
    "hist:keys=common_pid:took=common_timestamp.usecs-$begin:onmax($took).save(vcpu_id)";
/// The events with which an exit begins and ends.
const EXIT: &str = "kvm/kvm_exit";
const ENTRY: &str = "kvm/kvm_entry";

/// Measures exits from its construction on.
#[derive(Debug)]
pub(crate) struct Exits<'a>(Triggers<'a>);

/// Number and longest duration of the exits in a measurement.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct ExitCounts {
    pub(crate) count: u64,
    pub(crate) longest_us: u64,
}

impl<'a> Exits<'a> {
    /// Starts to watch hypercalls of all guests of a host. No other watch may be active there.
    pub(crate) fn watch(host: &'a Machine) -> Result<Self> {
        let triggers = [
            (EXIT, format!("{BEGIN} if {HYPERCALLS}")),
            (ENTRY, END.to_owned()),
        ];
        let triggers = triggers.map(|(event, trigger)| (event.to_owned(), trigger));
        Triggers::set(host, "exits", triggers).map(Self)
    }

    /// Ends the measurement and returns its result.
    pub(crate) fn end(self) -> Result<ExitCounts> {
        let text = self.0.text(ENTRY)?;
        parse(&text).with_context(|| format!("the kernel printed {text}"))
    }
}

/// Parses a line for each vCPU's thread, and one below it for its longest exit.
fn parse(text: &str) -> Result<ExitCounts> {
    let mut seen = ExitCounts::default();
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "hitcount:" => seen.count += words.next().context("no number")?.parse::<u64>()?,
            "max:" => {
                let longest = words.next().context("no number")?.parse()?;
                seen.longest_us = seen.longest_us.max(longest);
            }
            _ => {}
        }
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_all_threads_counts() {
        let text = "# event histogram\n#\n# trigger info: hist:keys=common_pid:vals=hitcount\n#\n\n\
            { common_pid:        901 } hitcount:        280\n\
            \tmax:        572  vcpu_id:          0\n\n\
            { common_pid:        902 } hitcount:         12\n\
            \tmax:         71  vcpu_id:          1\n\n\
            Totals:\n    Hits: 292\n    Entries: 2\n    Dropped: 0\n";
        let seen = ExitCounts {
            count: 292,
            longest_us: 572,
        };
        assert_eq!(parse(text).unwrap(), seen);
        assert!(parse("{ common_pid: 1 } hitcount:").is_err());
    }
}
