// SPDX-License-Identifier: GPL-2.0-only

//! Verdicts about kernel logs.

use std::sync::LazyLock;

use regex::{Regex, RegexSet};

/// Lines that report a problem of a kernel.
static BAD: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSet::new([
        r"\bWARNING: ",
        r"\bBUG: ",
        r"\bBUG at ",
        r"\bBUG [\w-]+ \(",
        r"\bOops\b",
        r"Kernel panic",
        r"general protection fault",
        r"unable to handle",
        r"soft lockup",
        r"hard LOCKUP",
        r"rcu: .*(detected stalls|self-detected stall|kthread starved)",
        r"blocked for more than",
        r"blocked in I/O wait",
        r"unreferenced object",
        r"[Oo]bjects remaining",
        r"still has objects",
        r"Bad page (state|map|cache)",
        r"refcount_t: ",
        r"\b(KASAN|KCSAN|KMSAN|UBSAN): ",
        r"possible (circular|recursive) locking",
        r"inconsistent lock state",
        r"sleeping function called",
        r"scheduling while atomic",
        r"list_(add|del) corruption",
        r"stack guard page",
        r"page allocation failure",
        r"invoked oom-killer",
        r"ftrace failed to modify",
        r"EXT4-fs error",
        r"XFS \(.*(Corruption|corruption|Internal error)",
        r"unregister_netdevice",
        r"\bsegfault at\b",
    ])
    .expect("these are valid")
});

/// Lines that look like problems but are not: stock kernels print them on these machines.
static HARMLESS: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSet::new([
        // The stock kernel's notes on mitigations.
        r"(Spectre|MDS|TAA|MMIO|RETBleed|SRSO|Speculative).*WARNING",
        r"WARNING: .*(Spectre|RETBleed|MDS CPU bug|SRSO)",
    ])
    .expect("these are valid")
});

/// Prefix of the names of the project's modules in stack traces.
const OURS: &str = "[doubledecker_";
/// Functions of the modules that call the functions which their hooks replace. The kernel would
/// have made the calls beneath them without the modules.
const ORIGINALS: [&str; 5] = [
    " dd_invalidate+",
    " dd_ra_original+",
    " dd_read_original+",
    " dd_shutdown+",
    " dd_truncate+",
];
/// The function by which a caller hands over a bio. Any number of tasks may be in it, so that the
/// data that its callees share is the kernel's own.
const SUBMISSION: &str = " submit_bio+";
/// Flags of `Tainted:` that out-of-tree modules, unsigned modules and livepatches set.
const OWN_TAINT: u64 = (1 << 12) | (1 << 13) | (1 << 15);

/// Returns the bad lines of a log, except those `allowed`.
#[must_use]
pub fn complaints(log: &str, allowed: &[Regex]) -> Vec<String> {
    let lines: Vec<&str> = log.lines().collect();
    let bad = lines.iter().enumerate().filter(|&(at, line)| {
        (BAD.is_match(line) || foreign_taint(line))
            && !HARMLESS.is_match(line)
            && !allowed.iter().any(|allow| allow.is_match(line))
            && !foreign_race(&lines[at..])
    });
    bad.map(|(_, line)| line.trim_end().to_owned()).collect()
}

/// Returns whether these lines begin with a report on a data race that is the kernel's own.
///
/// A race counts against the modules if 1. an access is in their code, or 2. both accesses are in
/// functions that their code called and that are neither among [`ORIGINALS`] nor beneath
/// [`SUBMISSION`]. In all other cases the kernel races with itself, possibly within the work of one
/// task. If KCSAN saw only one access and
/// that its value changed (a race at an unknown origin), the first rule decides: a task that the
/// modules let submit a bio reads its own flags, which the scheduler changes.
fn foreign_race(lines: &[&str]) -> bool {
    if !lines[0].contains("BUG: KCSAN: ") {
        return false;
    }
    let accesses = accesses(lines);
    let ours = |frame: &&str| frame.contains(OURS);
    let our_access = accesses
        .iter()
        .any(|frames| frames.first().is_some_and(ours));
    let by_itself = |frame: &&str| ORIGINALS.iter().any(|original| frame.contains(original));
    let all_for_us = accesses.iter().all(|frames| {
        let ends = |frame: &&&str| ours(frame) || frame.contains(SUBMISSION);
        let nearest = frames.iter().find(ends);
        nearest.is_some_and(|frame| ours(frame) && !by_itself(frame))
    });
    let is_lone = accesses.len() == 1;
    !our_access && (is_lone || !all_for_us)
}

