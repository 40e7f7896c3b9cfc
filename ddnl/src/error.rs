// SPDX-License-Identifier: GPL-2.0-only

//! Errors of calls to a module.

use crate::family::Side;
use ddabi::{ABI_VERSION, genl::Attribute};
use std::io;

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of a call to a module. The text of each is a message for the user.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request is invalid for any module and was not sent.
    #[error("{message}")]
    Invalid {
        /// The error in the request.
        message: String,
    },
    /// The socket failed.
    #[error("netlink socket: {0}")]
    Io(#[from] io::Error),
    /// The listed state changed during each of several attempts to dump it.
    #[error("the module's state keeps changing while it is read")]
    Interrupted,
    /// An attribute does not have the size that this version of the ABI gives it.
    #[error("attribute {attribute:?} has {theirs} bytes, but this tool expects {ours}")]
    Layout {
        /// The attribute.
        attribute: Attribute,
        /// Size in bytes as sent by the module.
        theirs: usize,
        /// Size in bytes as defined by the ABI.
        ours: usize,
    },
    /// The reply does not follow the protocol.
    #[error("malformed reply from the kernel: {message}")]
    Malformed {
        /// The error in the reply.
        message: String,
    },
    /// The VM, pool or cgroup of the request does not exist (`ENOENT`, `ESRCH`).
    #[error("{message}")]
    NotFound {
        /// The kernel's message.
        message: String,
    },
    /// The module is not loaded: its netlink family is not registered.
    #[error("the kernel module {} is not loaded", .side.module())]
    NotLoaded {
        /// The module that is missing.
        side: Side,
    },
    /// The kernel dropped events because the socket's buffer was full.
    #[error("events were lost: they came faster than they were read")]
    Overrun,
    /// The caller lacks `CAP_NET_ADMIN` (`EPERM`, `EACCES`).
    #[error("no permission to control {}: {message}", .side.module())]
    Permission {
        /// The module that refused.
        side: Side,
        /// The kernel's message.
        message: String,
    },
    /// The kernel refused the request with another error number.
    #[error("the kernel refused: {message}")]
    Refused {
        /// The error number.
        errno: i32,
        /// The kernel's message, or the standard text of the number.
        message: String,
    },
    /// An attribute has a number that this version of the ABI does not define.
    #[error("attribute {attribute:?} has the value {value}, which this tool does not know")]
    Unknown {
        /// The attribute.
        attribute: Attribute,
        /// Its value.
        value: u32,
    },
    /// The module has another ABI version.
    #[error(
        "{} has ABI version {theirs}, this tool has {}", .side.module(), ABI_VERSION
    )]
    Version {
        /// The module.
        side: Side,
        /// Its ABI version.
        theirs: u32,
        /// Its release, if it reports one.
        module: Option<String>,
    },
}

impl Error {
    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::Malformed {
            message: message.into(),
        }
    }

    pub(crate) fn missing(attribute: Attribute) -> Self {
        Self::malformed(format!("attribute {attribute:?} is missing"))
    }

    /// Creates the error for an error number, with the kernel's message if there is one.
    pub(crate) fn from_kernel(side: Side, errno: i32, words: Option<String>) -> Self {
        let text = io::Error::from_raw_os_error(errno).to_string();
        let message = match (words, errno, side) {
            (Some(words), ..) => format!("{words} ({text})"),
            (None, ENXIO, Side::Guest) => "no host is attached".into(),
            (None, ..) => text,
        };
        match errno {
            EPERM | EACCES => Self::Permission { side, message },
            ENOENT | ESRCH => Self::NotFound { message },
            _ => Self::Refused { errno, message },
        }
    }

    /// Returns advice for the user in one sentence, if the user can do something about the error.
    pub fn advice(&self) -> Option<String> {
        Some(match self {
            Self::Interrupted => "try again".into(),
            Self::Layout { .. } | Self::Unknown { .. } => {
                "install the tools and the modules of the same release".into()
            }
            Self::NotLoaded { side } => format!(
                "load it with `modprobe {0}`; `ddctl doctor` shows what it needs",
                side.module()
            ),
            Self::Permission { .. } => {
                "run as root, or with CAP_NET_ADMIN in the initial namespace".into()
            }
            Self::Version { side, theirs, .. } => {
                let older = if *theirs < u32::from(ABI_VERSION) {
                    side.module()
                } else {
                    "this tool"
                };
                format!("{older} is older: install the tools and the modules of the same release")
            }
            _ => return None,
        })
    }
}

// The error numbers of the kernel that are distinguished here.
const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const ESRCH: i32 = 3;
const ENXIO: i32 = 6;
const EACCES: i32 = 13;
pub(crate) const ENOBUFS: i32 = 105;
