// SPDX-License-Identifier: GPL-2.0-only

//! The kernel's own tests of the hooked functions have the same results with and without the
//! modules.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use ddlab::{Command, Context, Guest, GuestConfig, Machine, SELFTESTS, Scenario, Target, Throttle};
use serde::Serialize;

use crate::{
    only,
    stage::{self, GUEST, HOST, Stage},
};

/// Runs those of KVM in the host, and those of memory, cgroups and the page cache in a guest.
pub(crate) const SELFTESTS_AGREE: Scenario = Scenario {
    name: "selftests",
    about: "the modules change no result of the kernel's tests of KVM, cgroups, memory, cachestat",
    quick: false,
    run,
};

const CAPACITY_MIB: u64 = 64;
/// Collections that run in L1, and those that run in a guest.
const IN_HOST: [&str; 1] = ["kvm"];
const IN_GUEST: [&str; 3] = ["cachestat", "cgroup", "mm"];
/// Maximum time of a test in seconds, after which it is ended. Tests whose results differ run again
/// in both cases with more time, because some vary by themselves and some need more time.
const MAX_TIMES_S: [u64; 3] = [40, 80, 160];
/// Fraction of the tests passing without the modules that must pass with them.
const PASSED: f64 = 0.9;
/// Number of tests whose results may differ at first; three did.
const AGAIN: f64 = 3.0;
/// Number of last lines of a test's output that are kept.
const LAST_WORDS: usize = 12;
/// Working directory of tests.
const WORK_DIR: &str = "/mnt";
/// Messages that tests provoke: containers without memory, and programs that die of signals.
const PROVOKED: &str = r"invoked oom-killer|segfault at|page allocation failure";
/// Tests that change the environment of later ones: they declare memory broken, or take processors
/// offline.
const LEFT_OUT: [&str; 4] = [
    "hugetlb-read-hwpoison",
    "hugetlb-soft-offline",
    "memory-failure",
    "hardware_disable_test",
];

/// Result of a test.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
enum End {
    Passed,
    Skipped,
    Failed,
    /// The test exceeded its time limit and was ended.
    Ended,
}

/// Results of a test, each with the last output of its first occurrence.
type Ways = BTreeMap<End, String>;

/// Results of a test without and with the modules.
#[derive(Debug, Default, Serialize)]
struct Ends {
    without: Ways,
    with: Ways,
    /// Number of runs in both cases.
    rounds: u32,
}

/// Tests by name.
type Tests = BTreeMap<String, Ends>;

fn run(context: &mut Context) -> Result<Vec<Target>> {
    context.allow_console(PROVOKED);
    let output = context.output_dir()?;
    let stage = Stage {
        lab: context.lab()?,
    };
    let collections = only::of(&[&IN_HOST[..], &IN_GUEST].concat())?;
    let (kvm, others): (Vec<_>, Vec<_>) = collections
        .into_iter()
        .partition(|collection| IN_HOST.contains(collection));
    let mut places = BTreeMap::new();
    if !kvm.is_empty() {
        places.insert("host", in_host(&stage, &kvm)?);
    }
    if !others.is_empty() {
        places.insert("guest", in_guest(&stage, &others)?);
    }
    ddlab::report::write_json(&output.join("result.json"), &places)?;
    let mut targets = Vec::new();
    for (place, tests) in &places {
        let ended = |end| {
            tests
                .values()
                .filter(|ends| ends.with.contains_key(&end))
                .count()
        };
        context.say(format!(
            "{place}: {} tests; with the modules {} passed, {} skipped, {} failed, {} were ended",
            tests.len(),
            ended(End::Passed),
            ended(End::Skipped),
            ended(End::Failed),
            ended(End::Ended),
        ));
        let differ: Vec<_> = tests.iter().filter(|(_, ends)| ends.differ()).collect();
        let without = tests
            .values()
            .filter(|ends| ends.without.contains_key(&End::Passed));
        targets.push(Target::at_least(
            format!("selftests: tests that passed in the {place} with the modules"),
            (without.count() as f64 * PASSED).ceil().max(1.0),
            ended(End::Passed) as f64,
            "",
        ));
        let again: Vec<_> = tests.iter().filter(|(_, ends)| ends.rounds > 1).collect();
        let names: Vec<&str> = again.iter().map(|(name, _)| name.as_str()).collect();
        let repeated = Target::at_most(
            format!("selftests: tests that had to run again in the {place}"),
            AGAIN,
            again.len() as f64,
            "",
        );
        targets.push(repeated.detail(format!("{names:?}")));
        let other = Target::none(
            format!("selftests: tests with another result in the {place}"),
            differ.len(),
        );
        targets.push(other.detail(format!("{differ:?}")));
    }
    Ok(targets)
}

