// SPDX-License-Identifier: GPL-2.0-only

//! Selection of the parts of a scenario that run.

use std::env;

use anyhow::{Context as _, Result};

/// The environment variable with the names of the parts to run, separated by commas.
const ONLY: &str = "DD_ONLY";

/// Returns `all` names, or those of them that the environment selects.
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