/// Returns the calls that led to each access of a report on a data race, the innermost first. For
/// an access in an interrupt the calls of the interrupted task are left out. Other messages may
/// come in between.
fn accesses<'a>(report: &[&'a str]) -> Vec<Vec<&'a str>> {
    let mut accesses: Vec<Vec<&str>> = Vec::new();
    let mut in_interrupt = false;
    for &line in report.iter().take_while(|line| !line.contains("======")) {
        if line.contains(" to 0x") {
            accesses.push(Vec::new());
            in_interrupt = line.contains(" by interrupt ");
        } else if let Some(frames) = accesses.last_mut()
            && line.contains("+0x")
        {
            let entry = |frame: &&str| frame.contains(" asm_");
            if !(in_interrupt && frames.last().is_some_and(entry)) {
                frames.push(line);
            }
        }
    }
    accesses
}

/// Returns whether a kernel's taint mask has flags other than those of the modules.
#[must_use]
pub fn is_foreign_taint(mask: u64) -> bool {
    mask & !OWN_TAINT != 0
}

fn foreign_taint(line: &str) -> bool {
    line.split_once("Tainted: ").is_some_and(|(_, rest)| {
        // `Tainted: [E]=UNSIGNED_MODULE, …` explains flags of another line.
        !rest.starts_with('[')
            && rest
                .chars()
                .take_while(|c| c.is_ascii_uppercase() || *c == ' ')
                .any(|c| !matches!(c, 'G' | 'O' | 'E' | 'K' | ' '))
    })
}

/// Returns the lines of a log from the one with byte `at` on, and a few lines before it for
/// context.
#[must_use]
pub fn from(log: &str, at: usize, lines: usize) -> String {
    let before = log.get(..at).unwrap_or(log);
    let line = before.matches('\n').count();
    let text: Vec<&str> = log.lines().skip(line.saturating_sub(5)).collect();
    text[..text.len().min(lines)].join("\n")
}

