// SPDX-License-Identifier: GPL-2.0-only

//! Mailboxes, like Filebench's `varmail`: delete a message; deliver one; read one and append to it;
//! read one. All writes are synced.

use std::io;

use super::{Script, rotation::Rotation};
use crate::{io::Io, load::Load, profile::APPEND};

pub(super) struct Mail {
    messages: Rotation,
    step: u32,
}

impl Mail {
    pub(super) fn new(load: &Load, thread: u64) -> Self {
        Self {
            messages: Rotation::new(&load.sets()[0], thread, load.shape().threads),
            step: 0,
        }
    }
}

impl Script for Mail {
    fn request(&mut self, io: &mut Io) -> io::Result<()> {
        let step = self.step;
        self.step = (step + 1) % 4;
        match step {
            0 => match self.messages.remove() {
                Some(path) => io.delete(path),
                None => Ok(()),
            },
            1 => match self.messages.add() {
                Some(path) => {
                    let len = io.some(APPEND);
                    io.create(path, len)?.sync_all()
                }
                None => Ok(()),
            },
            2 => match self.messages.next() {
                Some(path) => {
                    io.read_whole(path)?;
                    io.append(path, APPEND)?.sync_all()
                }
                None => Ok(()),
            },
            _ => match self.messages.next() {
                Some(path) => io.read_whole(path),
                None => Ok(()),
            },
        }
    }
}
