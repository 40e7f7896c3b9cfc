// SPDX-License-Identifier: GPL-2.0-only

//! A video server, like Filebench's: streams play one video after the other, and at intervals a new
//! video replaces an old one that is not watched.

use std::{fs::File, io};

use super::{Actor, Script, rotation::Rotation};
use crate::{
    io::Io,
    load::Load,
    profile::{REPLACE_INTERVAL, STREAM_READ},
};

/// A viewer.
pub(super) struct Stream {
    videos: Rotation,
    playing: Option<(File, u64)>,
}

impl Stream {
    pub(super) fn new(load: &Load, thread: u64) -> Self {
        Self {
            videos: Rotation::new(&load.sets()[0], thread, load.shape().threads),
            playing: None,
        }
    }
}

impl Script for Stream {
    fn request(&mut self, io: &mut Io) -> io::Result<()> {
        let (file, offset) = match self.playing.take() {
            Some(playing) => playing,
            None => match self.videos.next() {
                Some(path) => (File::open(path)?, 0),
                None => return Ok(()),
            },
        };
        let bytes = io.read_at(&file, offset, STREAM_READ)?;
        if bytes == STREAM_READ {
            self.playing = Some((file, offset + bytes));
        }
        Ok(())
    }
}

/// The thread that publishes videos.
struct Writer {
    passive: Rotation,
    len: u64,
}

pub(super) fn writer(load: &Load) -> Actor {
    Actor {
        script: Box::new(Writer {
            passive: Rotation::new(&load.sets()[1], 0, 1),
            len: load.shape().file_size,
        }),
        every: Some(REPLACE_INTERVAL),
        phase: 0.5,
        foreground: false,
    }
}

impl Script for Writer {
    fn request(&mut self, io: &mut Io) -> io::Result<()> {
        if let Some(path) = self.passive.remove() {
            io.delete(path)?;
        }
        match self.passive.add() {
            Some(path) => io.create(path, self.len).map(drop),
            None => Ok(()),
        }
    }
}
