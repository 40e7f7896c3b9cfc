// SPDX-License-Identifier: GPL-2.0

//! Showing the same picture again and again.

use crate::{cli::Watch, error::Result, output::Frame, session::Session};
use ddnl::printable_json;
use serde_json::json;
use std::time::{Duration, SystemTime};

/// Seconds since the picture before, if there was one.
pub(crate) type Elapsed = Option<f64>;

/// Shows the frames that `draw` makes: one, or one after the other under `--watch`.
pub(crate) fn show(
    session: &mut Session<'_>,
    watch: &Watch,
    mut draw: impl FnMut(&mut Session<'_>, Elapsed) -> Result<Frame>,
) -> Result<()> {
    let Some(seconds) = watch.watch else {
        return draw(session, None)?.print(session);
    };
    let pause = Duration::from_secs_f64(seconds);
    let mut before: Option<Duration> = None;
    let mut shown = 0;
    loop {
        // The time of day may be set at any time; rates are over time that passed.
        let now = session.system.uptime();
        let elapsed = before.and_then(|before| now.checked_sub(before));
        let frame = draw(session, elapsed.map(|elapsed| elapsed.as_secs_f64()))?;
        print(session, session.system.now(), frame)?;
        before = Some(now);
        shown += 1;
        if watch.count.is_some_and(|count| shown >= count) {
            return Ok(());
        }
        session.system.sleep(pause);
    }
}

/// Prints one of many frames with its time: JSON on one line, text from the top of a terminal.
fn print(session: &mut Session<'_>, now: SystemTime, mut frame: Frame) -> Result<()> {
    let time = timestamp(now);
    if session.json {
        if let Some(fields) = frame.json.as_object_mut() {
            fields.insert("time".into(), json!(time));
        }
        let json = frame.json.to_string();
        writeln!(session.out, "{}", printable_json(&json))?;
    } else {
        let home = if session.system.terminal() {
            "\x1b[H\x1b[2J"
        } else {
            ""
        };
        writeln!(session.out, "{home}{time}\n{}", frame.text)?;
    }
    session.out.flush()?;
    Ok(())
}

/// The time in the usual form.
pub(crate) fn timestamp(now: SystemTime) -> String {
    humantime::format_rfc3339_millis(now).to_string()
}
