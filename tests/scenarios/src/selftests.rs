// SPDX-License-Identifier: GPL-2.0-only

//! The kernel's own tests of what we hook end the same with our modules and without.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use ddlab::{Command, Context, Guest, GuestConfig, Machine, SELFTESTS, Scenario, Target, Throttle};
use serde::Serialize;

use crate::{
    only,
    stage::{self, GUEST, HOST, Stage},
};

/// KVM's in the host; those of memory, cgroups and the page cache in a guest.
pub(crate) const SELFTESTS_AGREE: Scenario = Scenario {
    name: "selftests",
    about: "the kernel's own tests of KVM, cgroups, memory and cachestat end as they do without us",
    quick: false,
    run,
};

const CAPACITY_MIB: u64 = 64;
/// Tests that run in L1, and in a guest.
const IN_HOST: [&str; 1] = ["kvm"];
const IN_GUEST: [&str; 3] = ["cachestat", "cgroup", "mm"];
/// Longest a test may take, in seconds; it is ended then. Tests that ended in another way run
/// again in both, for some do so by themselves, and may take longer, for some were late.
const LONGEST_S: [u64; 3] = [40, 80, 160];
/// Part of the tests which pass without our modules that must pass with them.
const PASSED: f64 = 0.9;
/// Tests that may end in another way at first: three of all did.
const AGAIN: f64 = 3.0;
/// How many of a test's last lines are kept.
const LAST_WORDS: usize = 12;
/// Files of tests are here.
const WORK_DIR: &str = "/mnt";
/// What tests provoke: containers without memory, and programs that die of signals.
const PROVOKED: &str = r"invoked oom-killer|segfault at|page allocation failure";
/// These change what later tests find: they take memory for broken, or processors away.
const LEFT_OUT: [&str; 4] = [
    "hugetlb-read-hwpoison",
    "hugetlb-soft-offline",
    "memory-failure",
    "hardware_disable_test",
];

/// How a test ended.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
enum End {
    Passed,
    Skipped,
    Failed,
    /// It would have taken too long.
    Ended,
}

/// How a test ended, each way with the last words it had when it first ended so.
type Ways = BTreeMap<End, String>;

/// How a test ended without our modules, and with them.
#[derive(Debug, Default, Serialize)]
struct Ends {
    without: Ways,
    with: Ways,
    /// How often it ran in both.
    rounds: u32,
}

/// Tests by their names.
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
            "{place}: {} tests; with our modules {} passed, {} skipped, {} failed, {} were ended",
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
            format!("selftests: passed in the {place} with our modules"),
            (without.count() as f64 * PASSED).ceil().max(1.0),
            ended(End::Passed) as f64,
            "",
        ));
        let again: Vec<_> = tests.iter().filter(|(_, ends)| ends.rounds > 1).collect();
        let names: Vec<&str> = again.iter().map(|(name, _)| name.as_str()).collect();
        targets.push(Target::at_most(
            format!("selftests: that had to run again in the {place} ({names:?})"),
            AGAIN,
            again.len() as f64,
            "",
        ));
        targets.push(Target::at_most(
            format!("selftests: that end in another way in the {place} ({differ:?})"),
            0.0,
            differ.len() as f64,
            "",
        ));
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

/// Runs collections of tests without and with our modules, which `switch` loads
/// and unloads; again those that ended in another way.
fn compare(
    machine: &Machine,
    collections: &[&str],
    switch: impl Fn(bool) -> Result<()>,
) -> Result<Tests> {
    let mut tests = list(machine, collections)?;
    for longest in LONGEST_S {
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
    /// Whether it never ended in one way in both.
    fn differ(&self) -> bool {
        !self.without.keys().any(|end| self.with.contains_key(end))
    }
}

/// Runs a test for so many seconds at most.
fn try_once(machine: &Machine, name: &str, longest: u64, ways: &mut Ways) -> Result<()> {
    let program = format!("/opt/dd/{SELFTESTS}/{name}");
    let limit = longest.to_string();
    let argv = ["timeout", "--kill-after=5", &limit, &program];
    let ran = machine.run(&Command::new(argv).cwd(WORK_DIR))?;
    // kselftest.h says what 4 means, timeout(1) the others.
    let end = match ran.exit.code {
        Some(0) => End::Passed,
        Some(4) => End::Skipped,
        Some(124 | 137) => End::Ended,
        _ => End::Failed,
    };
    ways.entry(end).or_insert_with(|| last_words(&ran.text()));
    Ok(())
}

/// The last lines of what was said.
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
