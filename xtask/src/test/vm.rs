// SPDX-License-Identifier: GPL-2.0-only

//! Scenarios on real kernels.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use anyhow::{Result, bail};
use ddlab::{Accel, Context, Scenario, Target, Verdict, selftest};
use rustix::system::sysinfo;

use super::{
    Args, Layer, Listed, Outcome, Test,
    record::{Recorder, Run},
};
use crate::{
    cache, commit,
    image::{self, Content, Extras},
    package, workspace,
};

/// Memory of this machine that a lab needs, in bytes, including its cache of the images.
const MEMORY_EACH: u64 = 8 << 30;
/// Number of boots in a run that may be repeated. A kernel rarely stops while it boots.
const MAX_RETRIES: f64 = 3.0;
/// Maximum number of labs. With more of them, the longest scenario alone determines the time.
const MAX_LABS: usize = 4;
/// Scenarios that run the kernel's selftests.
const NEED_SELFTESTS: [&str; 1] = ["selftests"];
/// Scenarios that run the file system exerciser.
const NEED_FSX: [&str; 1] = ["tools"];
/// Scenarios that sign modules.
const NEED_SIGNER: [&str; 1] = ["secure-boot"];
/// Scenarios that boot systems in which the packages are installed.
const NEED_INSTALLED: [&str; 2] = ["installed", "upgrade"];

/// Scenarios that need another kernel than the selected one, unless they are named: one with checks
/// that fails allocations, one with PREEMPT_RT, which must be refused, and one with the tracers of
/// sections with interrupts off.
const OTHER_KERNELS: [&str; 3] = ["allocations", "refused", "sections"];
/// Scenarios by name that do not take part in the rotation, because they measure the machine and
/// others would disturb them.
const ALONE: [&str; 7] = [
    "overhead",
    "offload",
    "tiers",
    "global-fifo",
    "figure-13",
    "figure-14",
    "table-4",
];
/// Scenarios that do not take part because they take an hour, or first build the kernel's tests or
/// the packages.
const LONG: [&str; 4] = ["installed", "mutations", "selftests", "upgrade"];

/// Returns all scenarios, the lab's own first.
fn all() -> Vec<Scenario> {
    let mut all = vec![selftest::BOOT];
    all.extend(ddscenarios::all());
    all
}

/// Returns the scenarios that take too long for every run.
fn by_name() -> Vec<Scenario> {
    let mut named = vec![selftest::WATCHDOG];
    named.extend(ddscenarios::by_name());
    named.extend(dddemo::scenarios());
    named
}

/// A selected scenario.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selected {
    scenario: Scenario,
    /// Whether it runs in its short form.
    quick: bool,
}

/// Returns whether there is a scenario of this name.
pub(crate) fn is_scenario(name: &str) -> bool {
    let mut scenarios = all().into_iter().chain(by_name());
    scenarios.any(|scenario| scenario.name == name)
}

/// Returns the scenarios that the arguments select.
pub(super) fn selected(args: &Args) -> Result<Vec<Selected>> {
    let mut known = all();
    known.extend(by_name());
    if let Some(unknown) = args
        .scenarios
        .iter()
        .find(|name| known.iter().all(|scenario| scenario.name != **name))
    {
        bail!("no scenario {unknown}; see cargo xtask test vm --list");
    }
    let turn = match args.rotate {
        Some(count) => rotated(&by_name(), commit::count()?, count),
        None => Vec::new(),
    };
    let regular = all();
    let is_regular = |name: &str| regular.iter().any(|one| one.name == name);
    let selected = known.into_iter().filter_map(|scenario| {
        let name = scenario.name;
        let is_turn = turn.contains(&name);
        let is_meant = match (args.scenarios.is_empty(), args.all) {
            (false, _) => args.scenarios.iter().any(|wanted| wanted == name),
            (true, true) => !OTHER_KERNELS.contains(&name),
            (true, false) if is_regular(name) => scenario.quick || !args.quick,
            (true, false) => is_turn,
        };
        let quick = args.quick || is_turn;
        is_meant.then_some(Selected { scenario, quick })
    });
    Ok(selected.collect())
}

/// Returns the names of `count` scenarios for a number of commits. While that number grows by one,
/// each scenario comes before any is repeated.
fn rotated(scenarios: &[Scenario], commits: usize, count: usize) -> Vec<&'static str> {
    let left_out = [&OTHER_KERNELS[..], &ALONE, &LONG].concat();
    let names = scenarios.iter().map(|one| one.name);
    let names: Vec<_> = names.filter(|name| !left_out.contains(name)).collect();
    let count = count.min(names.len());
    let first = commits % names.len() * count;
    let turn = (first..first + count).map(|at| names[at % names.len()]);
    turn.collect()
}

/// Returns the scenarios that are not run.
pub(super) fn not_run(vm: bool, selected: &[Selected]) -> Vec<&'static str> {
    let runs = |name: &str| vm && selected.iter().any(|one| one.scenario.name == name);
    let names = all().into_iter().chain(by_name()).map(|one| one.name);
    names.filter(|name| !runs(name)).collect()
}

pub(super) fn list(scenarios: &[Selected]) -> Vec<Listed> {
    scenarios
        .iter()
        .map(|Selected { scenario, .. }| Listed {
            about: Some(scenario.about.to_owned()),
            quick: scenario.quick,
            ..Listed::new(Layer::Vm, scenario.name.to_owned())
        })
        .collect()
}

