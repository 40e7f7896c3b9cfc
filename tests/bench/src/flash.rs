// SPDX-License-Identifier: GPL-2.0-only

//! The SSD tier's engine beside foyer's block engine, in one file: `cargo xtask bench flash`.
//!
//! - [`store`]: the interface; [`engine`], [`foyer`]: the caches;
//! - [`course`]: the rounds that are timed; [`outcome`]: the report and its targets.

mod course;
mod engine;
#[cfg(feature = "foyer")]
mod foyer;
mod outcome;
mod store;

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    process::{self, ExitCode},
};

use anyhow::{Context as _, Result};
use ddabi::PAGE_SIZE;
use memmap2::MmapMut;

use self::{
    course::{Course, SHAPES, Sample},
    outcome::Outcome,
    store::Store,
};
use crate::{contest::ENGINE, measure::ROUNDS, report};

/// Pages of a segment, as in the host module.
const SEGMENT: u64 = 512;

/// Each cache has room for this many times the pages, because foyer keeps those of the previous
/// round and takes two pages for each.
const ROOM: u64 = 4;

/// Number of rounds for warming up, after which foyer's part of the file is full.
const WARM_UP: u64 = 3;

/// Measures the SSD tier's engine and foyer's block engine
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Pages that are put and got in a round; foyer keeps some blocks of 16 MiB free, and needs
    /// room
    #[arg(long, default_value_t = 1 << 15, value_parser = clap::value_parser!(u64).range(1 << 12..))]
    pages: u64,
    /// Folder for the file, which is opened for direct access
    #[arg(long, default_value = "/dev/shm")]
    folder: PathBuf,
    /// Rounds of each case, after some for warming up
    #[arg(long, default_value_t = ROUNDS)]
    rounds: usize,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Folder for the result
    #[arg(long, default_value = "target/bench-flash")]
    out: PathBuf,
}

/// Measures both caches, and reports it.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let pages = args.pages.next_multiple_of(SEGMENT);
    let mut samples = Vec::new();
    for shape in SHAPES {
        samples.extend(together(shape, pages, args)?);
    }
    let outcome = Outcome::new(pages, samples);
    report::show(&args.out, args.json, &outcome, || outcome.summary())?;
    Ok(report::exit(ddlab::report::all_met(&outcome.targets)))
}

/// Runs the rounds of the caches alternately, each time in reverse order.
fn together(shape: (&'static str, usize), pages: u64, args: &Args) -> Result<Vec<Sample>> {
    let path = args.folder.join(format!("ddbench-{}", process::id()));
    let stores = open(&path, pages * ROOM * PAGE_SIZE as u64);
    // The file exists as long as it is open.
    let removed = fs::remove_file(&path);
    let mut stores = stores.with_context(|| format!("cannot use {}", path.display()))?;
    removed?;
    let courses = stores.iter_mut();
    let mut courses: Vec<Course<'_>> = courses
        .map(|(cache, store)| Course::new(cache, &mut **store, shape, pages))
        .collect();
    for round in 0..WARM_UP + args.rounds.max(1) as u64 {
        if round == WARM_UP {
            courses.iter_mut().for_each(Course::begin);
        }
        courses.reverse();
        let mut courses = courses.iter_mut();
        courses.try_for_each(|course| course.play(round))?;
    }
    Ok(courses.into_iter().map(Course::end).collect())
}

/// Returns the caches, each with its part of `bytes` bytes of a new file.
fn open(path: &Path, bytes: u64) -> Result<Vec<(&'static str, Box<dyn Store>)>> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)?;
    let mut stores: Vec<(&'static str, Box<dyn Store>)> = Vec::new();
    #[cfg(feature = "foyer")]
    stores.push(("foyer", Box::new(foyer::Foyer::new(path, bytes)?)));
    occupy(&file, 2 * bytes)?;
    stores.push((ENGINE, Box::new(engine::Engine::new(file, bytes, bytes)?)));
    Ok(stores)
}

/// Writes a file once, so that later writes allocate nothing.
fn occupy(file: &File, bytes: u64) -> Result<()> {
    let zeroes = MmapMut::map_anon(SEGMENT as usize * PAGE_SIZE)?;
    for position in (0..bytes).step_by(zeroes.len()) {
        file.write_all_at(&zeroes, position)?;
    }
    Ok(())
}
