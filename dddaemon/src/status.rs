// SPDX-License-Identifier: GPL-2.0-only

//! Reports the daemon's state as JSON lines on a unix socket.
//!
//! A reader that connects gets the current report as one line, and each later report as another
//! one, until it disconnects. The daemon reads nothing from the socket, so readers can change
//! nothing.

use anyhow::{Result, bail};
use ddnl::{
    Kind, ProgramError, printable_json,
    schema::{self, SCHEMA_VERSION, Versioned},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    fs,
    io::{self, BufRead, BufReader},
    os::unix::{fs::FileTypeExt, fs::PermissionsExt, net},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::AsyncWriteExt,
    net::{UnixListener, UnixStream},
    sync::watch,
    time::timeout,
};

/// A socket on which readers get reports. It is removed when this is dropped.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

/// A reader is disconnected if it does not accept a report within this time.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of receivers of reports: the readers of the sockets, and the metrics page.
const MAX_READERS: usize = 16;

impl Socket {
    /// Listens at a path. A socket that a crashed daemon left there is removed.
    pub fn open(path: &Path) -> io::Result<Self> {
        if let Some(directory) = path.parent().filter(|directory| !directory.exists()) {
            // The service manager creates the directory, unless the daemon is started by hand.
            fs::create_dir_all(directory)?;
        }
        if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
            fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        Ok(Self {
            listener,
            path: path.into(),
        })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for a reader. No reader is lost if the future is dropped.
    pub async fn reader(&self) -> io::Result<UnixStream> {
        Ok(self.listener.accept().await?.0)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // An error means that the file is gone already.
        let _ = fs::remove_file(&self.path);
    }
}

/// Serves a reader in a separate task, unless there are too many.
pub fn serve<R: Serialize + Send + Sync + 'static>(
    stream: UnixStream,
    reports: &watch::Sender<Arc<R>>,
) {
    if reports.receiver_count() < MAX_READERS {
        tokio::spawn(tell(stream, reports.subscribe()));
    }
}

async fn tell<R: Serialize>(mut stream: UnixStream, mut reports: watch::Receiver<Arc<R>>) {
    loop {
        let report = Arc::clone(&reports.borrow_and_update());
        let Ok(json) = serde_json::to_string(&Versioned::new(&*report)) else {
            return;
        };
        let line = format!("{}\n", printable_json(&json));
        match timeout(PATIENCE, stream.write_all(line.as_bytes())).await {
            Ok(Ok(())) => {}
            _ => return,
        }
        if reports.changed().await.is_err() {
            return;
        }
    }
}

/// Reads one report of a daemon.
pub fn read<R: DeserializeOwned>(path: &Path, daemon: &str) -> Result<R> {
    let line = read_line(path, daemon)?;
    let report = match schema::version_of(&line) {
        SCHEMA_VERSION => serde_json::from_str(&line).map_err(|error| error.to_string()),
        other => Err(format!("the report has version {other} of the schema")),
    };
    report.map_err(|error| {
        let path = path.display();
        let message = format!("{path}: no report of this version of {daemon}: {error}");
        ProgramError::new(Kind::Version, message)
            .hint(format!(
                "`systemctl restart doubledecker-{daemon}` runs the installed version"
            ))
            .into()
    })
}

/// Reads one report of a daemon as it is.
pub fn read_line(path: &Path, daemon: &str) -> Result<String> {
    let stream = net::UnixStream::connect(path).map_err(|error| {
        let path = path.display();
        let message = format!("cannot ask {path}; does {daemon} run?: {error}");
        ProgramError::new(Kind::from(&error), message).hint(format!(
            "`systemctl status doubledecker-{daemon}` shows whether it runs"
        ))
    })?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    if line.is_empty() {
        bail!("{} sends no report", path.display());
    }
    Ok(line)
}
