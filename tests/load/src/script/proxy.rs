// SPDX-License-Identifier: GPL-2.0-only

//! A web proxy, like Filebench's `webproxy`: one file is replaced by another, then five are served.

use std::io;

use super::{Script, rotation::Rotation};
use crate::{
    io::Io,
    load::Load,
    profile::{APPEND, READS_PER_REPLACEMENT},
};

pub(super) struct Proxy {
    cached: Rotation,
    step: u32,
}

impl Proxy {
    pub(super) fn new(load: &Load, thread: u64) -> Self {
        Self {
            cached: Rotation::new(&load.sets()[0], thread, load.shape().threads),
            step: 0,
        }
    }

    fn replace(&mut self, io: &mut Io) -> io::Result<()> {
        if let Some(path) = self.cached.remove() {
            io.delete(path)?;
        }
        if let Some(path) = self.cached.add() {
            let len = io.some(APPEND);
            io.create(path, len)?;
        }
        Ok(())
    }
}

impl Script for Proxy {
    fn request(&mut self, io: &mut Io) -> io::Result<()> {
        let step = self.step;
        self.step = (step + 1) % (1 + READS_PER_REPLACEMENT);
        if step == 0 {
            return self.replace(io);
        }
        match self.cached.next() {
            Some(path) => io.read_whole(path),
            None => Ok(()),
        }
    }
}
