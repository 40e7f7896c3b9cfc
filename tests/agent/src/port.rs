// SPDX-License-Identifier: GPL-2.0-only

//! The agent's end of the virtio-serial port.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::PathBuf,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use ddagent::protocol::{Message, PORT};

use crate::job::lock;

/// Time without a peer after which the harness is considered gone.
const ORPHANED: Duration = Duration::from_secs(60);

/// Sending half, shared by all threads.
#[derive(Clone, Debug)]
pub(crate) struct Outbox(Arc<Mutex<File>>);

impl Outbox {
    /// Sends a message. A failure cannot be reported.
    pub(crate) fn send(&self, message: &Message) {
        if let Ok(mut line) = serde_json::to_vec(message) {
            line.push(b'\n');
            let _ = lock(&self.0).write_all(&line);
        }
    }
}

/// Receiving half.
#[derive(Debug)]
pub(crate) struct Inbox {
    file: File,
    buffer: Vec<u8>,
    /// When the port was first found without a peer, after it had one.
    alone: Option<Instant>,
    had_peer: bool,
}

impl Inbox {
    /// Returns the next line, or `None` when the harness has gone for good.
    pub(crate) fn line(&mut self) -> Option<Vec<u8>> {
        let mut part = vec![0; 64 << 10];
        loop {
            if let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') {
                let mut line: Vec<u8> = self.buffer.drain(..=end).collect();
                line.pop();
                return Some(line);
            }
            match self.file.read(&mut part) {
                Ok(0) => self.rest()?,
                Ok(got) => {
                    self.had_peer = true;
                    self.alone = None;
                    self.buffer.extend_from_slice(&part[..got]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.rest()?,
            }
        }
    }

    /// Returns `None` when the harness has gone for good. A port without a peer reads as empty.
    fn rest(&mut self) -> Option<()> {
        let since = *self.alone.get_or_insert_with(Instant::now);
        if self.had_peer && since.elapsed() > ORPHANED {
            return None;
        }
        thread::sleep(Duration::from_millis(20));
        Some(())
    }
}

/// Opens the port.
pub(crate) fn open() -> Result<(Inbox, Outbox)> {
    let device = wait_for_device()?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&device)
        .with_context(|| format!("cannot open {}", device.display()))?;
    let outbox = Outbox(Arc::new(Mutex::new(file.try_clone()?)));
    let inbox = Inbox {
        file,
        buffer: Vec::new(),
        alone: None,
        had_peer: false,
    };
    Ok((inbox, outbox))
}

fn wait_for_device() -> Result<PathBuf> {
    let start = Instant::now();
    loop {
        if let Some(device) = find_device() {
            return Ok(device);
        }
        if start.elapsed() > Duration::from_secs(120) {
            anyhow::bail!("no virtio-serial port {PORT} appeared");
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn find_device() -> Option<PathBuf> {
    let ports = fs::read_dir("/sys/class/virtio-ports").ok()?;
    ports.flatten().find_map(|port| {
        let name = fs::read_to_string(port.path().join("name")).ok()?;
        (name.trim() == PORT).then(|| PathBuf::from("/dev").join(port.file_name()))
    })
}
