// SPDX-License-Identifier: GPL-2.0-only

//! Parsers of values on the command line. Each returns a value, or the message for the user.

use ddabi::pool::MAX_WEIGHT;
use ddconf::size::Size;
use ddnl::Policy;

/// Parses a weight, 0 to 10000.
pub(crate) fn weight(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|weight| *weight <= MAX_WEIGHT);
    number.ok_or_else(|| format!("a weight is a whole number from 0 to {MAX_WEIGHT}"))
}

/// Parses a weight that follows names. If the weight is missing, the last name is parsed instead,
/// so that the message says what is missing.
pub(crate) fn last_weight(text: &str) -> Result<u32, String> {
    if text.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
        return weight(text);
    }
    Err(format!(
        "the weight is missing, or is not a number: it comes last, a whole number from 0 to \
         {MAX_WEIGHT}"
    ))
}

/// Parses the name of a policy.
pub(crate) fn policy(text: &str) -> Result<Policy, String> {
    let names = || Policy::ALL.map(Policy::name).join(", ");
    Policy::from_name(text).ok_or_else(|| format!("the policies are {}", names()))
}

/// Parses a positive number.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|count| *count > 0);
    number.ok_or_else(|| "a count is a whole number, 1 or more".into())
}

/// Parses a size, such as `512M`.
pub(crate) fn size(text: &str) -> Result<Size, String> {
    text.parse()
}

/// Parses a pause in seconds, from a tenth of a second to a day.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    const MAX_PAUSE_S: f64 = 86_400.0;
    match text.parse() {
        Ok(seconds) if (0.1..=MAX_PAUSE_S).contains(&seconds) => Ok(seconds),
        _ => Err(format!("a pause is 0.1 to {MAX_PAUSE_S} seconds")),
    }
}
