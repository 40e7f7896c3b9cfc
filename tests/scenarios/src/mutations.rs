// SPDX-License-Identifier: GPL-2.0-only

//! Tests the scenarios: each patch of `tests/mutations` breaks one invariant of the modules, and a
//! scenario must notice. The scenario must pass with the unchanged modules, and fail with the
//! patched ones because of the mutation and for no other reason.

mod list;

use std::{collections::BTreeMap, time::Instant};

use anyhow::Result;
use ddlab::{Context, Provoked, Scenario, Target, report};
use serde::Serialize;

use crate::only;
pub(crate) use list::{ALL, Mutation};

/// Tries one mutation after the other.
pub(crate) const MUTATIONS: Scenario = Scenario {
    name: "mutations",
    about: "each invariant broken on purpose is noticed by a scenario that passes otherwise",
    quick: false,
    run,
};

/// The result of a mutation.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    /// A scenario failed with the expected message.
    Noticed,
    /// A scenario failed for another reason.
    Otherwise,
    /// All scenarios passed.
    Unnoticed,
    /// There is no result, because a lab did not boot or the scenario fails without the mutation as
    /// well.
    Inconclusive,
}

/// A result with its reasons.
#[derive(Serialize)]
struct Verdict {
    mutation: &'static str,
    outcome: Outcome,
    /// The scenario that led to it, if any.
    scenario: Option<&'static str>,
    /// Duration, including boots of the machines.
    seconds: u64,
    /// The first line of the scenario's error.
    why: String,
}

/// Results of scenarios with the unchanged modules, by name.
type Clean = BTreeMap<&'static str, Provoked>;

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let file = context.output_dir()?.join("mutations.json");
    let mutations = wanted()?;
    let mut clean = Clean::new();
    for scenario in mutations.iter().flat_map(|mutation| &mutation.scenarios) {
        if !clean.contains_key(scenario.name) {
            let provoked = context.provoke(scenario, None);
            context.say(format!("without mutation: {}: {provoked:?}", scenario.name));
            clean.insert(scenario.name, provoked);
        }
    }
    let mut verdicts = Vec::new();
    for mutation in &mutations {
        let verdict = mutation.try_on(context, &clean);
        let Verdict {
            outcome,
            scenario,
            seconds,
            why,
            ..
        } = &verdict;
        let by = scenario.unwrap_or("no scenario");
        context.say(format!(
            "{}: {outcome:?} by {by} in {seconds} s: {why}",
            mutation.name
        ));
        verdicts.push(verdict);
        report::write_json(&file, &verdicts)?;
    }
    let unclean = clean.iter().filter(|(_, provoked)| !provoked.passed());
    let unclean: Vec<&str> = unclean.map(|(name, _)| *name).collect();
    let without = |what: &str, names: &[&str]| {
        let target = Target::none(format!("mutations: {what}"), names.len());
        target.detail(format!("{names:?}, {} mutations", mutations.len()))
    };
    let of = |outcome: Outcome| -> Vec<&str> {
        let found = verdicts.iter().filter(|one| one.outcome == outcome);
        found.map(|one| one.mutation).collect()
    };
    Ok(vec![
        without("scenarios that fail with the unchanged modules", &unclean),
        without("mutations not noticed", &of(Outcome::Unnoticed)),
        without(
            "mutations whose scenario fails for another reason",
            &of(Outcome::Otherwise),
        ),
        without("mutations without a result", &of(Outcome::Inconclusive)),
    ])
}

/// Returns all mutations, or those that are named in the environment.
pub(crate) fn wanted() -> Result<Vec<&'static Mutation>> {
    let names: Vec<&str> = ALL.iter().map(|mutation| mutation.name).collect();
    let wanted = only::of(&names)?;
    let is_wanted = |mutation: &&Mutation| wanted.contains(&mutation.name);
    Ok(ALL.iter().filter(is_wanted).collect())
}

impl Mutation {
    fn try_on(&self, context: &mut Context, clean: &Clean) -> Verdict {
        let start = Instant::now();
        let mut found = (Outcome::Unnoticed, None, String::new());
        for scenario in &self.scenarios {
            let passes = clean.get(scenario.name).is_some_and(Provoked::passed);
            let (outcome, why) = match passes {
                true => self.judge(context.provoke(scenario, Some(self.name))),
                false => (Outcome::Inconclusive, "it fails without it, too".to_owned()),
            };
            if outcome != Outcome::Unnoticed {
                found = (outcome, Some(scenario.name), why);
            }
            if outcome == Outcome::Noticed {
                break;
            }
        }
        let (outcome, scenario, why) = found;
        Verdict {
            mutation: self.name,
            outcome,
            scenario,
            seconds: start.elapsed().as_secs(),
            why: why.lines().next().unwrap_or_default().to_owned(),
        }
    }

    /// Returns the result of a scenario that passes without the mutation.
    fn judge(&self, provoked: Provoked) -> (Outcome, String) {
        match provoked {
            Provoked::Passed => (Outcome::Unnoticed, String::new()),
            Provoked::NotBooted(why) => (Outcome::Inconclusive, why),
            Provoked::Failed(why) => {
                let is_it = self.reasons.iter().any(|reason| why.contains(reason));
                let outcome = match is_it {
                    true => Outcome::Noticed,
                    false => Outcome::Otherwise,
                };
                (outcome, why)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_reason_counts() {
        let mutation = ALL.iter().find(|one| one.name == "any-session").unwrap();
        let judge = |provoked| mutation.judge(provoked).0;
        let failed = |why: &str| judge(Provoked::Failed(why.to_owned()));
        assert_eq!(failed("Tally { let_in: 3 }"), Outcome::Noticed);
        assert_eq!(failed("waited too long, 300 s"), Outcome::Otherwise);
        assert_eq!(judge(Provoked::Passed), Outcome::Unnoticed);
        let lab = Provoked::NotBooted("L1 died: let_in".to_owned());
        assert_eq!(judge(lab), Outcome::Inconclusive);
    }

    #[test]
    fn every_mutation_has_a_reason_of_its_own() {
        for mutation in ALL.iter() {
            assert!(!mutation.scenarios.is_empty() && !mutation.reasons.is_empty());
            let is_vague = |reason: &&str| reason.is_empty();
            assert!(!mutation.reasons.iter().any(is_vague), "{}", mutation.name);
        }
    }
}
