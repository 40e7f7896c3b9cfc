// SPDX-License-Identifier: GPL-2.0-only

//! Receives a stream that has no end mark.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    path::Path,
};

use anyhow::{Context as _, Result, ensure};
use rustix::event::{PollFd, PollFlags, poll};

/// Bytes copied at a time.
const BUFFER: usize = 64 << 10;

/// Copies data from a device to standard output until the reader is gone. A VMM that has received
/// its guest waits for the sender to end.
pub(crate) fn receive(device: &Path) -> Result<()> {
    let mut from = File::open(device).with_context(|| device.display().to_string())?;
    let mut to = io::stdout().lock();
    let mut buffer = vec![0; BUFFER];
    loop {
        let ends = &mut [
            PollFd::new(&from, PollFlags::IN),
            PollFd::from_borrowed_fd(rustix::stdio::stdout(), PollFlags::empty()),
        ];
        poll(ends, None)?;
        let [arrived, gone] = [ends[0].revents(), ends[1].revents()];
        if gone.contains(PollFlags::ERR) {
            return Ok(());
        }
        if arrived.contains(PollFlags::IN) {
            let length = from.read(&mut buffer)?;
            ensure!(length > 0, "the sender closed the connection");
            to.write_all(&buffer[..length])?;
            to.flush()?;
        }
    }
}