pub(super) fn run(args: &Args, selected: &[Selected], outcome: &mut Outcome) -> Result<()> {
    let scenarios: Vec<Scenario> = selected.iter().map(|one| one.scenario).collect();
    package::install_missing()?;
    // Labs of two runs would starve each other, and share the images.
    let _lock = cache::lock("vm.lock")?;
    let need = |names: &[&str]| scenarios.iter().any(|one| names.contains(&one.name));
    let mut mutated = BTreeSet::new();
    for scenario in &scenarios {
        mutated.extend(ddscenarios::patched_builds(scenario.name)?);
    }
    let content = match args.bare {
        true => Content::Agent,
        false => Content::All(Extras {
            mutated,
            selftests: need(&NEED_SELFTESTS),
            fsx: need(&NEED_FSX),
            signer: need(&NEED_SIGNER),
            installed: need(&NEED_INSTALLED),
        }),
    };
    let artifacts = image::artifacts(&args.kernel, args.accel, content)?;
    outcome.release = Some(artifacts.release.clone());
    let recorder = match args.all || args.record {
        true => Some(Recorder::new(&artifacts.release)?),
        false => None,
    };
    let dir = workspace::target().join("test");
    fs::create_dir_all(&dir)?;
    let labs = args.jobs.map_or_else(
        || affordable_labs(args.accel.resolve(&artifacts.qemu)),
        usize::from,
    );
    let runs = Mutex::new(BTreeMap::new());
    let next = AtomicUsize::new(0);
    // Each thread has a lab of its own, and takes the next scenario when it is done with one.
    let work = || -> Result<()> {
        let mut context = Context::new(artifacts.clone(), args.accel, &dir, args.quick);
        loop {
            let number = next.fetch_add(1, Relaxed);
            let Some(Selected { scenario, quick }) = selected.get(number) else {
                break;
            };
            context.set_quick(*quick);
            let place = format!("[{}/{}]", number + 1, scenarios.len());
            eprintln!("{place} {}: {}", scenario.name, scenario.about);
            let verdict = context.run(scenario);
            tell(scenario, &verdict);
            let retries = verdict.retries;
            let run = Run::new(scenario, *quick, verdict);
            let mut runs = runs.lock().expect("no thread panics with the lock");
            if let Some(recorder) = &recorder {
                recorder.add(&run)?;
            }
            runs.insert(number, (run, retries));
        }
        Ok(())
    };
    thread::scope(|scope| {
        let labs = labs.min(scenarios.len());
        let threads: Vec<_> = (0..labs).map(|_| scope.spawn(work)).collect();
        let mut ends = threads.into_iter().map(|thread| {
            let end = thread.join();
            end.expect("no thread panics")
        });
        ends.try_for_each(|end| end)
    })?;
    let runs = runs.into_inner().expect("no thread panics with the lock");
    count_retries(runs.values().map(|(_, retries)| retries).sum(), outcome);
    for (run, _) in runs.into_values() {
        outcome.tests.push(Test {
            layer: Layer::Vm.name(),
            name: run.name.to_owned(),
            passed: run.error.is_none(),
            seconds: Some(run.seconds),
            error: run.error,
        });
        outcome.targets.extend(run.targets);
    }
    Ok(())
}

/// Adds the number of repeated boots, which is a target of the run: each scenario passes if the
/// last boot of its lab succeeds, so that none of them shows a host that often does not boot.
pub(super) fn count_retries(retries: usize, outcome: &mut Outcome) {
    outcome.boot_retries += retries;
    outcome.of_run.push(Target::at_most(
        "boots of L1 that gave no sign of life and were tried again",
        MAX_RETRIES,
        retries as f64,
        "",
    ));
}

/// Returns how many labs this machine can carry in parallel.
fn affordable_labs(accel: Accel) -> usize {
    // L1 has two processors; emulated ones share a thread.
    let cpus_each = if accel == Accel::Kvm { 2 } else { 1 };
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let memory = sysinfo();
    let bytes = memory.totalram * u64::from(memory.mem_unit);
    let by_memory = usize::try_from(bytes / MEMORY_EACH).unwrap_or(usize::MAX);
    (cpus / cpus_each).min(by_memory).clamp(1, MAX_LABS)
}

/// Prints the result of a scenario in one piece, because other threads print too.
fn tell(scenario: &Scenario, verdict: &Verdict) {
    let end = if verdict.error.is_none() {
        "ok"
    } else {
        "FAILED"
    };
    let took = verdict.took.as_secs_f64();
    let mut text = format!("    {}: {end} ({took:.1} s)", scenario.name);
    if let Some(error) = &verdict.error {
        text += &format!("\n{error:#}");
    }
    if let Some(logs) = &verdict.logs {
        text += &format!("\n    logs: {}", logs.display());
    }
    eprintln!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scenario_by_name_has_its_turn() {
        let named = by_name();
        let count = 2;
        let mut seen = Vec::new();
        let eligible = rotated(&named, 0, named.len()).len();
        for commits in 0..eligible.div_ceil(count) {
            let turn = rotated(&named, commits, count);
            assert_eq!(turn.len(), count);
            seen.extend(turn);
        }
        let left_out = |name: &str| {
            OTHER_KERNELS.contains(&name) || ALONE.contains(&name) || LONG.contains(&name)
        };
        for scenario in &named {
            let name = scenario.name;
            assert_eq!(seen.contains(&name), !left_out(name), "{name}");
        }
        assert_eq!(rotated(&named, usize::MAX, 2).len(), 2);
        assert_eq!(rotated(&named, 3, 1000).len(), eligible);
    }

    #[test]
    fn scenarios_that_are_left_out_exist() {
        let named: Vec<&str> = by_name().iter().map(|one| one.name).collect();
        for name in [&OTHER_KERNELS[..], &ALONE, &LONG].concat() {
            assert!(named.contains(&name), "{name}");
        }
    }
}
