// SPDX-License-Identifier: GPL-2.0

//! Everything outside this process, through one narrow trait; tests put a fake in its place.

use ddnl::{EventSource, GuestControl, HostControl, Result, Side, blocking};
use std::{
    io::{IsTerminal, stdout},
    path::PathBuf,
    sync::LazyLock,
    thread,
    time::{Duration, Instant, SystemTime},
};

/// Everything outside this process.
pub trait System {
    /// The host module.
    fn host(&self) -> Result<Box<dyn HostControl>>;
    /// The guest module.
    fn guest(&self) -> Result<Box<dyn GuestControl>>;
    /// Events of a module.
    fn events(&self, side: Side) -> Result<Box<dyn EventSource>>;
    /// A file by its absolute path.
    fn file(&self, path: &str) -> PathBuf;
    /// The time.
    fn now(&self) -> SystemTime;
    /// Time since some moment; it never steps.
    fn uptime(&self) -> Duration;
    /// Waits.
    fn sleep(&self, duration: Duration);
    /// Whether a person looks at the output.
    fn terminal(&self) -> bool;
}

/// The machine we run on.
#[derive(Clone, Copy, Debug)]
pub struct Machine;

impl System for Machine {
    fn host(&self) -> Result<Box<dyn HostControl>> {
        Ok(Box::new(blocking::Host::open()?))
    }

    fn guest(&self) -> Result<Box<dyn GuestControl>> {
        Ok(Box::new(blocking::Guest::open()?))
    }

    fn events(&self, side: Side) -> Result<Box<dyn EventSource>> {
        Ok(Box::new(blocking::Events::open(side)?))
    }

    fn file(&self, path: &str) -> PathBuf {
        path.into()
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn uptime(&self) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed()
    }

    fn sleep(&self, duration: Duration) {
        thread::sleep(duration);
    }

    fn terminal(&self) -> bool {
        stdout().is_terminal()
    }
}
