// SPDX-License-Identifier: GPL-2.0-only

//! Builds of the modules with patches of `tests/mutations` that scenarios load.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::{
    bounds,
    mutations::{self, ALL, Mutation},
    skew,
};

/// Names of patches, which are applied one after the other.
pub type Patches = Vec<&'static str>;

/// Returns the builds that a scenario loads in addition to the unpatched one. `mutations` loads
/// those of the selected mutations.
///
/// # Errors
///
/// Fails if `DD_ONLY` names a mutation that does not exist.
pub fn patched_builds(scenario: &str) -> Result<BTreeSet<Patches>> {
    if scenario == mutations::MUTATIONS.name {
        let wanted = mutations::wanted()?;
        return Ok(wanted.into_iter().flat_map(of_mutation).collect());
    }
    Ok(of_scenario(scenario).collect())
}

/// Returns the builds that all scenarios load.
#[must_use]
pub fn every_build() -> BTreeSet<Patches> {
    let alone = [skew::SKEW, bounds::BOUNDS];
    let alone = alone.iter().flat_map(|one| of_scenario(one.name));
    alone.chain(ALL.iter().flat_map(of_mutation)).collect()
}

/// Returns the builds for a mutation. A scenario that provokes faults itself needs them combined
/// with the mutation.
fn of_mutation(mutation: &Mutation) -> impl Iterator<Item = Patches> {
    let scenarios = mutation.scenarios.iter();
    let faults = scenarios.flat_map(|scenario| of_scenario(scenario.name));
    let faults = faults.flat_map(|fault| [[&[mutation.name], &fault[..]].concat(), fault]);
    [vec![mutation.name]].into_iter().chain(faults)
}

fn of_scenario(scenario: &str) -> impl Iterator<Item = Patches> + use<> {
    let patches: &[&str] = if scenario == skew::SKEW.name {
        &skew::CLAIMS
    } else if scenario == bounds::BOUNDS.name {
        &bounds::FAULTS
    } else {
        &[]
    };
    patches.iter().map(|patch| vec![*patch])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_built_beside_the_mutation_and_without_it() {
        let mutation = ALL.iter().find(|one| one.name == "detach-ignored").unwrap();
        let builds: BTreeSet<Patches> = of_mutation(mutation).collect();
        assert!(builds.contains(&vec!["detach-ignored"]));
        assert!(builds.contains(&vec!["detach-ignored", "detach-fails"]));
        assert!(builds.contains(&vec!["detach-fails"]));
        assert!(builds.is_subset(&every_build()));
    }

    #[test]
    fn most_scenarios_load_no_patched_build() {
        assert!(patched_builds("boot").unwrap().is_empty());
        assert_eq!(patched_builds(skew::SKEW.name).unwrap().len(), 2);
    }
}