/// Returns the last lines of a log.
#[must_use]
pub fn tail(log: &str, lines: usize) -> String {
    let all: Vec<&str> = log.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_boot_is_fine() {
        let log = "[    0.0] Linux version 7.2\n\
            [    1.0] doubledecker_host: loading out-of-tree module taints kernel.\n\
            [    1.1] doubledecker_host: module verification failed: signature and/or required key missing - tainting kernel\n";
        assert!(complaints(log, &[]).is_empty());
    }

    #[test]
    fn problems_of_kernels_are_found() {
        for line in [
            "[ 1.0] WARNING: CPU: 0 PID: 1 at mm/filemap.c:200 foo+0x1/0x2",
            "[ 1.0] BUG: kernel NULL pointer dereference, address: 0000000000000000",
            "[ 1.0] Oops: Oops: 0000 [#1] SMP NOPTI",
            "[ 1.0] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
            "[ 1.0] INFO: task cat:123 blocked for more than 120 seconds.",
            "[ 1.0] watchdog: BUG: soft lockup - CPU#1 stuck for 22s!",
            "[ 1.0] BUG Folio (Tainted: G): Objects remaining in cache",
            "[ 1.0] Bad page state in process cat  pfn:1",
        ] {
            assert_eq!(complaints(line, &[]).len(), 1, "{line}");
        }
    }

    #[test]
    fn a_scenario_may_allow_lines_that_it_provokes() {
        let allow = Regex::new("invoked oom-killer").unwrap();
        assert!(complaints("x invoked oom-killer: gfp", &[allow]).is_empty());
    }

    #[test]
    fn data_races_count_that_are_ours() {
        const OURS: &str = "f+0x1/0x2 [doubledecker_host]";
        const OTHERS: &str = "g+0x1/0x2 [xfs]";
        const ORIGINAL: &str = " dd_truncate+0x1/0x2 [doubledecker_guest]";
        const SUBMITTED: &str = "submit_bio+0x1/0x2\n[ 1.0]  f+0x1/0x2 [doubledecker_host]";
        let report = |accesses: &[[&str; 2]]| {
            let access = |[inner, outer]: &[&str; 2]| {
                format!(
                    "[ 1.0] write to 0xffff of 8 bytes by task 1 on cpu 0:\n\
                     [ 1.0]  {inner}\n[ 1.0]  {outer}\n[ 1.0] \n"
                )
            };
            let accesses: String = accesses.iter().map(access).collect();
            format!(
                "[ 1.0] ======\n[ 1.0] BUG: KCSAN: data-race in a / b\n[ 1.0] \n{accesses}\
                 [ 1.0] Reported by Kernel Concurrency Sanitizer on:\n[ 1.0] ======\n"
            )
        };
        let foreign = [[OTHERS, OTHERS], [OTHERS, OTHERS]];
        let beneath_us = [[OTHERS, OURS], [OTHERS, OTHERS]];
        let our_access = [[OTHERS, OTHERS], [OURS, OTHERS]];
        let our_data = [[OTHERS, OURS], [OTHERS, OURS]];
        let as_without_us = [[OTHERS, ORIGINAL], [OTHERS, OURS]];
        let submissions = [[OTHERS, SUBMITTED], [OTHERS, SUBMITTED]];
        let in_a_hook = [[ORIGINAL, OTHERS], [OTHERS, OTHERS]];
        let unknown_other = [[OURS, OTHERS]];
        let unknown_beneath_us = [[OTHERS, OURS]];
        let count = |accesses: &[[&str; 2]]| complaints(&report(accesses), &[]).len();
        assert_eq!(count(&foreign), 0);
        assert_eq!(count(&beneath_us), 0);
        assert_eq!(count(&as_without_us), 0);
        assert_eq!(count(&submissions), 0);
        assert_eq!(count(&our_access), 1);
        assert_eq!(count(&in_a_hook), 1);
        assert_eq!(count(&our_data), 1);
        assert_eq!(count(&unknown_other), 1);
        assert_eq!(count(&unknown_beneath_us), 0);
        // Lines of other processors in between have no effect.
        let between = |accesses| {
            let said = report(accesses).replace("write to", "x\n[ 1.0] write to");
            complaints(&said, &[]).len()
        };
        assert_eq!(between(&beneath_us), 0);
        assert_eq!(between(&our_data), 1);
        let interrupts = |accesses| {
            let said = report(accesses).replace(" by task 1", " by interrupt");
            complaints(&said.replace(OTHERS, "asm_i+0x1/0x2"), &[]).len()
        };
        assert_eq!(interrupts(&our_data), 0);
        assert_eq!(interrupts(&our_access), 1);
        assert_eq!(
            complaints("[ 1.0] BUG: KCSAN: data-race, cut off", &[]).len(),
            1
        );
        assert_eq!(
            complaints(&(report(&foreign) + &report(&our_data)), &[]).len(),
            1
        );
    }

    #[test]
    fn our_own_taint_is_expected() {
        assert!(!foreign_taint(
            "CPU: 1 PID: 9 Comm: cat Tainted: G           OE       7.2.12"
        ));
        assert!(foreign_taint(
            "CPU: 1 PID: 9 Comm: cat Tainted: G        W  OE       7.2.12"
        ));
        assert!(!is_foreign_taint(4096 | 8192));
        assert!(is_foreign_taint(512));
    }

    #[test]
    fn the_tail_is_the_end() {
        assert_eq!(tail("a\nb\nc\n", 2), "b\nc");
        assert_eq!(tail("a", 2), "a");
    }

    #[test]
    fn an_excerpt_begins_where_trouble_begins() {
        let log: String = (0..100).map(|line| format!("line {line}\n")).collect();
        let at = log.find("line 50").unwrap();
        let excerpt = from(&log, at, 7);
        assert!(excerpt.starts_with("line 45\n") && excerpt.ends_with("line 51"));
        assert_eq!(from("a\nb", 0, 9), "a\nb");
    }
}
