// SPDX-License-Identifier: GPL-2.0

//! Processor time of a process: the progress of a VM, seen from outside.

use std::{fs, time::Duration};

/// Length of the clock ticks in `/proc`, a constant of the kernel's interface.
const TICK: Duration = Duration::from_millis(10);

/// User and system time of a process and its threads so far; zero when there
/// is no such process.
#[must_use]
pub fn time(pid: i32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    TICK * ticks(&stat)
}

/// Both in `/proc/<pid>/stat`. The name, in parentheses, may hold anything.
fn ticks(stat: &str) -> u32 {
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let number = |at: usize| {
        let field = after_name.split(' ').nth(at)?;
        field.parse::<u32>().ok()
    };
    number(11)
        .unwrap_or(0)
        .saturating_add(number(12).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_odd_names() {
        let stat = "1 (a) b) S 1 1 1 0 -1 4194560 1 2 3 4 70 5 0 0 20 0 1 0 3";
        assert_eq!(ticks(stat), 75);
        assert_eq!(ticks(""), 0);
    }

    #[test]
    fn nobody_works_for_nothing() {
        assert_eq!(time(-1), Duration::ZERO);
    }
}
