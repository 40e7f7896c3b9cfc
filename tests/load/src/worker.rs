// SPDX-License-Identifier: GPL-2.0-only

//! One thread of a run.

use std::{
    convert::Infallible,
    sync::{Mutex, mpsc::Sender},
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::{io::Io, pace::Pace, script::Actor, stop::Stop, tally::Tally};

/// One thread.
pub(crate) struct Worker<'a> {
    pub(crate) actor: Actor,
    /// Number of requests that it may still make.
    pub(crate) budget: Option<u64>,
    pub(crate) io: Io,
    pub(crate) tally: &'a Mutex<Tally>,
    pub(crate) stop: &'a Stop,
    /// Nothing is sent through this; the run ends when no thread holds one any more.
    pub(crate) alive: Option<Sender<Infallible>>,
}

impl Worker<'_> {
    /// Makes requests until the end. An error ends the whole run.
    pub(crate) fn run(mut self, start: Instant) -> Result<()> {
        let done = self.work(start);
        if done.is_err() {
            self.stop.now();
        }
        drop(self.alive);
        done
    }

    fn work(&mut self, start: Instant) -> Result<()> {
        let mut pace = self.actor.every.map(|every| {
            let delay = every.mul_f64(self.actor.phase);
            Pace::new(start, delay, every)
        });
        while self.budget != Some(0) {
            let wait = pace
                .as_mut()
                .map_or(Duration::ZERO, |pace| pace.next(Instant::now()));
            if self.stop.within(wait) {
                break;
            }
            self.request()?;
            self.budget = self.budget.map(|left| left - 1);
        }
        Ok(())
    }

    fn request(&mut self) -> Result<()> {
        let (read, written) = (self.io.bytes_read, self.io.bytes_written);
        let start = Instant::now();
        self.actor.script.request(&mut self.io)?;
        let took = start.elapsed();
        let mut tally = self.tally.lock().expect("no thread panics with this lock");
        tally.bytes_read += self.io.bytes_read - read;
        tally.bytes_written += self.io.bytes_written - written;
        if self.actor.foreground {
            tally.count(took);
        }
        Ok(())
    }
}
