// SPDX-License-Identifier: GPL-2.0-only

//! Errors of a daemon's program: the exit code, and a message as text or as JSON. The JSON has the
//! fields of `ddctl`'s (`docs/ddctl.schema.json`).

use crate::journal;
use anyhow::Result;
use clap::{Parser, error::ErrorKind};
use ddnl::printable_json;
use serde_json::json;
use std::{env, io, process::ExitCode};

/// Version of the schema, which is that of `ddctl`.
const SCHEMA_VERSION: u32 = 1;

/// Kinds of errors.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// An error without its own code.
    Failed,
    /// The command line is invalid.
    Usage,
    /// The kernel module is not loaded.
    NoModule,
    /// The file is valid, and this machine is not ready for it, or does not suffice for it.
    Unmet,
    /// The caller is not an administrator.
    Permission,
    /// The daemon does not run, or the kernel does not know what was named.
    NotFound,
    /// The module has another version.
    Version,
    /// The kernel refused.
    Refused,
}

impl Kind {
    /// Returns the exit code.
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

    /// Returns the word for it in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::NoModule => "no-module",
            Self::Unmet => "unmet",
            Self::Permission => "permission",
            Self::NotFound => "not-found",
            Self::Version => "version",
            Self::Refused => "refused",
        }
    }
}

/// Parses the command line of this process. If that fails, or the user asks for help, it prints the
/// text or, with `--json`, an error as JSON, and returns the exit code.
pub fn parse<C: Parser>() -> Result<C, ExitCode> {
    C::try_parse().map_err(|refusal| {
        let options = env::args_os().skip(1).take_while(|word| word != "--");
        if refusal.use_stderr() && options.into_iter().any(|word| word == "--json") {
            eprintln!("{}", usage(&refusal));
            return Kind::Usage.exit_code().into();
        }
        // A reader that has closed the output is not an error.
        let _ = refusal.print();
        match refusal.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
            _ => Kind::Usage.exit_code().into(),
        }
    })
}

/// Returns an error of the command line as JSON.
fn usage(refusal: &clap::Error) -> String {
    let text = refusal.render().to_string();
    let (message, hint) = text.split_once("\n\n").unwrap_or((&text, ""));
    let message = message.trim_start_matches("error: ").trim();
    let hint = Some(hint.trim()).filter(|hint| !hint.is_empty());
    line(Kind::Usage, message, hint)
}

/// Reports the error of a program, if there is one, and returns its exit code. A reader that has
/// closed the program's output is not an error; `kind` returns the kind of other errors.
pub fn report(
    result: Result<ExitCode>,
    json: bool,
    kind: impl FnOnce(&anyhow::Error) -> Kind,
) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let kind = kind(&error);
            eprintln!("{}", text(&error, kind, json, journal::is_stderr()));
            kind.exit_code().into()
        }
    }
}

/// Reports a warning, after which the program continues.
pub fn warn(text: &str, json: bool) {
    match json {
        true => eprintln!("{}", printable_json(&versioned("warning", &json!(text)))),
        false => eprintln!("Warning: {text}"),
    }
}

fn text(error: &anyhow::Error, kind: Kind, json: bool, is_journal: bool) -> String {
    let asked = error.downcast_ref::<ddnl::Error>();
    let hint = asked.and_then(ddnl::Error::advice);
    let mut message = format!("{error:#}");
    if json {
        return line(kind, &message, hint.as_deref());
    }
    message.insert_str(0, "Error: ");
    if let Some(hint) = hint {
        message += &format!("\nHint: {hint}");
    }
    journal::error(&message, is_journal)
}

fn line(kind: Kind, message: &str, hint: Option<&str>) -> String {
    let error = json!({
        "kind": kind.word(),
        "exit_code": kind.exit_code(),
        "message": message,
        "hint": hint,
    });
    printable_json(&versioned("error", &error)).into_owned()
}

fn versioned(key: &str, value: &serde_json::Value) -> String {
    json!({ key: value, "schema_version": SCHEMA_VERSION }).to_string()
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ddnl::Side;
    use serde_json::Value;
    use std::{collections::BTreeSet, fs};

    fn schema() -> Value {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/ddctl.schema.json");
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }

    fn parsed(kind: Kind) -> Value {
        let error = anyhow::anyhow!("a\nb").context("wrong\u{202e}");
        serde_json::from_str(&text(&error, kind, true, true)).unwrap()
    }

    #[test]
    fn json_has_the_fields_of_ddctl() {
        let schema = schema();
        let line = parsed(Kind::Failed);
        assert_eq!(line["schema_version"], schema["version"]);
        let fields: BTreeSet<&str> = line["error"]
            .as_object()
            .unwrap()
            .keys()
            .map(|it| &**it)
            .collect();
        let required = schema["$defs"]["Report"]["required"].as_array().unwrap();
        let required: BTreeSet<&str> = required.iter().filter_map(Value::as_str).collect();
        assert_eq!(fields, required);
        assert_eq!(line["error"]["message"], "wrong\u{202e}: a\nb");
        assert_eq!(line["error"]["exit_code"], 1);
        assert!(line["error"]["hint"].is_null());
    }

    /// The words are those of ddctl, except for the one that only daemons need.
    #[test]
    fn kinds_are_those_of_ddctl() {
        let schema = schema();
        let kinds = schema["$defs"]["Kind"]["oneOf"].as_array().unwrap();
        let mut words: Vec<&str> = kinds.iter().filter_map(|it| it["const"].as_str()).collect();
        let own = [
            Kind::Failed,
            Kind::Usage,
            Kind::NoModule,
            Kind::Permission,
            Kind::NotFound,
            Kind::Version,
            Kind::Refused,
        ];
        let codes: Vec<u8> = own.iter().map(|kind| kind.exit_code()).collect();
        assert_eq!(codes, [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(own.map(Kind::word).as_slice(), words);
        words.push(Kind::Unmet.word());
        assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), words.len());
    }

    #[test]
    fn texts_and_json_have_the_hint() {
        let error: anyhow::Error = ddnl::Error::NotLoaded { side: Side::Host }.into();
        let plain = text(&error, Kind::NoModule, false, false);
        let (message, hint) = plain.split_once("\nHint: ").unwrap();
        let line: Value = serde_json::from_str(&text(&error, Kind::NoModule, true, false)).unwrap();
        assert_eq!(line["error"]["hint"], hint);
        let message = message.strip_prefix("Error: ").unwrap();
        assert_eq!(line["error"]["message"], message);
        assert!(text(&error, Kind::NoModule, false, true).starts_with("<3>Error: "));
    }

    #[test]
    fn invisible_characters_are_escaped() {
        let error = anyhow::anyhow!("a\u{202e}");
        assert!(!text(&error, Kind::Failed, true, false).contains('\u{202e}'));
    }
}
