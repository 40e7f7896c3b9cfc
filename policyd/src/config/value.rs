// SPDX-License-Identifier: GPL-2.0-only

//! Sizes, shares and priorities as users write them.

use ddabi::{
    policy::Policy,
    pool::{SsdAdmit, Store},
};
use ddconf::size;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, fmt};

/// A number of bytes, written as a whole number, or with a suffix `K`, `M`, `G` or `T`, also as
/// `MB` or `MiB` (powers of 1024).
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
#[serde(try_from = "Written")]
pub struct Size(pub u64);

/// A part of something, as a fraction of the whole or in bytes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(try_from = "Written")]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// Fraction of the whole, 0 to 1.
    Part(f64),
}

/// The forms in which the file may give a size or an amount.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a size is a number of bytes or text such as \"512M\""
)]
enum Written {
    Number(u64),
    Text(String),
}

impl Amount {
    /// Returns the amount as a fraction of `whole` bytes, 0 to 1. It is 0 if the whole is.
    pub fn part_of(self, whole: u64) -> f64 {
        match self {
            Self::Part(part) => part,
            Self::Bytes(_) if whole == 0 => 0.0,
            // An f64 is precise enough for shares.
            Self::Bytes(bytes) => (bytes as f64 / whole as f64).min(1.0),
        }
    }
}

impl TryFrom<Written> for Size {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Number(bytes) => Ok(Self(bytes)),
            Written::Text(text) => size::bytes(&text).map(Self),
        }
    }
}

impl TryFrom<Written> for Amount {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Number(bytes) => Ok(Self::Bytes(bytes)),
            Written::Text(text) => match text.parse()? {
                size::Size::Bytes(bytes) => Ok(Self::Bytes(bytes)),
                size::Size::Percent(percent) => Ok(Self::Part(percent / 100.0)),
            },
        }
    }
}

/// Decides which containers are served first when not all targets can be met. A higher number is
/// more important, 0 to 1000.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Priority(pub u32);

impl Priority {
    /// The class `bronze`.
    pub const BRONZE: Self = Self(100);
    /// The class `silver`, which is the default.
    pub const SILVER: Self = Self(200);
    /// The class `gold`.
    pub const GOLD: Self = Self(300);
    /// The highest priority.
    pub const MAX: u32 = 1000;

    /// Returns the worth of a spare page in relation to a container of priority 0. It doubles with
    /// each class.
    pub fn worth(self) -> f64 {
        (f64::from(self.0) / 100.0).exp2()
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::GOLD => f.write_str("gold"),
            Self::SILVER => f.write_str("silver"),
            Self::BRONZE => f.write_str("bronze"),
            Self(number) => write!(f, "priority {number}"),
        }
    }
}

/// A class by name.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Class {
    /// Served first.
    Gold,
    /// The default.
    Silver,
    /// Served last.
    Bronze,
}

impl From<Class> for Priority {
    fn from(class: Class) -> Self {
        match class {
            Class::Gold => Self::GOLD,
            Class::Silver => Self::SILVER,
            Class::Bronze => Self::BRONZE,
        }
    }
}

/// The tiers that keep a container's pages, as the file and reports name them.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(into = "&'static str", try_from = "String")]
pub struct StoreName(pub Store);

impl Default for StoreName {
    fn default() -> Self {
        Self(Store::Memory)
    }
}

impl From<StoreName> for &'static str {
    fn from(name: StoreName) -> Self {
        name.0.name()
    }
}

impl TryFrom<String> for StoreName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        let unknown = || {
            let names = one_of(&Store::ALL.map(Store::name));
            format!("unknown store `{name}`, expected {names}")
        };
        Store::from_name(&name).map(Self).ok_or_else(unknown)
    }
}

impl JsonSchema for StoreName {
    fn schema_name() -> Cow<'static, str> {
        "Store".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The tiers that keep a container's pages: the memory tier (`mem`), the \
                            SSD tier (`ssd`), the memory tier, and the SSD tier for pages that \
                            have to leave that (`hybrid`), or no tier (`none`).",
            "type": "string",
            "enum": Store::ALL.map(Store::name),
        })
    }
}

/// A policy, as the file names it.
#[derive(Deserialize)]
#[serde(try_from = "String")]
pub(super) struct PolicyName(pub(super) Policy);

impl TryFrom<String> for PolicyName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        let unknown = || {
            let names = Policy::ALL.map(|policy| format!("`{}`", policy.name()));
            format!(
                "unknown policy `{name}`, expected one of {}",
                names.join(", ")
            )
        };
        Policy::from_name(&name).map(Self).ok_or_else(unknown)
    }
}

/// Which pages go to the SSD tier, as the file names it.
#[derive(Deserialize)]
#[serde(try_from = "String")]
pub(super) struct AdmitName(pub(super) SsdAdmit);

impl TryFrom<String> for AdmitName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        let unknown = || {
            let names = one_of(&SsdAdmit::ALL.map(SsdAdmit::name));
            format!("unknown admission to SSDs `{name}`, expected {names}")
        };
        SsdAdmit::from_name(&name).map(Self).ok_or_else(unknown)
    }
}

/// Returns the names as a list of alternatives, such as "`mem`, `ssd` or `none`".
pub(super) fn one_of(names: &[&str]) -> String {
    let mut text = String::new();
    for (at, name) in names.iter().enumerate() {
        text += match names.len() - at {
            _ if at == 0 => "",
            1 => " or ",
            _ => ", ",
        };
        text += &format!("`{name}`");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_parts_of_a_whole() {
        assert_eq!(Amount::Part(0.25).part_of(0), 0.25);
        assert_eq!(Amount::Bytes(1 << 20).part_of(4 << 20), 0.25);
        assert_eq!(Amount::Bytes(1 << 20).part_of(0), 0.0);
        assert_eq!(Amount::Bytes(9).part_of(3), 1.0);
        assert!(Amount::try_from(Written::Text("101%".into())).is_err());
    }

    #[test]
    fn classes_are_ordered() {
        assert!(Priority::GOLD > Priority::SILVER && Priority::SILVER > Priority::BRONZE);
        assert!(Priority::GOLD.worth() > Priority::SILVER.worth());
    }
}
