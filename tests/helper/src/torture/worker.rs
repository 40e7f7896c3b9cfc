// SPDX-License-Identifier: GPL-2.0-only

//! One process of a torture.

use std::{collections::HashMap, fs::File, os::unix::fs::MetadataExt as _, path::PathBuf};

use anyhow::{Context as _, Result, ensure};
use ddhelper::{
    churn::{PAGE, Random},
    kind::Kind,
};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use super::{
    BOOT, Model, Tally, TortureArguments,
    deck::Deck,
    reader::{self, Way},
};
use crate::disturbances::populate;

/// Number of steps between two opportunities to unmount the filesystem.
const TURN: u32 = 64;
/// Number of wrong pages after which the worker stops.
const ENOUGH: usize = 10;

/// One process: its choices and results.
#[derive(Debug)]
pub(super) struct Worker<'a> {
    pub(super) arguments: &'a TortureArguments,
    pub(super) rng: Random,
    pub(super) tally: Tally,
    pub(super) operations: Deck<Kind>,
    /// The ways to read.
    ways: Deck<Way>,
    /// Content of the boot loader's inode, which is locked after all others.
    pub(super) boot: Model,
    /// Locked exclusively by operations after which the kernel leaves pages old that are read at
    /// the same time.
    pub(super) quiet: File,
    /// Files opened some time ago.
    held: HashMap<usize, File>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(arguments: &'a TortureArguments) -> Result<Self> {
        Ok(Self {
            arguments,
            rng: Random::new(arguments.seed),
            tally: Tally::default(),
            operations: Deck::new(&Kind::ALL),
            ways: Deck::new(&Way::SHARES),
            boot: Model::open(&arguments.models.join(BOOT))?,
            quiet: File::open(arguments.models.join("quiet"))?,
            held: HashMap::new(),
        })
    }

    /// Reads and changes files until enough reads were compared.
    pub(super) fn work(mut self) -> Result<Tally> {
        let mut models = Vec::new();
        for file in 0.. {
            let path = self.arguments.models.join(file.to_string());
            if !path.exists() {
                break;
            }
            models.push(Model::open(&path)?);
        }
        ensure!(models.len() > 1, "there are no models");
        let gate = File::open(self.arguments.models.join("gate"))?;
        let stop = self.arguments.models.join("stop");
        while self.goes_on() && !stop.exists() {
            flock(&gate, FlockOperation::LockShared)?;
            for _ in 0..TURN {
                if self.goes_on() {
                    self.step(&mut models)?;
                }
            }
            // No file is open any more, so that the filesystem may be unmounted.
            self.held.clear();
            flock(&gate, FlockOperation::Unlock)?;
        }
        Ok(self.tally)
    }

    fn goes_on(&self) -> bool {
        self.tally.checks < self.arguments.checks && self.tally.wrong.len() < ENOUGH
    }

    pub(super) fn path(&self, file: usize) -> PathBuf {
        self.arguments.dir.join(file.to_string())
    }

    fn step(&mut self, models: &mut [Model]) -> Result<()> {
        // The result is below the number of models.
        let file = self.rng.below(models.len() as u64) as usize;
        match self.rng.below(100) {
            0..60 => self
                .look(file, &models[file])
                .with_context(|| format!("cannot look at {file}")),
            60..65 => {
                self.noise(file);
                Ok(())
            }
            _ => self
                .change(file, models)
                .with_context(|| format!("cannot change {file}")),
        }
    }

    /// Reads parts of a file without comparing them and without its lock.
    fn noise(&self, file: usize) {
        if flock(&self.quiet, FlockOperation::NonBlockingLockShared).is_err() {
            return;
        }
        if let Ok(file) = File::open(self.path(file)) {
            populate(&file);
        }
        // The file is locked, so that this cannot fail.
        let _ = flock(&self.quiet, FlockOperation::Unlock);
    }

    /// Compares some ranges of a file.
    fn look(&mut self, file: usize, model: &Model) -> Result<()> {
        let path = self.path(file);
        let shared = model.share()?;
        let Some(content) = shared.content() else {
            ensure!(
                !path.exists(),
                "{} exists although it was deleted",
                path.display()
            );
            return Ok(());
        };
        let len = path.metadata().context(path.display().to_string())?.len();
        if len != content.len() as u64 {
            let wrong = format!("{}: {len} bytes, not {}", path.display(), content.len());
            self.tally.wrong.push(wrong);
            return Ok(());
        }
        let way = self.ways.draw(&mut self.rng);
        let open = self.opened(file, way)?;
        for _ in 0..self.rng.within(1, 24) {
            if !content.is_empty() {
                let (offset, len) = self.range(content.len());
                let (offset, len) = way.fit(offset, len, content.len());
                let got = match reader::read(&open, way, offset, len) {
                    Err(error) if is_refused(way, &error) => {
                        self.tally.ways.entry(way).or_default().refused += 1;
                        continue;
                    }
                    got => {
                        got.with_context(|| format!("{way:?} at {offset} of {}", path.display()))?
                    }
                };
                let name = path.to_string_lossy();
                self.compare(&name, way, offset, &content[offset..offset + len], &got);
            }
        }
        if !self.arguments.overlay && way != Way::Direct && self.rng.chance(20) {
            self.held.insert(file, open);
        }
        Ok(())
    }

    /// Returns the file, opened now or some time ago.
    fn opened(&mut self, file: usize, way: Way) -> Result<File> {
        let path = self.path(file);
        if way != Way::Direct {
            if let Some(held) = self.held.remove(&file) {
                if held.metadata()?.ino() == path.metadata()?.ino() {
                    return Ok(held);
                }
            }
        }
        Ok(reader::open(&path, way)?)
    }

    /// Returns a range of the first `len` bytes. Most ranges are short.
    pub(super) fn range(&mut self, len: usize) -> (usize, usize) {
        let offset = self.rng.below(len as u64) as usize;
        let limit = (len - offset).min(match self.rng.below(20) {
            0..10 => 1000,
            10..19 => 16 << 10,
            _ => 128 << 10,
        });
        (offset, self.rng.within(1, limit as u64) as usize)
    }

    /// Counts a read, and records an error in its content.
    pub(super) fn compare(
        &mut self,
        name: &str,
        way: Way,
        offset: usize,
        expected: &[u8],
        got: &[u8],
    ) {
        self.tally.checks += 1;
        self.tally.ways.entry(way).or_default().compared += 1;
        self.tally.bytes += got.len() as u64;
        let Some(first) = expected
            .iter()
            .zip(got)
            .position(|(one, other)| one != other)
        else {
            return;
        };
        let end = expected
            .len()
            .min((offset + first) / PAGE * PAGE + PAGE - offset);
        let bytes = |from: &[u8]| {
            let shown = &from[first..end.min(first + 16)];
            let hex: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
            hex
        };
        let different = expected[first..end].iter().zip(&got[first..end]);
        let different = different.filter(|(one, other)| one != other).count();
        self.tally.wrong.push(format!(
            "{name}: {way:?} at {}: expected {}, got {} ({different} bytes of the page differ)",
            offset + first,
            bytes(expected),
            bytes(got),
        ));
    }
}

/// Returns whether a direct read met blocks that are reserved and not allocated yet, which kernels
/// refuse ("Direct I/O collision with buffered writes"), or the filesystem caches all reads.
fn is_refused(way: Way, error: &anyhow::Error) -> bool {
    let error = error.downcast_ref().and_then(Errno::from_io_error);
    match way {
        Way::Direct => error == Some(Errno::IO),
        Way::Uncached => error == Some(Errno::OPNOTSUPP),
        _ => false,
    }
}
