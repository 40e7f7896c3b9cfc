// SPDX-License-Identifier: GPL-2.0

//! The tests themselves are tested: modules that break one invariant each, and
//! the scenario that notices.

use std::time::Instant;

use anyhow::Result;
use ddlab::{Context, Scenario, Target, report};
use serde::Serialize;

use crate::{
    apart, bad_input, bounds, calls, coherence, deaths, latency, lifecycle, only, policies, reboot,
    scarce, shares, shrinker, small_files, stream, torture, tracing,
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

const CONTENT: &[Scenario] = &[coherence::COHERENCE, torture::TORTURE];

const MUTATIONS_OF: &[Mutation] = &[
    // In the guest.
    mutation("direct-write-unseen", CONTENT),
    mutation("truncate-unseen", CONTENT),
    mutation("dirty-unseen", CONTENT),
    mutation("unmount-unseen", CONTENT),
    mutation("inode-reused", CONTENT),
    mutation("puts-what-is-not-valid", CONTENT),
    mutation("puts-beside-direct-io", CONTENT),
    mutation("direct-write-begins-unseen", CONTENT),
    mutation("direct-io-looked-at-once", CONTENT),
    mutation("swap-unseen", CONTENT),
    mutation("attach-unsettled", CONTENT),
    mutation("put-overtakes", CONTENT),
    mutation("tail-not-zeroed", CONTENT),
    mutation("miss-taken-for-hit", CONTENT),
    mutation("empty-unseen", CONTENT),
    mutation("host-trusted", CONTENT),
    mutation("dax-unseen", &[coherence::COHERENCE]),
    mutation("swapfile-unseen", &[coherence::COHERENCE]),
    mutation("cold-read-asks", &[stream::STREAM]),
    mutation("put-unconfirmed", &[apart::APART]),
    mutation("put-sleeps", &[stream::STREAM]),
    mutation("inode-forgotten", &[small_files::SMALL_FILES]),
    mutation("hooks-without-host", &[apart::APART]),
    mutation("hibernates-full", &[lifecycle::LIFECYCLE]),
    mutation("calls-unbounded", &[latency::LATENCY]),
    mutation("invalidates-at-once", &[latency::LATENCY]),
    mutation("attaches-at-every-look", &[bounds::BOUNDS]),
    mutation("reaps-with-host-only", &[bounds::BOUNDS]),
    mutation("departures-kept", &[bounds::BOUNDS]),
    mutation("unmounted-kept", &[bounds::BOUNDS]),
    mutation("worker-unpaced", &[bounds::BOUNDS]),
    mutation("dirty-seen-twice", &[bounds::BOUNDS]),
    mutation("sequential-undone", &[bounds::BOUNDS]),
    mutation("tables-forgotten", &[bounds::BOUNDS]),
    mutation("detach-ignored", &[bounds::BOUNDS]),
    mutation("hooks-one-by-one", &[tracing::TRACING]),
    // In the host.
    mutation(
        "rollback-unseen",
        &[bad_input::BAD_INPUT, lifecycle::LIFECYCLE],
    ),
    mutation("any-session", &[bad_input::BAD_INPUT]),
    mutation("writes-what-is-tracked", &[reboot::REBOOT]),
    mutation("get-leaves-pages", &[stream::STREAM]),
    mutation("wrong-owner", &[stream::STREAM]),
    mutation("vms-mixed", &[apart::APART]),
    mutation("weights-fixed", &[shares::SHARES]),
    mutation("weights-ignored", &[shares::SHARES]),
    mutation("evicts-without-need", &[stream::STREAM]),
    mutation("evictions-untold", &[policies::POLICIES]),
    mutation("user-mode-let-in", &[bad_input::BAD_INPUT]),
    mutation("shrinker-deaf", &[shrinker::SHRINKER]),
    mutation("shrinker-shy", &[scarce::SCARCE]),
    mutation("shrinks-in-order", &[scarce::SCARCE]),
    mutation("capacity-alone", &[scarce::SCARCE]),
    mutation("puts-drain-host", &[scarce::SCARCE]),
    mutation("puts-not-recycled", &[scarce::SCARCE]),
    mutation("dead-vm-kept", &[deaths::DEATHS]),
    mutation("waits-for-memory", &[calls::CALLS]),
    mutation("straggler-ends-session", &[calls::CALLS]),
    mutation("vms-without-limit", &[calls::CALLS]),
    mutation("nobody-charged", &[calls::CALLS]),
];

/// What came of a mutation.
#[derive(Serialize)]
struct Verdict {
    mutation: &'static str,
    /// The scenario that failed, if one did.
    noticed_by: Option<&'static str>,
    /// Boots of the machines included.
    seconds: u64,
    /// The first line of the scenario's error.
    why: String,
}

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let file = context.output_dir()?.join("mutations.json");
    let mutations = wanted()?;
    let mut verdicts = Vec::new();
    for mutation in &mutations {
        let verdict = mutation.try_on(context);
        let Verdict { seconds, why, .. } = &verdict;
        context.say(match verdict.noticed_by {
            Some(scenario) => format!(
                "{}: {scenario} noticed in {seconds} s: {why}",
                mutation.name
            ),
            None => format!("{}: NOT NOTICED in {seconds} s", mutation.name),
        });
        verdicts.push(verdict);
        report::write_json(&file, &verdicts)?;
    }
    let unnoticed = verdicts.iter().filter(|one| one.noticed_by.is_none());
    let unnoticed: Vec<&str> = unnoticed.map(|one| one.mutation).collect();
    Ok(vec![Target::at_most(
        format!(
            "mutations: nobody noticed of {} ({})",
            mutations.len(),
            unnoticed.join(", ")
        ),
        0.0,
        unnoticed.len() as f64,
        "",
    )])
}

/// All mutations, or those that are named in the environment.
fn wanted() -> Result<Vec<&'static Mutation>> {
    let names: Vec<&str> = MUTATIONS_OF.iter().map(|mutation| mutation.name).collect();
    let wanted = only::of(&names)?;
    let mutations = MUTATIONS_OF.iter();
    Ok(mutations
        .filter(|mutation| wanted.contains(&mutation.name))
        .collect())
}

impl Mutation {
    fn try_on(&self, context: &mut Context) -> Verdict {
        let start = Instant::now();
        let mut noticed = self.scenarios.iter().filter_map(|scenario| {
            let error = context.provoke(scenario, self.name)?;
            Some((scenario.name, format!("{error:#}")))
        });
        let noticed = noticed.next();
        let why = noticed.as_ref().and_then(|(_, error)| error.lines().next());
        Verdict {
            mutation: self.name,
            noticed_by: noticed.as_ref().map(|(scenario, _)| *scenario),
            seconds: start.elapsed().as_secs(),
            why: why.unwrap_or_default().to_owned(),
        }
    }
}
