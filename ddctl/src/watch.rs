// SPDX-License-Identifier: GPL-2.0-only

//! Options `--watch` and `--count`: repeated output.

use crate::{
    context::Context,
    error::Result,
    output::Frame,
    value::{count, seconds},
};
use clap::Args;
use ddnl::printable_json;
use serde_json::json;
use std::{
    ffi::OsString,
    time::{Duration, SystemTime},
};

/// Options for repeated output.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Watch {
    /// Repeat every SECONDS [default: 1]
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1",
        value_parser = seconds
    )]
    pub watch: Option<f64>,
    /// Stop after COUNT times
    #[arg(long, value_name = "COUNT", requires = "watch", value_parser = count)]
    pub count: Option<u64>,
}

/// Joins `--watch` with a number that follows it as a word of its own: `--watch 2` becomes
/// `--watch=2`.
///
/// The value of the option is optional. The parser would either leave the number to the next
/// positional argument, which is the name of a VM, or take a name for the value. A word is taken
/// for the value if it is a number, and for a name otherwise.
pub(crate) fn join_pause(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut joined = Vec::new();
    let mut arguments = arguments.into_iter().peekable();
    while let Some(mut argument) = arguments.next() {
        if argument == "--" {
            joined.push(argument);
            break;
        }
        if argument == "--watch" {
            if let Some(number) = arguments.next_if(is_number) {
                argument.push("=");
                argument.push(number);
            }
        }
        joined.push(argument);
    }
    joined.extend(arguments);
    joined
}

/// Returns whether a word is written in digits, with or without a fraction.
fn is_number(word: &OsString) -> bool {
    let is_digit = |letter: char| letter.is_ascii_digit() || letter == '.';
    word.to_str()
        .is_some_and(|word| word.parse::<f64>().is_ok() && word.chars().all(is_digit))
}

/// Seconds since the previous frame, if there was one.
pub(crate) type Elapsed = Option<f64>;

/// Prints the frame that `draw` returns, again and again with `--watch`.
pub(crate) fn show(
    context: &mut Context<'_>,
    watch: &Watch,
    mut draw: impl FnMut(&mut Context<'_>, Elapsed) -> Result<Frame>,
) -> Result<()> {
    let Some(seconds) = watch.watch else {
        return draw(context, None)?.print(context);
    };
    let pause = Duration::from_secs_f64(seconds);
    let mut before: Option<Duration> = None;
    let mut shown = 0;
    loop {
        // The time of day can be set at any time, so rates use a clock that never steps.
        let now = context.system.uptime();
        let elapsed = before.and_then(|before| now.checked_sub(before));
        let frame = draw(context, elapsed.map(|elapsed| elapsed.as_secs_f64()))?;
        print(context, context.system.now(), frame)?;
        before = Some(now);
        shown += 1;
        if watch.count.is_some_and(|count| shown >= count) {
            return Ok(());
        }
        context.system.sleep(pause);
    }
}

/// Prints a frame with the time: JSON on one line, text from the top of the terminal.
fn print(context: &mut Context<'_>, now: SystemTime, mut frame: Frame) -> Result<()> {
    let time = timestamp(now);
    if context.json {
        if let Some(fields) = frame.json.as_object_mut() {
            fields.insert("time".into(), json!(time));
        }
        let json = frame.json.to_string();
        writeln!(context.out, "{}", printable_json(&json))?;
    } else {
        let home = if context.system.terminal() {
            "\x1b[H\x1b[2J"
        } else {
            ""
        };
        writeln!(context.out, "{home}{time}\n{}", frame.text)?;
    }
    context.out.flush()?;
    Ok(())
}

/// Formats a time as RFC 3339 with milliseconds.
pub(crate) fn timestamp(now: SystemTime) -> String {
    humantime::format_rfc3339_millis(now).to_string()
}
