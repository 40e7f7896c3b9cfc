// SPDX-License-Identifier: GPL-2.0-only

//! Waiting for a condition.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

/// Maximum wait, far more than any condition takes on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(300);
/// A wait after which a message is printed. Few waits take a tenth of it.
const LONG: Duration = Duration::from_secs(60);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// Calls `look` until it returns a value.
///
/// # Errors
///
/// Fails if `look` fails, or has returned nothing for five minutes.
pub fn until<T>(what: &str, look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    until_within(PATIENCE, what, look)
}

/// Does [`until`] with another limit.
pub(crate) fn until_within<T>(
    limit: Duration,
    what: &str,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(found) = look().with_context(|| format!("waiting until {what}"))? {
            if start.elapsed() > LONG {
                eprintln!(
                    "    waited for {} s until {what}",
                    start.elapsed().as_secs()
                );
            }
            return Ok(found);
        }
        if start.elapsed() > limit {
            bail!("waited too long, {} s, until {what}", limit.as_secs());
        }
        thread::sleep(PAUSE);
    }
}

/// Waits until two looks in a row return the same value.
///
/// # Errors
///
/// See [`until`].
pub fn until_still<T: PartialEq>(what: &str, mut look: impl FnMut() -> Result<T>) -> Result<T> {
    let mut before = look()?;
    until(&format!("{what} stands still"), || {
        let now = look()?;
        let still = now == before;
        before = now;
        Ok(still.then_some(()))
    })?;
    Ok(before)
}
