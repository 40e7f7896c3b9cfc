// SPDX-License-Identifier: GPL-2.0-only

//! An interactive terminal that is connected to a remote shell.

use std::{
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd as _, BorrowedFd},
        unix::net::UnixStream,
    },
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr},
};

/// Ctrl-].
const ESCAPE: u8 = 0x1d;
/// Maximum time between repeated escapes.
const SOON: Duration = Duration::from_secs(1);
/// Interval between two checks of the terminal's size.
const GLANCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 250_000_000,
};

/// Rows and columns.
pub type Size = (u16, u16);

/// The reason why a connection ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// The user pressed the escape.
    Left,
    /// The peer closed the connection.
    Ended,
}

/// Connects this process's terminal with `stream` until that ends or Ctrl-] is pressed `escapes`
/// times in a row. Calls `resized` with the size of the terminal, at first and when it changes.
///
/// # Errors
///
/// Fails if standard input is not a terminal, or stops working.
pub fn attach(
    mut stream: &UnixStream,
    escapes: usize,
    mut resized: impl FnMut(Size),
) -> io::Result<End> {
    let (stdin, mut stdout) = (io::stdin(), io::stdout());
    let _raw = Raw::enter(stdin.as_fd())?;
    let mut keys = Keys::new(escapes);
    let mut size = None;
    let mut buffer = [0; 4096];
    loop {
        let now = tcgetwinsize(&stdin).map(|size| (size.ws_row, size.ws_col))?;
        if size.replace(now) != Some(now) {
            resized(now);
        }
        let (typed, told) = wait(stdin.as_fd(), stream.as_fd())?;
        if told {
            match stream.read(&mut buffer)? {
                0 => return Ok(End::Ended),
                got => stdout.write_all(&buffer[..got])?,
            }
            stdout.flush()?;
        }
        if typed {
            // The buffer of `Stdin` is not used, because `poll` cannot see its content.
            let got = rustix::io::read(&stdin, &mut buffer)?;
            let (meant, left) = keys.press(&buffer[..got], Instant::now());
            stream.write_all(meant)?;
            if left || got == 0 {
                return Ok(End::Left);
            }
        }
    }
}

/// Returns which of the two has something to read, after a short wait.
fn wait(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> io::Result<(bool, bool)> {
    let mut both = [one, other].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    match poll(&mut both, Some(&GLANCE)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let [one, other] = both.map(|fd| !fd.revents().is_empty());
    Ok((one, other))
}

/// A terminal that forwards every key, until the value is dropped.
struct Raw<'a> {
    terminal: BorrowedFd<'a>,
    before: Termios,
}

impl<'a> Raw<'a> {
    fn enter(terminal: BorrowedFd<'a>) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(terminal, OptionalActions::Drain, &raw)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Raw<'_> {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = tcsetattr(self.terminal, OptionalActions::Drain, &self.before);
    }
}

/// Finds the escape in the input.
#[derive(Debug)]
struct Keys {
    wanted: usize,
    seen: usize,
    last: Option<Instant>,
}

impl Keys {
    fn new(wanted: usize) -> Self {
        Self {
            wanted,
            seen: 0,
            last: None,
        }
    }

    /// Returns the bytes to forward, and whether the user wants to leave. All but the last escape
    /// are forwarded, because they may be meant for the other side.
    fn press<'a>(&mut self, typed: &'a [u8], now: Instant) -> (&'a [u8], bool) {
        if self
            .last
            .is_some_and(|last| now.duration_since(last) > SOON)
        {
            self.seen = 0;
        }
        for (at, &key) in typed.iter().enumerate() {
            self.seen = if key == ESCAPE { self.seen + 1 } else { 0 };
            if self.seen == self.wanted {
                return (&typed[..at], true);
            }
        }
        self.last = Some(now);
        (typed, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_escape_leaves_at_once() {
        let mut keys = Keys::new(1);
        let now = Instant::now();
        assert_eq!(keys.press(b"ls\r", now), (b"ls\r".as_slice(), false));
        assert_eq!(keys.press(b"a\x1db", now), (b"a".as_slice(), true));
    }

    #[test]
    fn three_escapes_must_follow_each_other() {
        let mut keys = Keys::new(3);
        let now = Instant::now();
        let escape: &[u8] = b"\x1d";
        assert_eq!(keys.press(escape, now), (escape, false));
        assert_eq!(keys.press(b"x", now), (b"x".as_slice(), false));
        assert_eq!(
            keys.press(b"\x1d\x1d", now),
            (b"\x1d\x1d".as_slice(), false)
        );
        // The escape comes too late.
        let later = now + 2 * SOON;
        assert_eq!(keys.press(escape, later), (escape, false));
        assert_eq!(keys.press(escape, later), (escape, false));
        assert_eq!(keys.press(escape, later), (b"".as_slice(), true));
    }
}
