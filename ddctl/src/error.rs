// SPDX-License-Identifier: GPL-2.0

//! What a verb can end with: a kind that decides the exit code, a message, and a hint.

use ddnl::printable;
use std::io::{self, Write};

/// Result with this crate's [`Error`].
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Kinds of errors; each has an exit code of its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A check failed, or something went wrong that has no code of its own.
    Failed,
    /// The command line makes no sense.
    Usage,
    /// The kernel module is not loaded.
    NoModule,
    /// The caller is not an administrator.
    Permission,
    /// No such VM, container or cgroup.
    NotFound,
    /// The module has another version.
    Version,
    /// The kernel refused.
    Refused,
}

impl Kind {
    /// The exit code, as `docs/ddctl.md` promises it.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NoModule => 3,
            Self::Permission => 4,
            Self::NotFound => 5,
            Self::Version => 6,
            Self::Refused => 7,
        }
    }
}

/// Why a verb did not do what it should.
#[derive(Debug)]
pub enum Error {
    /// The reader of our output is gone, which is no error at all.
    BrokenPipe,
    /// Something to tell the user.
    Told {
        /// Decides the exit code.
        kind: Kind,
        /// What is wrong.
        message: String,
        /// What to do next.
        hint: Option<String>,
    },
}

impl Error {
    /// An error without a hint.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self::Told {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(self, text: impl Into<String>) -> Self {
        match self {
            Self::Told { kind, message, .. } => Self::Told {
                kind,
                message,
                hint: Some(text.into()),
            },
            Self::BrokenPipe => self,
        }
    }

    /// Tells the user and answers the exit code.
    pub(crate) fn report(&self, err: &mut dyn Write) -> u8 {
        let Self::Told {
            kind,
            message,
            hint,
        } = self
        else {
            return 0;
        };
        // A failure to report a failure has no place to be reported to.
        let _ = writeln!(err, "Error: {}", printable(message));
        if let Some(hint) = hint {
            let _ = writeln!(err, "Hint: {}", printable(hint));
        }
        kind.exit_code()
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::BrokenPipe;
        }
        Self::new(Kind::Failed, error.to_string())
    }
}

impl From<ddnl::Error> for Error {
    fn from(error: ddnl::Error) -> Self {
        use ddnl::Error as Cause;
        let kind = match &error {
            Cause::Invalid { .. } => Kind::Usage,
            Cause::NotLoaded { .. } => Kind::NoModule,
            Cause::Permission { .. } => Kind::Permission,
            Cause::NotFound { .. } => Kind::NotFound,
            Cause::Layout { .. } | Cause::Unknown { .. } | Cause::Version { .. } => Kind::Version,
            Cause::Refused { .. } => Kind::Refused,
            Cause::Interrupted | Cause::Io(_) | Cause::Malformed { .. } | Cause::Overrun => {
                Kind::Failed
            }
        };
        Self::Told {
            kind,
            message: error.to_string(),
            hint: error.advice(),
        }
    }
}
