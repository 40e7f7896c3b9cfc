// SPDX-License-Identifier: GPL-2.0-only

//! A sequential reader: whole files, one after the other.

use std::io;

use super::{Script, rotation::Rotation};
use crate::{io::Io, load::Load};

pub(super) struct Scan {
    files: Rotation,
}

impl Scan {
    pub(super) fn new(load: &Load, thread: u64) -> Self {
        Self {
            files: Rotation::new(&load.sets()[0], thread, load.shape().threads),
        }
    }
}

impl Script for Scan {
    fn request(&mut self, io: &mut Io) -> io::Result<()> {
        match self.files.next() {
            Some(path) => io.read_whole(path),
            None => Ok(()),
        }
    }
}
