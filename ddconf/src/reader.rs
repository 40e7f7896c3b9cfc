// SPDX-License-Identifier: GPL-2.0-only

//! Reading tables: every problem with its line, unknown keys with the nearest known one.

use crate::Problem;
use serde::Deserialize;
use std::{
    collections::BTreeSet,
    ops::{Range, RangeInclusive},
};
use toml::{
    Spanned,
    de::{DeTable, DeValue, ValueDeserializer},
};

/// A value with its place.
pub type Value<'a> = Spanned<DeValue<'a>>;

/// Collects problems while it reads.
pub struct Reader<'a> {
    text: &'a str,
    pub(crate) problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self {
            text,
            problems: Vec::new(),
        }
    }

    /// Begins to read a table. `place` names it in messages and begins with a space.
    pub fn section<'s, 't>(
        &'s mut self,
        table: &'t DeTable<'t>,
        place: &'static str,
    ) -> Section<'s, 'a, 't> {
        Section {
            reader: self,
            table,
            place,
            known: BTreeSet::new(),
        }
    }

    /// Adds a problem at a place of the text, in bytes.
    pub fn problem(&mut self, at: Range<usize>, message: impl Into<String>) {
        self.problems.push(Problem {
            line: self.line(&at),
            column: self.column(&at),
            message: message.into(),
        });
    }

    /// Returns the line of a place, from 1.
    pub fn line(&self, at: &Range<usize>) -> usize {
        let before = self.text.as_bytes().get(..at.start).unwrap_or_default();
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    }

    /// Returns the character of a place in its line, from 1.
    fn column(&self, at: &Range<usize>) -> usize {
        let before = self.text.get(..at.start).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        line.chars().count() + 1
    }

    /// Returns the line of a place, and the number of the last earlier line with the same text.
    pub(crate) fn line_and_same_before(&self, at: &Range<usize>) -> (&'a str, Option<usize>) {
        let number = self.line(at);
        let mut lines = self.text.lines().map(str::trim);
        let text = lines.clone().nth(number - 1).unwrap_or_default();
        let before = lines.by_ref().take(number - 1);
        let same = before.zip(1..).filter(|(other, _)| *other == text);
        (text, same.last().map(|(_, number)| number))
    }

    /// Returns the text at a place.
    pub(crate) fn text(&self, at: &Range<usize>) -> &'a str {
        self.text.get(at.clone()).unwrap_or_default()
    }
}

/// A table that is being read. The keys that are asked for are those that it may have.
pub struct Section<'s, 'a, 't> {
    /// Collects the problems.
    pub reader: &'s mut Reader<'a>,
    table: &'t DeTable<'t>,
    place: &'static str,
    known: BTreeSet<&'static str>,
}

impl<'t> Section<'_, '_, 't> {
    /// Returns the value of a key.
    pub fn value(&mut self, key: &'static str) -> Option<&'t Value<'t>> {
        self.known.insert(key);
        self.table.get(key)
    }

    /// Returns the place of a key, if the table has it.
    pub fn key(&mut self, key: &'static str) -> Option<Range<usize>> {
        self.known.insert(key);
        let (key, _) = self.table.get_key_value(key)?;
        Some(key.span())
    }

    /// Returns whether there is a key.
    pub fn has(&mut self, key: &'static str) -> bool {
        self.value(key).is_some()
    }

    /// Returns the place of the first key.
    pub fn first(&self) -> Option<Range<usize>> {
        self.table.keys().next().map(Spanned::span)
    }

    /// Reads a value of a type whose error message names the valid values.
    pub fn get<T: for<'de> Deserialize<'de>>(&mut self, key: &'static str) -> Option<T> {
        let value = self.value(key)?;
        match T::deserialize(ValueDeserializer::from(value.clone())) {
            Ok(value) => Some(value),
            Err(error) => {
                let message = error.message().trim_end().replace('\n', ", ");
                self.problem(value.span(), format!("`{key}`: {message}"));
                None
            }
        }
    }

    /// Reads a number between bounds.
    pub fn number(&mut self, key: &'static str, bounds: RangeInclusive<f64>) -> Option<f64> {
        let value = self.value(key)?;
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

    /// Reads a number in percent, and returns it as a part of one.
    pub fn percent(&mut self, key: &'static str, bounds: RangeInclusive<f64>) -> Option<f64> {
        self.number(key, bounds).map(|number| number / 100.0)
    }

    /// Reads a whole number between zero and a bound.
    pub fn whole(&mut self, key: &'static str, limit: u32) -> Option<u32> {
        let value = self.value(key)?;
        let number = value.get_ref().as_integer();
        let number = number
            .and_then(|number| u32::from_str_radix(number.as_str(), number.radix()).ok())
            .filter(|number| *number <= limit);
        if number.is_none() {
            let message = format!("`{key}` must be a whole number from 0 to {limit}");
            self.problem(value.span(), message);
        }
        number
    }

    /// Reads a truth value.
    pub fn flag(&mut self, key: &'static str) -> Option<bool> {
        let value = self.value(key)?;
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            self.problem(value.span(), format!("`{key}` must be true or false"));
        }
        flag
    }

    /// Reads a string.
    pub fn string(&mut self, key: &'static str) -> Option<String> {
        let value = self.value(key)?;
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.problem(value.span(), format!("`{key}` must be a string"));
        }
        text.map(Into::into)
    }

    /// Reads a string that `parse` converts, or for which it returns an error message.
    pub fn parsed<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.value(key)?;
        let text = self.string(key)?;
        match parse(&text) {
            Ok(parsed) => Some(parsed),
            Err(message) => {
                self.problem(value.span(), format!("`{key}`: {message}"));
                None
            }
        }
    }

    /// Reads a table. A value of another type is a problem.
    pub fn table(&mut self, key: &'static str) -> Option<&'t DeTable<'t>> {
        let value = self.value(key)?;
        let below = value.get_ref().as_table();
        if below.is_none() {
            self.problem(
                value.span(),
                format!("`{key}` is a table of keys and values"),
            );
        }
        below
    }

    /// Adds a problem at a place of the text, in bytes.
    pub fn problem(&mut self, at: Range<usize>, message: impl Into<String>) {
        self.reader.problem(at, message);
    }

    /// Ends reading: refuses keys that were not asked for, and names the nearest known one.
    pub fn end(self) {
        for key in self.table.keys() {
            let name = key.get_ref().as_ref();
            if self.known.contains(name) {
                continue;
            }
            let likeness = |other: &str| strsim::jaro_winkler(name, other);
            let nearest = self
                .known
                .iter()
                .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
                .filter(|nearest| likeness(nearest) > ALIKE);
            let advice = match nearest {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => {
                    let known: Vec<&str> = self.known.iter().copied().collect();
                    format!("known are {}", known.join(", "))
                }
            };
            let place = self.place;
            let message = format!("unknown key `{name}`{place}; {advice}");
            self.reader.problem(key.span(), message);
        }
    }
}

/// The least similarity at which an unknown key is taken for a misspelt known one.
const ALIKE: f64 = 0.7;

/// An upper bound so high that messages do not mention it.
pub const MANY: f64 = 1e12;
