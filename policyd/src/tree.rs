// SPDX-License-Identifier: GPL-2.0

//! Which cgroups there are, and which come and go.

use crate::engine::Cgroups;
use futures_util::StreamExt;
use inotify::{EventMask, EventOwned, EventStream, Inotify, WatchDescriptor, WatchMask, Watches};
use std::{
    collections::{HashMap, VecDeque},
    fs, io,
    os::unix::fs::{DirEntryExt, MetadataExt},
    path::{Path, PathBuf},
};
use tracing::warn;

/// A cgroup came or went.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Change {
    /// It was made: its path and its number.
    Appeared(String, u64),
    /// It was removed.
    Vanished(String),
    /// Announcements were lost: scan again.
    Lost,
}

/// The cgroups below a directory. Paths are relative to it and begin with a slash.
pub struct Tree {
    root: PathBuf,
    watches: Watches,
    stream: EventStream<Vec<u8>>,
    watched: HashMap<WatchDescriptor, String>,
    waiting: VecDeque<Change>,
    /// Watches ran out; said once.
    blind: bool,
}

/// Room for many events of one reading.
const BUFFER: usize = 16 << 10;

impl Tree {
    /// Begins to watch; [`Self::scan`] tells what is there.
    pub fn open(root: &Path) -> io::Result<Self> {
        let inotify = Inotify::init()?;
        Ok(Self {
            root: root.into(),
            watches: inotify.watches(),
            stream: inotify.into_event_stream(vec![0; BUFFER])?,
            watched: HashMap::new(),
            waiting: VecDeque::new(),
            blind: false,
        })
    }

    /// Where the tree is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// All cgroups there are now; each is watched from here on.
    pub fn scan(&mut self) -> Cgroups {
        let mut found = Cgroups::new();
        self.visit("", &mut found);
        found
    }

    /// Waits for the next change. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Change {
        loop {
            if let Some(change) = self.waiting.pop_front() {
                return change;
            }
            match self.stream.next().await {
                Some(Ok(event)) => self.take(event),
                Some(Err(error)) => {
                    warn!("watching cgroups: {error}");
                    return Change::Lost;
                }
                // The stream of a living descriptor does not end.
                None => std::future::pending().await,
            }
        }
    }

    fn take(&mut self, event: EventOwned) {
        if event.mask.contains(EventMask::Q_OVERFLOW) {
            self.waiting.push_back(Change::Lost);
            return;
        }
        if event.mask.contains(EventMask::IGNORED) {
            self.watched.remove(&event.wd);
            return;
        }
        let Some(parent) = self.watched.get(&event.wd) else {
            return;
        };
        let Some(name) = event.name.as_ref().and_then(|name| name.to_str()) else {
            return;
        };
        if !event.mask.contains(EventMask::ISDIR) {
            return;
        }
        let path = format!("{parent}/{name}");
        if event
            .mask
            .intersects(EventMask::DELETE | EventMask::MOVED_FROM)
        {
            self.waiting.push_back(Change::Vanished(path));
        } else {
            // What was made below it before it was watched is found here.
            let mut found = Cgroups::new();
            // A cgroup's number is that of its directory.
            if let Ok(directory) = fs::symlink_metadata(self.directory(&path)) {
                found.insert(path.clone(), directory.ino());
                self.visit(&path, &mut found);
            }
            let appeared = found
                .into_iter()
                .map(|(path, id)| Change::Appeared(path, id));
            self.waiting.extend(appeared);
        }
    }

    /// Watches a directory, then adds what is in it, so that nothing falls between.
    fn visit(&mut self, path: &str, found: &mut Cgroups) {
        let directory = self.directory(path);
        self.watch(path, &directory);
        let Ok(entries) = fs::read_dir(&directory) else {
            // It went while we looked; its parent's watch says so.
            return;
        };
        for entry in entries.flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if let Some(name) = entry.file_name().to_str() {
                let below = format!("{path}/{name}");
                self.visit(&below, found);
                found.insert(below, entry.ino());
            }
        }
    }

    fn directory(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn watch(&mut self, path: &str, directory: &Path) {
        let mask = WatchMask::CREATE
            | WatchMask::DELETE
            | WatchMask::MOVE
            | WatchMask::ONLYDIR
            | WatchMask::DONT_FOLLOW;
        match self.watches.add(directory, mask) {
            Ok(watch) => {
                self.watched.insert(watch, path.into());
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if self.blind => drop(error),
            Err(error) => {
                self.blind = true;
                warn!(
                    "cannot watch {}: {error}; cgroups are found by looking now and then. Raise \
                     fs.inotify.max_user_watches to find them at once",
                    directory.display()
                );
            }
        }
    }
}
