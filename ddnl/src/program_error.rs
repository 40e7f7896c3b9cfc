// SPDX-License-Identifier: GPL-2.0-only

//! The error with which a program ends: a kind that determines the exit code, a message, and a
//! hint, as text or as JSON. `ddctl` and both daemons have the same kinds, so that scripts need to
//! know one list only.

use crate::{Error, printable, printable_json, schema::versioned};
use serde::Serialize;
use serde_json::json;
use std::{
    fmt,
    io::{self, Write},
};

/// Kinds of errors, each with its own exit code; `unmet` has that of `no-module`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Kind {
    /// A check failed, or another error without its own code occurred.
    Failed,
    /// The command line is invalid.
    Usage,
    /// The kernel module is not loaded.
    NoModule,
    /// A daemon's file is valid, and this machine is not ready for it, or does not suffice for it.
    Unmet,
    /// The caller is not an administrator.
    Permission,
    /// No such VM, container or cgroup, or the daemon does not run.
    NotFound,
    /// The module has another version.
    Version,
    /// The kernel refused.
    Refused,
}

impl Kind {
    /// Returns the exit code, as documented in `docs/users/ddctl.md`.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NoModule | Self::Unmet => 3,
            Self::Permission => 4,
            Self::NotFound => 5,
            Self::Version => 6,
            Self::Refused => 7,
        }
    }
}

impl From<&Error> for Kind {
    fn from(error: &Error) -> Self {
        match error {
            Error::Invalid { .. } => Self::Usage,
            Error::NotLoaded { .. } => Self::NoModule,
            Error::Permission { .. } => Self::Permission,
            Error::NotFound { .. } => Self::NotFound,
            Error::Layout { .. } | Error::Unknown { .. } | Error::Version { .. } => Self::Version,
            Error::Refused { .. } => Self::Refused,
            Error::Interrupted | Error::Io(_) | Error::Malformed { .. } | Error::Overrun => {
                Self::Failed
            }
        }
    }
}

/// The kind of an error of the socket of a daemon.
impl From<&io::Error> for Kind {
    fn from(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::Permission,
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Self::NotFound,
            _ => Self::Failed,
        }
    }
}

/// An error on the standard error, if JSON is requested.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorReport<'a> {
    /// The error.
    error: ErrorFields<'a>,
}

/// Parts of an error.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct ErrorFields<'a> {
    /// Kind of the error.
    kind: Kind,
    /// Exit code of the command.
    exit_code: u8,
    /// Describes the error.
    message: &'a str,
    /// Advice on what to do next.
    hint: Option<&'a str>,
}

/// A warning on the standard error, if JSON is requested. The command continues.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WarningReport<'a> {
    /// The warning.
    warning: &'a str,
}

/// Returns a warning as a line of JSON.
pub fn warning(text: &str) -> String {
    line(&WarningReport { warning: text })
}

