// SPDX-License-Identifier: GPL-2.0

//! The tests themselves are tested: modules that break one invariant each, and
//! the scenario that notices.

use std::time::Instant;

use anyhow::Result;
use ddlab::{Context, Scenario, Target};

use crate::{
    bad_input, coherence, deaths, lifecycle, policy, reboot, reclaim, shares, shrinker,
    small_files, stream, torture,
};

/// One mutation after the other.
pub(crate) const MUTATIONS: Scenario = Scenario {
    name: "mutations",
    about: "each invariant broken on purpose is noticed by a scenario",
    quick: false,
    run,
};

/// What is broken (`shim/mutation.h`), and who may notice, the quickest first.
struct Mutation {
    name: &'static str,
    scenarios: &'static [Scenario],
}

const fn mutation(name: &'static str, scenarios: &'static [Scenario]) -> Mutation {
    Mutation { name, scenarios }
}

const CONTENT: &[Scenario] = &[torture::TORTURE, coherence::COHERENCE];

const MUTATIONS_OF: [Mutation; 22] = [
    // In the guest.
    mutation("direct-write-unseen", CONTENT),
    mutation("truncate-unseen", CONTENT),
    mutation("dirty-unseen", CONTENT),
    mutation("unmount-unseen", &[coherence::COHERENCE]),
    mutation("inode-reused", CONTENT),
    mutation("puts-what-is-not-valid", CONTENT),
    mutation("puts-beside-direct-io", CONTENT),
    mutation("put-overtakes", CONTENT),
    mutation("tail-not-zeroed", CONTENT),
    mutation("miss-taken-for-hit", CONTENT),
    mutation(
        "cold-read-asks",
        &[stream::STREAM, policy::POLICY, small_files::SMALL_FILES],
    ),
    // In the host.
    mutation("rollback-unseen", &[lifecycle::LIFECYCLE]),
    mutation("any-session", &[reboot::REBOOT]),
    mutation("writes-what-is-tracked", &[reboot::REBOOT]),
    mutation("get-leaves-pages", &[stream::STREAM, reclaim::RECLAIM]),
    mutation("wrong-owner", &[policy::POLICY, shares::SHARES]),
    mutation("weights-ignored", &[shares::SHARES]),
    mutation(
        "evicts-without-need",
        &[stream::STREAM, policy::POLICY, small_files::SMALL_FILES],
    ),
    mutation(
        "evictions-untold",
        &[stream::STREAM, small_files::SMALL_FILES, shares::SHARES],
    ),
    mutation("user-mode-let-in", &[bad_input::BAD_INPUT]),
    mutation("shrinker-deaf", &[shrinker::SHRINKER]),
    mutation("dead-vm-kept", &[deaths::DEATHS]),
];

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let mut unnoticed = Vec::new();
    for Mutation { name, scenarios } in &MUTATIONS_OF {
        let start = Instant::now();
        let noticed = scenarios
            .iter()
            .find_map(|scenario| Some((scenario.name, context.provoke(scenario, name)?)));
        let took = start.elapsed().as_secs();
        match noticed {
            Some((scenario, error)) => {
                let error = format!("{error:#}");
                let why = error.lines().next().unwrap_or_default();
                context.say(format!("{name}: {scenario} noticed in {took} s: {why}"));
            }
            None => {
                context.say(format!("{name}: NOT NOTICED in {took} s"));
                unnoticed.push(*name);
            }
        }
    }
    Ok(vec![Target::at_most(
        format!(
            "mutations: nobody noticed of {} ({})",
            MUTATIONS_OF.len(),
            unnoticed.join(", ")
        ),
        0.0,
        unnoticed.len() as f64,
        "",
    )])
}
