// SPDX-License-Identifier: GPL-2.0-only

//! Sizes, shares and ranks as people write them.

use ddabi::policy::Policy;
use ddconf::size;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A number of bytes: a whole number, or one with `K`, `M`, `G` or `T`, also as `MB` or `MiB`
/// (powers of 1024).
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
#[serde(try_from = "Written")]
pub struct Size(pub u64);

/// A share of something: percent of the whole, or bytes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(try_from = "Written")]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// A part of the whole, 0 to 1.
    Part(f64),
}

/// What a person may write for either.
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
    /// The amount as a part of `whole` bytes, 0 to 1; nothing of nothing.
    pub fn part_of(self, whole: u64) -> f64 {
        match self {
            Self::Part(part) => part,
            Self::Bytes(_) if whole == 0 => 0.0,
            // Precise enough for shares.
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

/// Who comes first when not all targets can be met: higher is more important, 0 to 1000.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Priority(pub u32);

impl Priority {
    /// `bronze`.
    pub const BRONZE: Self = Self(100);
    /// `silver`, and what containers have that say nothing.
    pub const SILVER: Self = Self(200);
    /// `gold`.
    pub const GOLD: Self = Self(300);
    /// The highest.
    pub const MAX: u32 = 1000;

    /// How much more a page is worth here than to a container of priority 0 when something is
    /// left over: doubles with each class.
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
    /// First served.
    Gold,
    /// The usual.
    Silver,
    /// Last served.
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

/// Where a container's pages are kept.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase", try_from = "String")]
pub enum Store {
    /// The memory tier.
    #[default]
    Mem,
    /// The SSD tier.
    Ssd,
    /// The memory tier, and the SSD tier for pages that have to leave that.
    Hybrid,
    /// Nowhere.
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
