// SPDX-License-Identifier: GPL-2.0-only

//! Lookup of the number of a family and of its multicast group.

use crate::{
    attributes::{Attributes, text},
    call::Call,
    error::{Error, Result},
};
use ddabi::genl;
use netlink_packet_generic::constants::{
    CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME, CTRL_ATTR_MCAST_GROUPS, CTRL_ATTR_MCAST_GRP_ID,
    CTRL_ATTR_MCAST_GRP_NAME, CTRL_ATTR_VERSION, CTRL_CMD_GETFAMILY, GENL_ID_CTRL,
};
use serde::Serialize;
use std::fmt;

/// Which of the two modules.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Side {
    /// `doubledecker_guest`.
    Guest,
    /// `doubledecker_host`.
    Host,
}

impl Side {
    /// Returns the name of the netlink family.
    pub const fn family(self) -> &'static str {
        match self {
            Self::Guest => genl::GUEST_FAMILY,
            Self::Host => genl::HOST_FAMILY,
        }
    }

    /// Returns the name of the kernel module.
    pub const fn module(self) -> &'static str {
        match self {
            Self::Guest => "doubledecker_guest",
            Self::Host => "doubledecker_host",
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Guest => "guest",
            Self::Host => "host",
        })
    }
}

/// A registered family.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Family {
    /// The module that registered it.
    pub side: Side,
    /// Message type of its messages.
    pub id: u16,
    /// Version of the family.
    pub version: u8,
    /// Number of the multicast group for events.
    pub events: Option<u32>,
}

impl Family {
    /// Returns the kernel's own family (the controller), which looks up all others.
    pub(crate) const fn controller(side: Side) -> Self {
        Self {
            side,
            id: GENL_ID_CTRL,
            version: 2,
            events: None,
        }
    }

    /// Returns the request for the number of a family. The kernel answers "not found" if the family
    /// is not registered.
    pub(crate) fn resolve(name: &str) -> Call<Attributes> {
        Call::get(
            CTRL_CMD_GETFAMILY,
            Attributes::new().raw_string(CTRL_ATTR_FAMILY_NAME, name),
            Ok,
        )
    }

    /// Returns the request for the multicast group in which the kernel announces when families are
    /// registered and unregistered.
    pub(crate) fn announcer() -> Call<Attributes> {
        Self::resolve("nlctrl")
    }

    /// Returns the controller with the group from the answer to [`Self::announcer`].
    pub(crate) fn announced(self, answer: &Attributes) -> Result<Self> {
        Ok(Self {
            events: group(answer, "notify")?,
            ..self
        })
    }

    /// Parses the controller's answer.
    pub(crate) fn read(side: Side, answer: &Attributes) -> Result<Self> {
        let id = answer
            .find(CTRL_ATTR_FAMILY_ID)
            .and_then(|bytes| bytes.try_into().ok())
            .map(u16::from_ne_bytes)
            .ok_or_else(|| Error::malformed("family without a number"))?;
        let version = number(answer, CTRL_ATTR_VERSION).unwrap_or_default();
        Ok(Self {
            side,
            id,
            version: u8::try_from(version).unwrap_or(u8::MAX),
            events: group(answer, genl::EVENTS_GROUP)?,
        })
    }
}

/// Returns the number of a multicast group from the controller's answer.
fn group(answer: &Attributes, name: &str) -> Result<Option<u32>> {
    let Some(groups) = answer.find(CTRL_ATTR_MCAST_GROUPS) else {
        return Ok(None);
    };
    for group in Attributes::parse(groups)?.values() {
        let group = Attributes::parse(group)?;
        let found = group.find(CTRL_ATTR_MCAST_GRP_NAME).map(text);
        if found.as_deref() == Some(name) {
            return Ok(number(&group, CTRL_ATTR_MCAST_GRP_ID));
        }
    }
    Ok(None)
}

fn number(attributes: &Attributes, kind: u16) -> Option<u32> {
    let bytes = attributes.find(kind)?;
    bytes.try_into().ok().map(u32::from_ne_bytes)
}
