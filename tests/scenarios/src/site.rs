// SPDX-License-Identifier: GPL-2.0-only

//! Pools, as shown by both sides.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use ddlab::{Guest, Machine, wait};

use crate::ddctl;

/// A host and a guest that show pools.
pub(crate) struct Site<'a> {
    pub(crate) host: &'a Machine,
    pub(crate) guest: &'a Guest,
}

impl Site<'_> {
    /// Waits until both sides show these pools with these weights.
    pub(crate) fn shows(&self, when: &str, expected: &[(&str, u32)]) -> Result<()> {
        let expected: BTreeMap<String, u32> = expected
            .iter()
            .map(|(name, weight)| ((*name).to_owned(), *weight))
            .collect();
        let pools = || -> Result<[BTreeMap<String, u32>; 2]> {
            let weights = |containers: &[ddctl::Container]| {
                containers
                    .iter()
                    .map(|one| (one.name.clone(), one.weight))
                    .collect()
            };
            let vms = ddctl::vms(self.host)?;
            let there = vms.first().map_or(&[][..], |vm| &vm.containers);
            Ok([weights(&ddctl::containers(self.guest)?), weights(there)])
        };
        let mut seen = pools()?;
        wait::until(&format!("pools are right {when}"), || {
            seen = pools()?;
            Ok(seen.iter().all(|side| *side == expected).then_some(()))
        })
        .with_context(|| format!("{when}, guest and host had {seen:?}, not {expected:?}"))?;
        Ok(())
    }
}
