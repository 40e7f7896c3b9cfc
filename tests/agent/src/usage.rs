// SPDX-License-Identifier: GPL-2.0-only

//! What a process uses: its processor time, which shows the progress of a VM from outside, and its
//! memory.

use std::{fs, path::PathBuf, time::Duration};

/// Length of the clock ticks in `/proc`, a constant of the kernel's interface.
const TICK: Duration = Duration::from_millis(10);

/// Returns the user and system time of a process and its threads so far, or zero if there is no
/// such process.
#[must_use]
pub fn time(pid: i32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    processor_time(&stat).unwrap_or_default()
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
#[must_use]
pub fn processor_time(stat: &str) -> Option<Duration> {
    let (_, after_name) = stat.rsplit_once(") ")?;
    let mut fields = after_name.split(' ').skip(11);
    let mut ticks = || fields.next()?.parse::<u32>().ok();
    Some(TICK * ticks()?.saturating_add(ticks()?))
}

/// Returns the maximum memory so far in MiB, from `/proc/<pid>/status`.
#[must_use]
pub fn peak_mib(status: &str) -> Option<f64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_odd_names() {
        let stat = "1 (a) b) S 1 1 1 0 -1 4194560 1 2 3 4 70 5 0 0 20 0 1 0 3";
        assert_eq!(processor_time(stat), Some(Duration::from_millis(750)));
        assert_eq!(
            processor_time("1 (a) S 1 1 1 0 -1 4194560 1 2 3 4 70"),
            None
        );
        assert_eq!(processor_time(""), None);
    }

    #[test]
    fn the_peak_of_memory_is_found() {
        let status = "Name:\ta\nVmHWM:\t    3072 kB\nVmRSS:\t 1024 kB\n";
        assert_eq!(peak_mib(status), Some(3.0));
        assert_eq!(peak_mib("Name:\ta\n"), None);
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
