// SPDX-License-Identifier: GPL-2.0

//! Scenarios on real kernels.

use std::fs;

use anyhow::{Result, bail};
use ddlab::{Context, Scenario, Verdict, selftest};

use super::{Args, Layer, Listed, Outcome, Test};
use crate::{
    cache,
    image::{self, Content},
    package, workspace,
};

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
    // Two labs at a time would starve each other, and share the images.
    let _lock = cache::lock("vm.lock")?;
    let content = match args.bare {
        true => Content::Agent,
        false => Content::All,
    };
    let artifacts = image::artifacts(&args.kernel, args.accel, content)?;
    outcome.release = Some(artifacts.release.clone());
    let dir = workspace::target().join("test");
    fs::create_dir_all(&dir)?;
    let mut context = Context::new(artifacts, args.accel, dir, args.quick);
    for (number, scenario) in scenarios.iter().enumerate() {
        eprintln!(
            "[{}/{}] {}: {}",
            number + 1,
            scenarios.len(),
            scenario.name,
            scenario.about
        );
        let verdict = context.run(scenario);
        tell(scenario, &verdict);
        outcome.tests.push(Test {
            layer: Layer::Vm.name(),
            name: scenario.name.to_owned(),
            passed: verdict.error.is_none(),
            seconds: Some(verdict.took.as_secs_f64()),
            error: verdict.error.as_ref().map(|error| format!("{error:#}")),
            vanished: verdict.vanished,
        });
        outcome.targets.extend(verdict.targets);
    }
    Ok(())
}

fn tell(scenario: &Scenario, verdict: &Verdict) {
    let end = if verdict.error.is_none() {
        "ok"
    } else {
        "FAILED"
    };
    eprintln!(
        "    {}: {end} ({:.1} s)",
        scenario.name,
        verdict.took.as_secs_f64()
    );
    if let Some(error) = &verdict.error {
        eprintln!("{error:#}");
    }
    if let Some(logs) = &verdict.logs {
        eprintln!("    logs: {}", logs.display());
    }
}
