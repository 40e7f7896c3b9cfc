// SPDX-License-Identifier: GPL-2.0-only

//! How a daemon's program ends: it parses its command line, prints reports, and reports the error
//! or warnings, as text or as JSON.

use crate::journal;
use anyhow::Result;
use clap::{Parser, error::ErrorKind};
use ddnl::{Kind, ProgramError, is_hidden, printable_json, program_error, schema::Versioned};
use serde::Serialize;
use std::{
    env,
    fmt::Display,
    io::{self, Write, stdout},
    process::ExitCode,
};

/// Parses the command line of this process. If that fails, or the user asks for help, it prints the
/// text or, with `--json`, an error as JSON, and returns the exit code.
pub fn parse<C: Parser>() -> Result<C, ExitCode> {
    C::try_parse().map_err(|refusal| {
        let options = env::args_os().skip(1).take_while(|word| word != "--");
        if refusal.use_stderr() && options.into_iter().any(|word| word == "--json") {
            let error = ProgramError::usage(&refusal.render().to_string());
            return error.report(&mut io::stderr(), true).into();
        }
        // A reader that has closed the output is not an error.
        let _ = refusal.print();
        match refusal.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
            _ => Kind::Usage.exit_code().into(),
        }
    })
}

/// Prints a report, as text or as JSON with the version of its schema.
pub fn print(report: &(impl Display + Serialize), json: bool) -> Result<()> {
    if !json {
        return Ok(write!(stdout(), "{report}")?);
    }
    let json = serde_json::to_string_pretty(&Versioned::new(report))?;
    Ok(writeln!(stdout(), "{}", printable_json(&json))?)
}

/// Reports the error of a program, if there is one, and returns its exit code.
pub fn report(result: Result<ExitCode>, json: bool) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(error) => {
            let error = ending(&error);
            if let Some(text) = text(&error, json, journal::is_stderr()) {
                eprintln!("{text}");
            }
            error.exit_code().into()
        }
    }
}

/// Reports a warning, after which the program continues.
pub fn warn(text: &str, json: bool) {
    match json {
        true => eprintln!("{}", program_error::warning(text)),
        false => eprintln!("Warning: {text}"),
    }
}

/// Returns the error with which a program ends. Kind and hint are those of the error that is the
/// cause; the message also has the context in which it occurred.
fn ending(error: &anyhow::Error) -> ProgramError {
    let message = format!("{error:#}");
    if let Some(cause) = error.downcast_ref::<ProgramError>() {
        let Some(kind) = cause.kind() else {
            return ProgramError::BrokenPipe;
        };
        return hinted(ProgramError::new(kind, message), cause.advice());
    }
    if let Some(cause) = error.downcast_ref::<ddnl::Error>() {
        let advice = cause.advice();
        return hinted(
            ProgramError::new(Kind::from(cause), message),
            advice.as_deref(),
        );
    }
    let cause = error.downcast_ref::<io::Error>();
    match cause.map(io::Error::kind) {
        // A reader that has closed the program's output.
        Some(io::ErrorKind::BrokenPipe) => ProgramError::BrokenPipe,
        Some(io::ErrorKind::PermissionDenied) => ProgramError::new(Kind::Permission, message),
        _ => ProgramError::new(Kind::Failed, message),
    }
}

fn hinted(error: ProgramError, advice: Option<&str>) -> ProgramError {
    match advice {
        Some(advice) => error.hint(advice),
        None => error,
    }
}

/// Returns the report on an error. A text has a line for each problem of a file.
fn text(error: &ProgramError, json: bool, is_journal: bool) -> Option<String> {
    let line = error.json()?;
    if json {
        return Some(line);
    }
    let mut text = format!("Error: {}", error.message());
    if let Some(hint) = error.advice() {
        text += &format!("\nHint: {hint}");
    }
    Some(journal::error(&shown(&text), is_journal))
}

/// Returns a text of several lines in which hidden characters are replaced by their numbers.
fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match is_hidden(letter) && letter != '\n' {
            true => shown.extend(letter.escape_unicode()),
            false => shown.push(letter),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};
    use ddnl::Side;
    use serde_json::Value;

    fn parsed(error: &anyhow::Error) -> Value {
        let line = text(&ending(error), true, true).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    #[test]
    fn causes_are_a_part_of_the_message() {
        let line = parsed(&anyhow!("a\nb").context("wrong\u{202e}"));
        assert_eq!(line["error"]["message"], "wrong\u{202e}: a\nb");
        assert_eq!(line["error"]["kind"], "failed");
        assert!(line["error"]["hint"].is_null());
    }

    #[test]
    fn the_kind_is_that_of_the_cause() {
        let unmet = || ProgramError::new(Kind::Unmet, "too small").hint("give more");
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let absent = || io::Error::from(io::ErrorKind::NotFound);
        let missing = || ddnl::Error::NotLoaded { side: Side::Host };
        let errors: [(anyhow::Error, _); 6] = [
            (unmet().into(), "unmet"),
            (
                Err::<(), _>(unmet()).context("a file").unwrap_err(),
                "unmet",
            ),
            (
                Err::<(), _>(denied()).context("a file").unwrap_err(),
                "permission",
            ),
            // Only a socket that does not exist tells that the daemon does not run.
            (
                Err::<(), _>(absent()).context("a file").unwrap_err(),
                "failed",
            ),
            (
                Err::<(), _>(missing()).context("a call").unwrap_err(),
                "no-module",
            ),
            (anyhow!("other"), "failed"),
        ];
        for (error, kind) in errors {
            assert_eq!(parsed(&error)["error"]["kind"], kind, "{error:#}");
        }
        let error = Err::<(), _>(unmet()).context("a file").unwrap_err();
        let plain = text(&ending(&error), false, false);
        let expected = "Error: a file: too small\nHint: give more";
        assert_eq!(plain.as_deref(), Some(expected));
    }

    #[test]
    fn a_reader_that_has_left_is_no_error() {
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        for error in [closed().into(), ProgramError::from(closed()).into()] {
            let error: anyhow::Error = error;
            let ending = ending(&error);
            assert_eq!((ending.exit_code(), text(&ending, false, false)), (0, None));
        }
    }

    #[test]
    fn texts_and_json_have_the_hint() {
        let error: anyhow::Error = ddnl::Error::NotLoaded { side: Side::Host }.into();
        let plain = text(&ending(&error), false, false).unwrap();
        let (message, hint) = plain.split_once("\nHint: ").unwrap();
        let line = parsed(&error);
        assert_eq!(line["error"]["hint"], hint);
        let message = message.strip_prefix("Error: ").unwrap();
        assert_eq!(line["error"]["message"], message);
        let journal = text(&ending(&error), false, true).unwrap();
        assert!(journal.starts_with("<3>Error: "));
    }

    #[test]
    fn invisible_characters_are_escaped() {
        let error = ending(&anyhow!("a\u{202e}\nb"));
        assert!(!text(&error, true, false).unwrap().contains('\u{202e}'));
        let plain = text(&error, false, false);
        assert_eq!(plain.as_deref(), Some("Error: a\\u{202e}\nb"));
    }
}
