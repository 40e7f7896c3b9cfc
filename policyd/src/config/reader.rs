// SPDX-License-Identifier: GPL-2.0

//! Reading tables: every problem with its line, unknown keys with the nearest known one.

use super::Problem;
use serde::Deserialize;
use std::ops::{Range, RangeInclusive};
use toml::{
    Spanned,
    de::{DeTable, DeValue, ValueDeserializer},
};

pub(super) type Value<'a> = Spanned<DeValue<'a>>;

/// Collects problems while it reads.
pub(super) struct Reader<'a> {
    text: &'a str,
    pub(super) problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            problems: Vec::new(),
        }
    }

    /// A value of any type that says itself what is right.
    pub(super) fn get<T: for<'de> Deserialize<'de>>(
        &mut self,
        table: &DeTable<'_>,
        key: &str,
    ) -> Option<T> {
        let value = table.get(key)?;
        match T::deserialize(ValueDeserializer::from(value.clone())) {
            Ok(value) => Some(value),
            Err(error) => {
                let message = error.message().trim_end().replace('\n', ", ");
                self.problem(value.span(), format!("`{key}`: {message}"));
                None
            }
        }
    }

    /// A number between bounds.
    pub(super) fn number(
        &mut self,
        table: &DeTable<'_>,
        key: &str,
        bounds: RangeInclusive<f64>,
    ) -> Option<f64> {
        let value = table.get(key)?;
        let number: Option<f64> = match value.get_ref() {
            DeValue::Float(number) => number.as_str().parse().ok(),
            DeValue::Integer(number) => number.as_str().parse().ok(),
            _ => None,
        };
        let number = number.filter(|number| bounds.contains(number));
        if number.is_none() {
            let (from, to) = (bounds.start(), bounds.end());
            let message = if *to >= MANY {
                format!("`{key}` must be a number, at least {from}")
            } else {
                format!("`{key}` must be a number from {from} to {to}")
            };
            self.problem(value.span(), message);
        }
        number
    }

    /// A number in percent, as a part of one.
    pub(super) fn percent(
        &mut self,
        table: &DeTable<'_>,
        key: &str,
        bounds: RangeInclusive<f64>,
    ) -> Option<f64> {
        self.number(table, key, bounds).map(|number| number / 100.0)
    }

    /// A whole number between zero and a bound.
    pub(super) fn whole(&mut self, value: &Value<'_>, key: &str, most: u32) -> Option<u32> {
        let number = value.get_ref().as_integer();
        let number = number
            .and_then(|number| u32::from_str_radix(number.as_str(), number.radix()).ok())
            .filter(|number| *number <= most);
        if number.is_none() {
            let message = format!("`{key}` must be a whole number from 0 to {most}");
            self.problem(value.span(), message);
        }
        number
    }

    pub(super) fn string(&mut self, value: &Value<'_>, key: &str) -> Option<String> {
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.problem(value.span(), format!("`{key}` must be a string"));
        }
        text.map(Into::into)
    }

    /// A string that something makes sense of, or says why not.
    pub(super) fn parsed<T>(
        &mut self,
        table: &DeTable<'_>,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let value = table.get(key)?;
        let text = self.string(value, key)?;
        match parse(&text) {
            Ok(parsed) => Some(parsed),
            Err(message) => {
                self.problem(value.span(), format!("`{key}`: {message}"));
                None
            }
        }
    }

    /// A table, if it is there; anything else of that name is a problem.
    pub(super) fn table<'t, 'v>(
        &mut self,
        table: &'t DeTable<'v>,
        key: &str,
    ) -> Option<&'t DeTable<'v>> {
        let value = table.get(key)?;
        let below = value.get_ref().as_table();
        if below.is_none() {
            self.problem(
                value.span(),
                format!("`{key}` is a table of keys and values"),
            );
        }
        below
    }

    /// Refuses unknown keys and names the nearest known one.
    pub(super) fn check_keys(&mut self, table: &DeTable<'_>, known: &[&str], place: &str) {
        for key in table.keys() {
            let name = key.get_ref().as_ref();
            if known.contains(&name) {
                continue;
            }
            let likeness = |other: &str| strsim::jaro_winkler(name, other);
            let nearest = known
                .iter()
                .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
                .filter(|nearest| likeness(nearest) > ALIKE);
            let advice = match nearest {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => format!("known are {}", known.join(", ")),
            };
            self.problem(key.span(), format!("unknown key `{name}`{place}; {advice}"));
        }
    }

    pub(super) fn problem(&mut self, at: Range<usize>, message: impl Into<String>) {
        self.problems.push(Problem {
            line: self.line(&at),
            message: message.into(),
        });
    }

    pub(super) fn line(&self, at: &Range<usize>) -> usize {
        let before = self.text.as_bytes().get(..at.start).unwrap_or_default();
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    }
}

/// How like two keys must be for one to be taken for the other.
const ALIKE: f64 = 0.7;

/// An upper bound that is not worth a message.
pub(super) const MANY: f64 = 1e12;