fn in_host(stage: &Stage<'_>, collections: &[&str]) -> Result<Tests> {
    let host = stage.host();
    host.shell(format!("mkdir -p {WORK_DIR} && modprobe kvm_amd"))?;
    compare(host, collections, |ours| match ours {
        true => stage.load_host(CAPACITY_MIB),
        false => host.unload_module(HOST),
    })
}

fn in_guest(stage: &Stage<'_>, collections: &[&str]) -> Result<Tests> {
    let disk = stage.blank_disk("work", 512)?;
    stage.load_host(CAPACITY_MIB)?;
    let config = GuestConfig::new("one")
        .memory_mib(768)
        .disk(&disk, Throttle::NONE);
    let guest: Guest = stage.lab.start_guest(&config)?;
    let path = disk.path_in_guest();
    guest.exec_ok(["mkfs.ext4", "-q", &path])?;
    guest.mount(&path, WORK_DIR, "ext4", "")?;
    compare(&guest, collections, |ours| match ours {
        true => stage::attach(&guest),
        false => guest.unload_module(GUEST),
    })
}

/// Runs collections of tests without and with the modules, which `switch` loads and unloads. Tests
/// whose results differ run again.
fn compare(
    machine: &Machine,
    collections: &[&str],
    switch: impl Fn(bool) -> Result<()>,
) -> Result<Tests> {
    let mut tests = list(machine, collections)?;
    for longest in MAX_TIMES_S {
        for (name, ends) in tests.iter_mut().filter(|(_, ends)| ends.differ()) {
            ends.rounds += 1;
            try_once(machine, name, longest, &mut ends.without)?;
        }
        switch(true)?;
        for (name, ends) in tests.iter_mut().filter(|(_, ends)| ends.differ()) {
            try_once(machine, name, longest, &mut ends.with)?;
        }
        switch(false)?;
    }
    Ok(tests)
}

fn list(machine: &Machine, collections: &[&str]) -> Result<Tests> {
    let mut tests = Tests::new();
    for collection in collections {
        let names = machine.shell(format!("cd /opt/dd/{SELFTESTS} && ls -1 {collection}"))?;
        let kept = names.lines().filter(|name| !LEFT_OUT.contains(name));
        tests.extend(kept.map(|name| (format!("{collection}/{name}"), Ends::default())));
    }
    ensure!(!tests.is_empty(), "there are no selftests");
    Ok(tests)
}

impl Ends {
    /// Returns whether no result occurred in both cases.
    fn differ(&self) -> bool {
        !self.without.keys().any(|end| self.with.contains_key(end))
    }
}

/// Runs a test for at most this number of seconds.
fn try_once(machine: &Machine, name: &str, longest: u64, ways: &mut Ways) -> Result<()> {
    let program = format!("/opt/dd/{SELFTESTS}/{name}");
    let limit = longest.to_string();
    let argv = ["timeout", "--kill-after=5", &limit, &program];
    let ran = machine.run(&Command::new(argv).cwd(WORK_DIR))?;
    // Exit code 4 is defined by kselftest.h, the others by timeout(1).
    let end = match ran.exit.code {
        Some(0) => End::Passed,
        Some(4) => End::Skipped,
        Some(124 | 137) => End::Ended,
        _ => End::Failed,
    };
    ways.entry(end).or_insert_with(|| last_words(&ran.text()));
    Ok(())
}

/// Returns the last lines of an output.
fn last_words(said: &str) -> String {
    let lines: Vec<&str> = said.lines().rev().take(LAST_WORDS).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_agree_that_ended_alike_once() {
        let ways = |ends: &[End]| ends.iter().map(|end| (*end, String::new())).collect();
        let ends = |without, with| Ends {
            without: ways(without),
            with: ways(with),
            rounds: 1,
        };
        assert!(ends(&[], &[]).differ());
        assert!(ends(&[End::Passed], &[End::Failed]).differ());
        assert!(!ends(&[End::Passed], &[End::Failed, End::Passed]).differ());
    }
}
