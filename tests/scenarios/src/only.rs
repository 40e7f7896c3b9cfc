// SPDX-License-Identifier: GPL-2.0-only

//! Parts of a scenario that are to run alone.

use std::env;

use anyhow::{Context as _, Result};

/// Names of the only parts to run, with commas between them.
const ONLY: &str = "DD_ONLY";

/// All of these names, or those that the environment has.
pub(crate) fn of<'a>(names: &[&'a str]) -> Result<Vec<&'a str>> {
    let Ok(wanted) = env::var(ONLY) else {
        return Ok(names.to_vec());
    };
    let find = |wanted| {
        let found = names.iter().find(|name| **name == wanted);
        found
            .copied()
            .with_context(|| format!("{ONLY}: there is no {wanted}"))
    };
    wanted.split(',').map(find).collect()
}
