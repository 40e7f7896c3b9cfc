// SPDX-License-Identifier: GPL-2.0-only

//! What the daemon says, to its standard error.
//!
//! Users make containers come and go as fast as they like, and each is worth a line. Lines have a
//! bound, so that they neither fill the journal nor push others' lines out of it. Users choose the
//! names in them too: letters that steer a terminal or hide others are shown by their numbers,
//! wherever in a line they are.

use crate::pace::Pace;
use ddnl::printable;
use std::{
    io::{self, Stderr, Write, stderr},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};
use tracing::{Level, Metadata};
use tracing_subscriber::{
    EnvFilter,
    fmt::{MakeWriter, writer::OptionalWriter},
};

/// Lines at once.
const BURST: u32 = 500;
/// Then one in this time.
const EACH: Duration = Duration::from_millis(500);

/// Begins to log what is of this level or above, or what `RUST_LOG` says.
pub fn begin(level: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Paced::new())
        // Colours are letters that steer a terminal.
        .with_ansi(false)
        // The journal has the time.
        .without_time()
        .with_target(false)
        .init();
}

/// Leaves lines out when there are too many.
#[derive(Debug)]
struct Paced(Mutex<State>);

#[derive(Debug)]
struct State {
    pace: Pace,
    left_out: u64,
}

impl Paced {
    fn new() -> Self {
        Self(Mutex::new(State {
            pace: Pace::new(BURST, EACH),
            left_out: 0,
        }))
    }

    /// Returns how many lines were left out before this one, or `None` if this one is too.
    fn admit(&self, level: Level, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bounded = level == Level::INFO || level == Level::WARN;
        if bounded && !state.pace.pause(now).is_zero() {
            state.left_out += 1;
            return None;
        }
        if bounded {
            state.pace.pass(now);
        }
        Some(std::mem::take(&mut state.left_out))
    }
}

impl<'a> MakeWriter<'a> for Paced {
    type Writer = OptionalWriter<Plain<Stderr>>;

    fn make_writer(&'a self) -> Self::Writer {
        OptionalWriter::some(Plain(stderr()))
    }

    fn make_writer_for(&'a self, line: &Metadata<'_>) -> Self::Writer {
        match self.admit(*line.level(), Instant::now()) {
            None => OptionalWriter::none(),
            Some(left_out) => {
                if left_out > 0 {
                    // If this line cannot be written, the one it announces cannot be either.
                    let _: io::Result<()> = writeln!(
                        stderr(),
                        " INFO {left_out} lines were left out: too many at once"
                    );
                }
                OptionalWriter::some(Plain(stderr()))
            }
        }
    }
}

/// Writes lines, each of them whole, with the numbers of hidden letters in their place.
#[derive(Debug)]
struct Plain<W>(W);

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(lines);
        let shown: Vec<_> = text.split('\n').map(printable).collect();
        self.0.write_all(shown.join("\n").as_bytes())?;
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_steer_terminals() {
        let mut plain = Plain(Vec::new());
        let line = " INFO limit cgroup=/web\u{1b}]0;x\u{7}\u{9b}\u{202e}\u{3164}\r\n  more\n";
        plain.write_all(line.as_bytes()).unwrap();
        let shown =
            " INFO limit cgroup=/web\\u{1b}]0;x\\u{7}\\u{9b}\\u{202e}\\u{3164}\\u{d}\n  more\n";
        assert_eq!(String::from_utf8(plain.0).unwrap(), shown);
    }

    #[test]
    fn a_flood_is_cut_and_counted() {
        let log = Paced::new();
        let start = Instant::now();
        let flood = (0..100_000).filter(|_| log.admit(Level::INFO, start).is_some());
        assert_eq!(flood.count(), 500);
        assert_eq!(log.admit(Level::WARN, start), None);
        // What an administrator asked for, and what is the daemon's own, are not cut.
        assert!(log.admit(Level::DEBUG, start).is_some());
        assert_eq!(log.admit(Level::INFO, start), None);
        assert!(log.admit(Level::ERROR, start).is_some());
        let later = start + Duration::from_millis(600);
        assert_eq!(log.admit(Level::INFO, later), Some(0));
        assert_eq!(log.admit(Level::INFO, later), None);
        assert_eq!(log.admit(Level::INFO, later + EACH), Some(1));
    }
}
