// SPDX-License-Identifier: GPL-2.0-only

//! Checks in threads of their own whether devices contain data: a device that does not
//! answer blocks a thread, and not the daemon.

use ddvm::ssd;
use std::{collections::BTreeSet, io, path::PathBuf, thread};
use tokio::sync::mpsc;

/// A device, and whether it contains data.
type Answer = (PathBuf, io::Result<bool>);

/// The checks under way.
#[derive(Debug)]
pub struct DataChecks {
    sender: mpsc::UnboundedSender<Answer>,
    receiver: mpsc::UnboundedReceiver<Answer>,
    asked: BTreeSet<PathBuf>,
}

impl Default for DataChecks {
    fn default() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self {
            sender,
            receiver,
            asked: BTreeSet::new(),
        }
    }
}

impl DataChecks {
    /// Begins to check a device, unless a check is under way. Fails if there is no thread for it.
    pub fn ask(&mut self, path: PathBuf) -> io::Result<()> {
        if !self.asked.insert(path.clone()) {
            return Ok(());
        }
        let sender = self.sender.clone();
        let check = {
            let path = path.clone();
            move || {
                let has_data = ssd::has_data(&path);
                // Fails if the daemon has ended.
                drop(sender.send((path, has_data)));
            }
        };
        let thread = thread::Builder::new()
            .name("data-check".into())
            .spawn(check);
        if thread.is_err() {
            self.asked.remove(&path);
        }
        thread.map(drop)
    }

    /// Waits for the next answer. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Answer {
        match self.receiver.recv().await {
            Some(answer) => {
                self.asked.remove(&answer.0);
                answer
            }
            // This structure holds a sender, so the channel does not end.
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, mkfifoat};
    use std::fs;
    use tempfile::TempDir;

    #[tokio::test]
    async fn a_device_that_does_not_answer_holds_up_no_other() {
        let directory = TempDir::new().unwrap();
        let [mute, other] = ["mute", "other"].map(|name| directory.path().join(name));
        mkfifoat(CWD, &mute, Mode::RWXU).unwrap();
        fs::write(&other, "data").unwrap();
        let mut data_checks = DataChecks::default();
        for path in [&mute, &mute, &other] {
            data_checks.ask(path.clone()).unwrap();
        }
        let (path, has_data) = data_checks.next().await;
        assert_eq!((path, has_data.unwrap()), (other, true));
        // Opening a pipe waits for its reader, which then finds the pipe empty.
        let writer = mute.clone();
        thread::spawn(move || fs::OpenOptions::new().write(true).open(writer).unwrap());
        let (path, has_data) = data_checks.next().await;
        assert_eq!((path, has_data.unwrap()), (mute, false));
        assert!(data_checks.asked.is_empty());
    }
}
