// SPDX-License-Identifier: GPL-2.0-only

//! Logs to the standard error.
//!
//! Users can create and remove containers at any rate, and each one causes a line. The rate of
//! lines is therefore limited, so that they neither fill the journal nor displace other services'
//! lines. Warnings have a limit of their own, so that other lines do not displace them. Users
//! choose the names in the lines as well: characters that control a terminal or hide others are
//! replaced by their numbers. In the journal, each line has the priority of its level.

use crate::{journal, pace::Pace};
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

/// Maximum number of lines in a burst. Warnings and other lines are counted separately.
const BURST: u32 = 500;
/// After a burst, one line is allowed in this time.
const EACH: Duration = Duration::from_millis(500);

/// Begins to log lines of this level and above, or those that `RUST_LOG` selects.
pub fn begin(level: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Paced::new(journal::is_stderr()))
        // Colours consist of control characters, which are replaced.
        .with_ansi(false)
        // The journal adds the time.
        .without_time()
        .with_target(false)
        .init();
}

/// Leaves lines out when there are too many.
#[derive(Debug)]
struct Paced {
    state: Mutex<State>,
    is_journal: bool,
}

#[derive(Debug)]
struct State {
    notes: Pace,
    warnings: Pace,
    left_out: u64,
}

impl Paced {
    fn new(is_journal: bool) -> Self {
        let state = State {
            notes: Pace::new(BURST, EACH),
            warnings: Pace::new(BURST, EACH),
            left_out: 0,
        };
        Self {
            state: Mutex::new(state),
            is_journal,
        }
    }

    fn line(&self, level: Level) -> Plain<Stderr> {
        let priority = match self.is_journal {
            true => journal::priority(level),
            false => "",
        };
        Plain {
            writer: stderr(),
            priority,
        }
    }

    /// Returns how many lines were left out before this one, or `None` if this line is left out
    /// too.
    fn admit(&self, level: Level, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let pace = match level {
            Level::INFO => Some(&mut state.notes),
            Level::WARN => Some(&mut state.warnings),
            _ => None,
        };
        if let Some(pace) = pace {
            if !pace.pause(now).is_zero() {
                state.left_out += 1;
                return None;
            }
            pace.pass(now);
        }
        Some(std::mem::take(&mut state.left_out))
    }
}

impl<'a> MakeWriter<'a> for Paced {
    type Writer = OptionalWriter<Plain<Stderr>>;

    fn make_writer(&'a self) -> Self::Writer {
        OptionalWriter::some(self.line(Level::INFO))
    }

    fn make_writer_for(&'a self, line: &Metadata<'_>) -> Self::Writer {
        match self.admit(*line.level(), Instant::now()) {
            None => OptionalWriter::none(),
            Some(left_out) => {
                if left_out > 0 {
                    // If this line cannot be written, the one it announces cannot be either.
                    let note = format!(
                        " INFO {left_out} lines were left out, because there were too many\n"
                    );
                    let _: io::Result<()> = self.line(Level::INFO).write_all(note.as_bytes());
                }
                OptionalWriter::some(self.line(*line.level()))
            }
        }
    }
}

/// Writes whole lines, in which hidden characters are replaced by their numbers, with a priority in
/// front of each.
#[derive(Debug)]
struct Plain<W> {
    writer: W,
    priority: &'static str,
}

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(lines);
        let mut shown = String::with_capacity(text.len() + 8);
        for line in text.split_inclusive('\n') {
            shown.push_str(self.priority);
            let (line, end) = match line.strip_suffix('\n') {
                Some(line) => (line, "\n"),
                None => (line, ""),
            };
            shown.push_str(&printable(line));
            shown.push_str(end);
        }
        self.writer.write_all(shown.as_bytes())?;
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(priority: &'static str) -> Plain<Vec<u8>> {
        Plain {
            writer: Vec::new(),
            priority,
        }
    }

    #[test]
    fn lines_have_their_priority() {
        let mut plain = plain("<4>");
        plain.write_all(b" WARN a\n  more\n").unwrap();
        plain.write_all(b" WARN b\n").unwrap();
        assert_eq!(plain.writer, b"<4> WARN a\n<4>  more\n<4> WARN b\n");
        let log = |is_journal| Paced::new(is_journal).line(Level::ERROR).priority;
        assert_eq!((log(true), log(false)), ("<3>", ""));
    }

    #[test]
    fn names_do_not_steer_terminals() {
        let mut plain = plain("");
        let line = " INFO limit cgroup=/web\u{1b}]0;x\u{7}\u{9b}\u{202e}\u{3164}\r\n  more\n";
        plain.write_all(line.as_bytes()).unwrap();
        let shown =
            " INFO limit cgroup=/web\\u{1b}]0;x\\u{7}\\u{9b}\\u{202e}\\u{3164}\\u{d}\n  more\n";
        assert_eq!(String::from_utf8(plain.writer).unwrap(), shown);
    }

    #[test]
    fn a_flood_is_cut_and_counted() {
        let log = Paced::new(false);
        let start = Instant::now();
        let flood = (0..100_000).filter(|_| log.admit(Level::INFO, start).is_some());
        assert_eq!(flood.count(), 500);
        assert_eq!(log.admit(Level::INFO, start), None);
        // Notes do not displace warnings.
        let flood = (0..100_000).filter(|_| log.admit(Level::WARN, start).is_some());
        assert_eq!(flood.count(), 500);
        assert_eq!(log.admit(Level::WARN, start), None);
        // Lines of the daemon itself, and levels that an administrator selected, are not limited.
        assert!(log.admit(Level::DEBUG, start).is_some());
        assert_eq!(log.admit(Level::INFO, start), None);
        assert!(log.admit(Level::ERROR, start).is_some());
        let later = start + Duration::from_millis(600);
        assert_eq!(log.admit(Level::INFO, later), Some(0));
        assert_eq!(log.admit(Level::INFO, later), None);
        assert_eq!(log.admit(Level::INFO, later + EACH), Some(1));
    }
}
