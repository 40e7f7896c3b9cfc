// SPDX-License-Identifier: GPL-2.0-only

//! Errors of a verb: a kind that determines the exit code, a message, and a hint.

use crate::output::versioned;
use ddnl::{printable, printable_json};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use std::io::{self, Write};

/// Result with this crate's [`Error`].
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Kinds of errors, each with its own exit code.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A check failed, or another error without its own code occurred.
    Failed,
    /// The command line is invalid.
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
    /// Returns the exit code, as documented in `docs/ddctl.md`.
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

/// An error on the standard error, if JSON is requested.
#[derive(JsonSchema, Serialize)]
pub(crate) struct ErrorReport {
    /// The error.
    error: Report,
}

/// Parts of an error.
#[derive(JsonSchema, Serialize)]
struct Report {
    /// Kind of the error.
    kind: Kind,
    /// Exit code of the command.
    exit_code: u8,
    /// Describes the error.
    message: String,
    /// Advice on what to do next.
    hint: Option<String>,
}

/// A warning on the standard error, if JSON is requested. The command continues.
#[derive(JsonSchema, Serialize)]
pub(crate) struct WarningReport {
    /// The warning.
    pub(crate) warning: String,
}

/// Error of a verb.
#[derive(Debug)]
pub enum Error {
    /// The reader has closed our output. ddctl ends without a message and with success.
    BrokenPipe,
    /// An error that is reported to the user.
    Reported {
        /// Determines the exit code.
        kind: Kind,
        /// Describes the error.
        message: String,
        /// Advises the user what to do next.
        hint: Option<String>,
    },
}

impl Error {
    /// Creates an error without a hint.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self::Reported {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    /// Adds advice on what to do next.
    #[must_use]
    pub fn hint(self, text: impl Into<String>) -> Self {
        match self {
            Self::Reported { kind, message, .. } => Self::Reported {
                kind,
                message,
                hint: Some(text.into()),
            },
            Self::BrokenPipe => self,
        }
    }

    /// Returns the kind of an error that is reported.
    pub(crate) fn kind(&self) -> Option<Kind> {
        match self {
            Self::BrokenPipe => None,
            Self::Reported { kind, .. } => Some(*kind),
        }
    }

    /// Returns the message.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::BrokenPipe => "the output is closed",
            Self::Reported { message, .. } => message,
        }
    }

    /// Reports the error to the user, as text or as a line of JSON, and returns the exit code.
    pub(crate) fn report(&self, err: &mut dyn Write, json: bool) -> u8 {
        let Self::Reported {
            kind,
            message,
            hint,
        } = self
        else {
            return 0;
        };
        // An error of standard error itself cannot be reported.
        if json {
            let report = ErrorReport {
                error: Report {
                    kind: *kind,
                    exit_code: kind.exit_code(),
                    message: message.clone(),
                    hint: hint.clone(),
                },
            };
            let line = versioned(json!(report)).to_string();
            let _ = writeln!(err, "{}", printable_json(&line));
            return kind.exit_code();
        }
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

impl From<ddvm::tier::InvalidSize> for Error {
    fn from(wrong: ddvm::tier::InvalidSize) -> Self {
        Self::new(Kind::Usage, wrong.message()).hint(wrong.advice())
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
        Self::Reported {
            kind,
            message: error.to_string(),
            hint: error.advice(),
        }
    }
}
