// SPDX-License-Identifier: GPL-2.0-only

//! Processor time of a process, which shows the progress of a VM from outside.

use std::{fs, path::PathBuf, time::Duration};

/// Length of the clock ticks in `/proc`, a constant of the kernel's interface.
const TICK: Duration = Duration::from_millis(10);

/// Returns the user and system time of a process and its threads so far, or zero if there is no
/// such process.
#[must_use]
pub fn time(pid: i32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    TICK * ticks(&stat)
}

/// Returns the time for which a process's threads were ready to run and had no processor so far.
#[must_use]
pub fn waited(pid: i32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let waited = |path: PathBuf| delay(&fs::read_to_string(path).unwrap_or_default());
    threads
        .map(|one| waited(one.path().join("schedstat")))
        .sum()
}

/// Parses the second number of `/proc/<pid>/task/<tid>/schedstat`, in nanoseconds.
fn delay(schedstat: &str) -> Duration {
    let number = schedstat.split_whitespace().nth(1);
    Duration::from_nanos(number.and_then(|word| word.parse().ok()).unwrap_or(0))
}

/// Returns the sum of both times in `/proc/<pid>/stat`. The name in parentheses may contain any
/// characters.
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
    fn delays_are_the_second_number() {
        assert_eq!(delay("5 1500 7\n"), Duration::from_nanos(1500));
        assert_eq!(delay(""), Duration::ZERO);
    }

    #[test]
    fn a_missing_process_has_used_no_time() {
        assert_eq!(time(-1), Duration::ZERO);
        assert_eq!(waited(-1), Duration::ZERO);
    }
}
