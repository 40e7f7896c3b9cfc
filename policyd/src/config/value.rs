// SPDX-License-Identifier: GPL-2.0-only

//! Sizes, shares and priorities as users write them.

use ddabi::{policy::Policy, pool::SsdAdmit};
use ddconf::size;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

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

/// The tiers that keep a container's pages.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase", try_from = "String")]
pub enum Store {
    /// The memory tier.
    #[default]
    Mem,
    /// The SSD tier.
    Ssd,
    /// The memory tier, and the SSD tier for pages that have to leave that.
    Hybrid,
    /// The pages are not cached.
    None,
}

impl Store {
    /// Returns whether pages are kept in the memory tier.
    pub const fn has_memory(self) -> bool {
        matches!(self, Self::Mem | Self::Hybrid)
    }

    /// Returns whether pages are kept in the SSD tier.
    pub const fn has_ssd(self) -> bool {
        matches!(self, Self::Ssd | Self::Hybrid)
    }

    /// Returns its name in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mem => "mem",
            Self::Ssd => "ssd",
            Self::Hybrid => "hybrid",
            Self::None => "none",
        }
    }
}

impl TryFrom<String> for Store {
    type Error = String;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        match name.as_str() {
            "mem" => Ok(Self::Mem),
            "none" => Ok(Self::None),
            "ssd" => Ok(Self::Ssd),
            "hybrid" => Ok(Self::Hybrid),
            _ => Err(format!(
                "unknown store `{name}`, expected `mem`, `ssd`, `hybrid` or `none`"
            )),
        }
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
        let unknown = || format!("unknown admission to SSDs `{name}`, expected `all` or `second`");
        SsdAdmit::from_name(&name).map(Self).ok_or_else(unknown)
    }
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
