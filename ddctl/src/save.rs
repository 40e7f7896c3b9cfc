// SPDX-License-Identifier: GPL-2.0-only

//! Writing settings into the file of the host, and asking its daemon to read it.

use crate::{
    error::{Error, Kind, Result},
    system::System,
};
use ddvm::{Editor, config, editor::LOCK, ssd, tier};
use rustix::net::sockopt::socket_peercred;
use serde::Deserialize;
use std::{
    io::{self, BufRead, BufReader, Read},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

/// Note on weights that are not saved.
pub(crate) const NOT_SAVED: &str =
    "The setting is lost when the VM ends or ddhostd applies its file; `--save` makes it permanent";

/// Result of saving settings.
pub(crate) struct Saved {
    path: PathBuf,
    daemon: Daemon,
}

/// The daemon's reaction.
enum Daemon {
    /// It has read the file.
    Read,
    /// It is not running.
    Absent,
    /// It has no status socket, without which ddctl cannot find it.
    Hidden,
    /// It reads this file instead.
    Elsewhere(PathBuf),
}

/// Opens the file of the host for changes.
pub(crate) fn open<'a>(system: &dyn System) -> Result<Editor<'a>> {
    let memory = tier::memory(&system.file("/proc/meminfo"))?;
    Editor::open(&system.file(config::PATH), memory).map_err(|problems| {
        Error::new(Kind::Failed, problems)
            .hint("nothing was changed; correct the file, `ddhostd check` shows its problems")
    })
}

/// Writes the file, and asks the daemon to read it.
pub(crate) fn finish(system: &dyn System, editor: Editor<'_>) -> Result<Saved> {
    let (path, config) = editor
        .save(&system.file(LOCK))
        .map_err(|error| Error::new(Kind::Failed, error))?;
    let daemon = match config.status_socket {
        None => Daemon::Hidden,
        Some(socket) => reload(system, &system.file(&socket.to_string_lossy()), &path)?,
    };
    Ok(Saved { path, daemon })
}

impl Saved {
    /// Returns the message for the user.
    pub(crate) fn text(&self) -> String {
        let path = self.path.display();
        match &self.daemon {
            Daemon::Read => format!("Saved in {path}, which ddhostd has read"),
            Daemon::Absent => {
                format!("Saved in {path}, which ddhostd applies at its next start")
            }
            Daemon::Hidden => format!(
                "Saved in {path}; ddhostd has no status socket: run `systemctl reload \
                 doubledecker-ddhostd`"
            ),
            Daemon::Elsewhere(other) => {
                format!(
                    "Saved in {path}, but ddhostd was started with {}",
                    other.display()
                )
            }
        }
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> PathBuf {
        self.path.clone()
    }
}

/// The longest wait for the daemon, which asks the module before it answers.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most bytes of all its reports that are read.
const MAX_BYTES: u64 = 64 << 20;

/// The fields of a report of the daemon that matter here.
#[derive(Deserialize)]
struct Report {
    loads: u64,
    refused: Option<String>,
    /// The file that it reads.
    file: Option<PathBuf>,
}

/// Asks the daemon to read its file, and waits until it has, if its file is `path`.
fn reload(system: &dyn System, socket: &Path, path: &Path) -> Result<Daemon> {
    let failed = |error: &dyn std::fmt::Display| {
        Error::new(
            Kind::Failed,
            format!("the file is saved, but ddhostd does not answer: {error}"),
        )
        .hint("run `systemctl reload doubledecker-ddhostd`")
    };
    let stream = match UnixStream::connect(socket) {
        Ok(stream) => stream,
        Err(error) => {
            return match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Ok(Daemon::Absent),
                _ => Err(failed(&error)),
            };
        }
    };
    // The kernel knows the process that listens.
    let peer = socket_peercred(&stream).map_err(|error| failed(&error))?;
    stream
        .set_read_timeout(Some(PATIENCE))
        .map_err(|error| failed(&error))?;
    let mut lines = BufReader::new(stream).take(MAX_BYTES);
    let mut next = || -> Result<Report> {
        let mut line = String::new();
        lines.read_line(&mut line).map_err(|error| failed(&error))?;
        serde_json::from_str(&line).map_err(|error| failed(&error))
    };
    let before = next()?;
    if let Some(file) = before.file.filter(|file| !ssd::is_same(file, path)) {
        return Ok(Daemon::Elsewhere(file));
    }
    system.hang_up(peer.pid).map_err(|error| failed(&error))?;
    loop {
        let report = next()?;
        if report.loads > before.loads {
            return match report.refused {
                None => Ok(Daemon::Read),
                Some(problems) => Err(Error::new(
                    Kind::Failed,
                    format!("the file is saved, but ddhostd refuses it: {problems}"),
                )),
            };
        }
    }
}