/// The error with which a program ends.
#[derive(Debug)]
pub enum ProgramError {
    /// The reader has closed our output. The program ends without a message and with success.
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

impl ProgramError {
    /// Creates an error without a hint.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self::Reported {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    /// Creates the error for a command line that clap refuses, from clap's text.
    pub fn usage(text: &str) -> Self {
        let (message, hint) = text.split_once("\n\n").unwrap_or((text, ""));
        let error = Self::new(Kind::Usage, message.trim_start_matches("error: ").trim());
        match hint.trim() {
            "" => error,
            hint => error.hint(hint.replace("--help'.", "--help'")),
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
    pub fn kind(&self) -> Option<Kind> {
        match self {
            Self::BrokenPipe => None,
            Self::Reported { kind, .. } => Some(*kind),
        }
    }

    /// Returns the exit code.
    pub fn exit_code(&self) -> u8 {
        self.kind().map_or(0, Kind::exit_code)
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        match self {
            Self::BrokenPipe => "the output is closed",
            Self::Reported { message, .. } => message,
        }
    }

    /// Returns the advice, if there is any.
    pub fn advice(&self) -> Option<&str> {
        match self {
            Self::BrokenPipe => None,
            Self::Reported { hint, .. } => hint.as_deref(),
        }
    }

    /// Returns an error that is reported as a line of JSON.
    pub fn json(&self) -> Option<String> {
        let kind = self.kind()?;
        Some(line(&ErrorReport {
            error: ErrorFields {
                kind,
                exit_code: kind.exit_code(),
                message: self.message(),
                hint: self.advice(),
            },
        }))
    }

    /// Reports the error to the user, as text or as a line of JSON, and returns the exit code.
    pub fn report(&self, err: &mut dyn Write, json: bool) -> u8 {
        // An error of standard error itself cannot be reported.
        if let Some(line) = self.json().filter(|_| json) {
            let _ = writeln!(err, "{line}");
        } else if self.kind().is_some() {
            let _ = writeln!(err, "Error: {}", printable(self.message()));
            if let Some(hint) = self.advice() {
                let _ = writeln!(err, "Hint: {}", printable(hint));
            }
        }
        self.exit_code()
    }
}

fn line(report: &impl Serialize) -> String {
    let json = versioned(json!(report)).to_string();
    printable_json(&json).into_owned()
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for ProgramError {}

impl From<io::Error> for ProgramError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::BrokenPipe;
        }
        Self::new(Kind::Failed, error.to_string())
    }
}

impl From<Error> for ProgramError {
    fn from(error: Error) -> Self {
        Self::Reported {
            kind: Kind::from(&error),
            message: error.to_string(),
            hint: error.advice(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Side;
    use ddabi::genl::Attribute;
    use serde_json::Value;

    fn parsed(error: &ProgramError) -> Value {
        serde_json::from_str(&error.json().unwrap()).unwrap()
    }

    fn reported(error: &ProgramError, json: bool) -> (u8, String) {
        let mut out = Vec::new();
        let code = error.report(&mut out, json);
        (code, String::from_utf8(out).unwrap())
    }

    #[test]
    fn each_kind_has_its_word_and_its_exit_code() {
        let kinds = [
            (Kind::Failed, "failed", 1),
            (Kind::Usage, "usage", 2),
            (Kind::NoModule, "no-module", 3),
            (Kind::Unmet, "unmet", 3),
            (Kind::Permission, "permission", 4),
            (Kind::NotFound, "not-found", 5),
            (Kind::Version, "version", 6),
            (Kind::Refused, "refused", 7),
        ];
        for (kind, word, code) in kinds {
            let error = ProgramError::new(kind, "wrong");
            assert_eq!(error.exit_code(), code);
            let line = parsed(&error);
            let expected = json!({ "kind": word, "exit_code": code, "message": "wrong",
                "hint": null });
            assert_eq!(line, json!({ "error": expected, "schema_version": 1 }));
        }
    }

    #[test]
    fn errors_of_a_module_have_their_kind_and_advice() {
        let message = || "no".to_owned();
        let errors = [
            (Error::Invalid { message: message() }, Kind::Usage),
            (Error::NotLoaded { side: Side::Host }, Kind::NoModule),
            (Error::NotFound { message: message() }, Kind::NotFound),
            (Error::Interrupted, Kind::Failed),
            (Error::Overrun, Kind::Failed),
            (Error::malformed("x"), Kind::Failed),
            (Error::Io(io::ErrorKind::NotFound.into()), Kind::Failed),
            (
                Error::Unknown {
                    attribute: Attribute::Mode,
                    value: 9,
                },
                Kind::Version,
            ),
            (
                Error::Refused {
                    errno: 22,
                    message: message(),
                },
                Kind::Refused,
            ),
            (
                Error::Permission {
                    side: Side::Guest,
                    message: message(),
                },
                Kind::Permission,
            ),
        ];
        for (error, kind) in errors {
            let (text, advice) = (error.to_string(), error.advice());
            let error = ProgramError::from(error);
            assert_eq!((error.kind(), error.message()), (Some(kind), &*text));
            assert_eq!(error.advice(), advice.as_deref());
        }
    }

    #[test]
    fn errors_of_a_socket_tell_whether_the_daemon_runs() {
        let kind = |kind: io::ErrorKind| Kind::from(&io::Error::from(kind));
        assert_eq!(kind(io::ErrorKind::PermissionDenied), Kind::Permission);
        assert_eq!(kind(io::ErrorKind::NotFound), Kind::NotFound);
        assert_eq!(kind(io::ErrorKind::ConnectionRefused), Kind::NotFound);
        assert_eq!(kind(io::ErrorKind::TimedOut), Kind::Failed);
    }

    #[test]
    fn a_closed_output_is_a_success() {
        let error = ProgramError::from(io::Error::from(io::ErrorKind::BrokenPipe)).hint("x");
        assert_eq!(
            (error.kind(), error.json(), error.advice()),
            (None, None, None)
        );
        for json in [false, true] {
            assert_eq!(reported(&error, json), (0, String::new()));
        }
        let other = ProgramError::from(io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(other.kind(), Some(Kind::Failed));
    }

    #[test]
    fn text_and_json_are_lines_without_hidden_characters() {
        let error = ProgramError::new(Kind::Refused, "a\u{202e}").hint("b\u{1b}");
        let text = "Error: a\\u{202e}\nHint: b\\u{1b}\n".to_owned();
        assert_eq!(reported(&error, false), (7, text));
        let (code, line) = reported(&error, true);
        assert_eq!((code, line.lines().count()), (7, 1));
        assert!(!line.contains('\u{202e}'));
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["error"]["message"], "a\u{202e}");
        assert_eq!(line["error"]["hint"], "b\u{1b}");
        let warned: Value = serde_json::from_str(&warning("c\u{200b}")).unwrap();
        assert_eq!(
            warned,
            json!({ "warning": "c\u{200b}", "schema_version": 1 })
        );
        assert!(!warning("c\u{200b}").contains('\u{200b}'));
    }

    #[test]
    fn the_usage_of_clap_is_a_hint() {
        let error = ProgramError::usage("error: bad\n\nUsage: x\n\nFor more, try '--help'.\n");
        assert_eq!(error.kind(), Some(Kind::Usage));
        assert_eq!(error.message(), "bad");
        assert_eq!(error.advice(), Some("Usage: x\n\nFor more, try '--help'"));
        assert_eq!(ProgramError::usage("error: bad\n").advice(), None);
    }
}
