// SPDX-License-Identifier: GPL-2.0

//! What can go wrong between a tool and a module.

use crate::family::Side;
use ddabi::{ABI_VERSION, genl::Attribute};
use std::io;

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong between a tool and a module.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The tool asked for something no module could do.
    #[error("{message}")]
    Invalid {
        /// What is wrong with the request.
        message: String,
    },
    /// The socket failed.
    #[error("netlink socket: {0}")]
    Io(#[from] io::Error),
    /// A dump changed under our eyes too often.
    #[error("the module's state keeps changing while it is read")]
    Interrupted,
    /// A structure or number has another size than ours.
    #[error("attribute {attribute:?} has {theirs} bytes, this tool knows {ours}")]
    Layout {
        /// The attribute.
        attribute: Attribute,
        /// Bytes the module sent.
        theirs: usize,
        /// Bytes we know.
        ours: usize,
    },
    /// The reply makes no sense.
    #[error("malformed reply from the kernel: {message}")]
    Malformed {
        /// What is wrong with it.
        message: String,
    },
    /// The kernel knows no such thing.
    #[error("{message}")]
    NotFound {
        /// The kernel's words.
        message: String,
    },
    /// The family is not registered.
    #[error("the kernel module {} is not loaded", .side.module())]
    NotLoaded {
        /// The module that is missing.
        side: Side,
    },
    /// Events were lost because we read too slowly.
    #[error("events were lost: they came faster than they were read")]
    Overrun,
    /// The caller is not an administrator.
    #[error("no permission to control {}: {message}", .side.module())]
    Permission {
        /// The module that refused.
        side: Side,
        /// The kernel's words.
        message: String,
    },
    /// The kernel refused the request.
    #[error("the kernel refused: {message}")]
    Refused {
        /// The error number.
        errno: i32,
        /// The kernel's words, or the text of the number.
        message: String,
    },
    /// A number we have no name for.
    #[error("attribute {attribute:?} has the value {value}, which this tool does not know")]
    Unknown {
        /// The attribute.
        attribute: Attribute,
        /// Its value.
        value: u32,
    },
    /// The module speaks another version.
    #[error(
        "{} speaks ABI version {theirs}, this tool speaks {}", .side.module(), ABI_VERSION
    )]
    Version {
        /// The module.
        side: Side,
        /// Its ABI version.
        theirs: u32,
        /// Its own version, if it says so.
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

    /// The error for a negative answer of the kernel.
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

    /// What to do about it, in one sentence, if there is something to do.
    pub fn advice(&self) -> Option<String> {
        Some(match self {
            Self::Interrupted => "try again".into(),
            Self::Layout { .. } | Self::Unknown { .. } => {
                "install the tools and the modules of the same release".into()
            }
            Self::NotLoaded { side } => format!(
                "load it with `insmod {0}.ko` or `modprobe {0}`; `ddctl doctor` says what it needs",
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

// The few numbers the kernel answers with that mean something of their own here.
const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const ESRCH: i32 = 3;
const ENXIO: i32 = 6;
const EACCES: i32 = 13;
pub(crate) const ENOBUFS: i32 = 105;
