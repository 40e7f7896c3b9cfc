// SPDX-License-Identifier: GPL-2.0

//! Scenarios on real kernels.

use std::{
    collections::BTreeMap,
    fs,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use anyhow::{Result, bail};
use ddlab::{Accel, Context, Scenario, Verdict, selftest};
use rustix::system::sysinfo;

use super::{Args, Layer, Listed, Outcome, Test};
use crate::{
    cache,
    image::{self, Content, Extras},
    package, workspace,
};

/// What a lab needs of this machine's memory, in bytes, with what it caches of the images.
const MEMORY_EACH: u64 = 8 << 30;
/// More would wait for the longest scenario alone.
const MOST_LABS: usize = 4;
/// Scenarios that load modules which break an invariant on demand.
const NEED_MUTABLE: [&str; 3] = ["mutations", "skew", "bounds"];
/// Scenarios that run the kernel's selftests.
const NEED_SELFTESTS: [&str; 1] = ["selftests"];
/// Scenarios that run the file system exerciser.
const NEED_FSX: [&str; 1] = ["tools"];

/// All scenarios, the lab's own first.
fn all() -> Vec<Scenario> {
    let mut all = vec![selftest::BOOT];
    all.extend(ddscenarios::all());
    all
}

/// What takes too long for every run.
fn by_name() -> Vec<Scenario> {
    let mut named = vec![selftest::WATCHDOG];
    named.extend(ddscenarios::by_name());
    named.extend(dddemo::scenarios());
    named
}

/// The scenarios meant by the arguments.
pub(super) fn selected(args: &Args) -> Result<Vec<Scenario>> {
    let mut all = all();
    if args.scenarios.is_empty() {
        let names: Vec<_> = by_name().iter().map(|one| one.name).collect();
        eprintln!("by name only: {}", names.join(", "));
    } else {
        all.extend(by_name());
    }
    if let Some(unknown) = args
        .scenarios
        .iter()
        .find(|name| all.iter().all(|scenario| scenario.name != **name))
    {
        bail!("no scenario {unknown}; see cargo xtask test vm --list");
    }
    Ok(all
        .into_iter()
        .filter(|scenario| match args.scenarios.is_empty() {
            true => scenario.quick || !args.quick,
            false => args.scenarios.iter().any(|name| name == scenario.name),
        })
        .collect())
}

pub(super) fn list(scenarios: &[Scenario]) -> Vec<Listed> {
    scenarios
        .iter()
        .map(|scenario| Listed {
            about: Some(scenario.about.to_owned()),
            quick: scenario.quick,
            ..Listed::new(Layer::Vm, scenario.name.to_owned())
        })
        .collect()
}

pub(super) fn run(args: &Args, scenarios: &[Scenario], outcome: &mut Outcome) -> Result<()> {
    package::install_missing()?;
    // Labs of two runs would starve each other, and share the images.
    let _lock = cache::lock("vm.lock")?;
    let need = |names: &[&str]| scenarios.iter().any(|one| names.contains(&one.name));
    let content = match args.bare {
        true => Content::Agent,
        false => Content::All(Extras {
            mutable: need(&NEED_MUTABLE),
            selftests: need(&NEED_SELFTESTS),
            fsx: need(&NEED_FSX),
        }),
    };
    let artifacts = image::artifacts(&args.kernel, args.accel, content)?;
    outcome.release = Some(artifacts.release.clone());
    let dir = workspace::target().join("test");
    fs::create_dir_all(&dir)?;
    let labs = args.jobs.map_or_else(
        || affordable_labs(args.accel.resolve(&artifacts.qemu)),
        usize::from,
    );
    let verdicts = Mutex::new(BTreeMap::new());
    let next = AtomicUsize::new(0);
    // Takes the next scenario when it is done with one; its lab is its own.
    let work = || {
        let mut context = Context::new(artifacts.clone(), args.accel, &dir, args.quick);
        loop {
            let number = next.fetch_add(1, Relaxed);
            let Some(scenario) = scenarios.get(number) else {
                break;
            };
            let place = format!("[{}/{}]", number + 1, scenarios.len());
            eprintln!("{place} {}: {}", scenario.name, scenario.about);
            let verdict = context.run(scenario);
            tell(scenario, &verdict);
            let mut verdicts = verdicts.lock().expect("nobody panics with it");
            verdicts.insert(number, verdict);
        }
    };
    thread::scope(|scope| {
        for _ in 0..labs.min(scenarios.len()) {
            scope.spawn(work);
        }
    });
    let verdicts = verdicts.into_inner().expect("nobody panics with it");
    for (scenario, verdict) in scenarios.iter().zip(verdicts.into_values()) {
        outcome.tests.push(Test {
            layer: Layer::Vm.name(),
            name: scenario.name.to_owned(),
            passed: verdict.error.is_none(),
            seconds: Some(verdict.took.as_secs_f64()),
            error: verdict.error.as_ref().map(|error| format!("{error:#}")),
        });
        outcome.targets.extend(verdict.targets);
    }
    Ok(())
}

/// How many labs this machine carries side by side.
fn affordable_labs(accel: Accel) -> usize {
    // L1 has two processors; emulated ones share a thread.
    let cpus_each = if accel == Accel::Kvm { 2 } else { 1 };
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let memory = sysinfo();
    let bytes = memory.totalram * u64::from(memory.mem_unit);
    let by_memory = usize::try_from(bytes / MEMORY_EACH).unwrap_or(usize::MAX);
    (cpus / cpus_each).min(by_memory).clamp(1, MOST_LABS)
}

/// Says all at once how a scenario ended: others may speak too.
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
