// SPDX-License-Identifier: GPL-2.0-only

//! Running a load: its threads, and a line for each interval.

use std::{
    convert::Infallible,
    sync::{
        Mutex,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};

use crate::{
    clock::Clock,
    fileset::FileSet,
    io::Io,
    load::Load,
    report::{Interval, Line, Ready},
    script::{self, Actor},
    stop::Stop,
    tally::Tally,
    worker::Worker,
};

/// End of a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// The run ends when another thread stops it.
    Never,
    /// After this number of requests of all threads together.
    Operations(u64),
    /// After this time.
    Time(Duration),
}

/// Puts the files into their initial state.
///
/// # Errors
///
/// Returns the errors of the filesystem.
pub fn prepare(load: &Load) -> Result<Ready> {
    let sets = load.sets();
    for set in &sets {
        set.prepare()
            .with_context(|| format!("cannot prepare the files of {}", load.describe()))?;
    }
    let present = |set: &FileSet| set.files().iter().filter(|file| file.present).count() as u64;
    Ok(Ready {
        profile: load.profile().to_string(),
        files: sets.iter().map(present).sum(),
        bytes: load.bytes(),
    })
}

/// Prepares the files and makes requests until the end. Calls `tell` with one line for each
/// `interval` and two more.
///
/// # Errors
///
/// Returns the errors of the filesystem and of `tell`.
pub fn run(
    load: &Load,
    end: End,
    interval: Duration,
    mut tell: impl FnMut(&Line) -> Result<()>,
) -> Result<()> {
    tell(&Line::Ready(prepare(load)?))?;
    let actors = script::actors(load).context("cannot start the load")?;
    let budgets = budgets(end, &actors);
    let tallies: Vec<Mutex<Tally>> = actors.iter().map(|_| Mutex::new(Tally::new())).collect();
    let stop = Stop::new();
    let (alive, ends) = mpsc::channel();
    let clock = Clock::start(end, interval)?;
    let start = clock.start_time();
    thread::scope(|scope| {
        let mut workers = Vec::new();
        for (number, (actor, budget)) in actors.into_iter().zip(budgets).enumerate() {
            let worker = Worker {
                alive: actor.foreground.then(|| alive.clone()),
                actor,
                budget,
                io: Io::new(load.seed_value(), number as u64),
                tally: &tallies[number],
                stop: &stop,
            };
            workers.push(scope.spawn(move || worker.run(start)));
        }
        drop(alive);
        let told = report(clock, &ends, &tallies, &stop, &mut tell);
        stop.now();
        for worker in workers {
            worker.join().expect("threads of a load do not panic")?;
        }
        tell(&Line::Summary(told?))
    })
}

/// Returns how many requests each actor may make. Background work has no limit.
fn budgets(end: End, actors: &[Actor]) -> Vec<Option<u64>> {
    let End::Operations(total) = end else {
        return vec![None; actors.len()];
    };
    let workers = actors.iter().filter(|actor| actor.foreground).count() as u64;
    let share = |number: u64| total / workers + u64::from(number < total % workers);
    (0..)
        .zip(actors)
        .map(|(number, actor)| actor.foreground.then(|| share(number)))
        .collect()
}

/// Reports each interval until the time is over or all workers have ended, and returns the sum.
fn report(
    mut clock: Clock,
    ends: &Receiver<Infallible>,
    tallies: &[Mutex<Tally>],
    stop: &Stop,
    tell: &mut impl FnMut(&Line) -> Result<()>,
) -> Result<Interval> {
    let mut all = Tally::new();
    loop {
        let ended = match ends.recv_timeout(clock.until_tick()) {
            Err(RecvTimeoutError::Disconnected) => true,
            Err(RecvTimeoutError::Timeout) => clock.over(),
            Ok(never) => match never {},
        };
        if ended {
            stop.now();
            // Requests under way still count.
            let _ = ends.recv();
        }
        let mut fresh = Tally::new();
        for tally in tallies {
            let mut tally = tally.lock().expect("no thread panics with this lock");
            fresh.add(&std::mem::replace(&mut *tally, Tally::new()));
        }
        all.add(&fresh);
        let interval = clock.interval(&fresh)?;
        if !ended || interval.operations > 0 {
            tell(&Line::Interval(interval))?;
        }
        if ended {
            return clock.summary(&all);
        }
    }
}
