// SPDX-License-Identifier: GPL-2.0-only

//! A web server, like Filebench's: ten files are served, then a log grows.

use std::{fs, io, path::PathBuf};

use anyhow::{Context as _, Result};

use super::{Script, rotation::Rotation};
use crate::{
    io::Io,
    load::Load,
    profile::{APPEND, READS_PER_LOG_ENTRY},
};

pub(super) struct Webserver {
    documents: Rotation,
    log: PathBuf,
    reads: u32,
}

impl Webserver {
    /// Creates the state with a new log for the run.
    pub(super) fn new(load: &Load, thread: u64) -> Result<Self> {
        let dir = load.dir().join("log");
        let log = dir.join(thread.to_string());
        fs::create_dir_all(&dir)
            .and_then(|()| fs::File::create(&log))
            .with_context(|| format!("cannot create {}", log.display()))?;
        Ok(Self {
            documents: Rotation::new(&load.sets()[0], thread, load.shape().threads),
            log,
            reads: 0,
        })
    }
}

impl Script for Webserver {
    fn request(&mut self, io: &mut Io) -> io::Result<()> {
        if let Some(path) = self.documents.next() {
            io.read_whole(path)?;
        }
        self.reads += 1;
        if self.reads % READS_PER_LOG_ENTRY == 0 {
            io.log(&self.log, APPEND)?;
        }
        Ok(())
    }
}
