// SPDX-License-Identifier: GPL-2.0-only

//! Finds cgroups, and watches them come and go.

use crate::{
    allowance::{Allowance, thread_time},
    config::Reach,
    engine::Cgroups,
};
use ddnl::printable;
use futures_util::{FutureExt, StreamExt};
use inotify::{EventMask, EventOwned, EventStream, Inotify, WatchDescriptor, WatchMask, Watches};
use std::{
    collections::{HashMap, VecDeque},
    fs, io,
    os::unix::fs::{DirEntryExt, MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tokio::time::sleep;
use tracing::warn;

/// A change of the cgroup tree.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Change {
    /// A cgroup was created: its path and its id.
    Appeared(String, u64),
    /// A cgroup was removed.
    Vanished(String),
    /// Announcements were lost, so that a scan is necessary.
    Lost,
}

/// The cgroups below a directory that the file may select. Paths are relative to the directory and
/// begin with a slash.
///
/// Users can create any number of cgroups. Those that cannot be containers are neither kept nor
/// watched, and the number of the others is bounded. Announcements and the work that they cause are
/// charged to an allowance of processor time. When it is used up, in a storm, nothing is watched
/// for some seconds, and then all cgroups are scanned.
pub struct Tree {
    root: PathBuf,
    reach: Reach,
    /// Absent during a storm.
    watcher: Option<Watcher>,
    watched: HashMap<WatchDescriptor, String>,
    waiting: VecDeque<Change>,
    allowance: Allowance,
    /// The thread's processor time at the beginning of the last wait for a change.
    waited: Duration,
    /// Set if announcements came since, so that the work is charged.
    announced: bool,
    /// Maximum number of watches.
    max_watches: usize,
    /// Set when watches have run out, which is logged once.
    warned_of_limit: bool,
    /// Set when there are more cgroups than are scanned, which is logged once.
    warned_of_size: bool,
}

/// Size of the buffer for events, in bytes.
const BUFFER: usize = 16 << 10;
/// The most watches. All of root's processes share one number of them.
const MAX_WATCHES: usize = 4096;
/// The daemon uses at most one part in this many of root's watches.
const PART_OF_WATCHES: usize = 8;
/// The most directories that one scan visits.
const MAX_DIRECTORIES: usize = 16 << 10;
/// The most bytes of paths that one scan keeps.
const MAX_BYTES: usize = 2 << 20;

/// The stream of the kernel's announcements, and the watches.
struct Watcher {
    watches: Watches,
    stream: EventStream<Vec<u8>>,
}

impl Watcher {
    fn open() -> io::Result<Self> {
        let inotify = Inotify::init()?;
        Ok(Self {
            watches: inotify.watches(),
            stream: inotify.into_event_stream(vec![0; BUFFER])?,
        })
    }
}

impl Tree {
    /// Begins to watch. [`Self::scan`] returns the existing cgroups.
    pub fn open(root: &Path, reach: Reach) -> io::Result<Self> {
        let all = fs::read_to_string("/proc/sys/fs/inotify/max_user_watches").ok();
        let all: Option<usize> = all.and_then(|text| text.trim().parse().ok());
        let part = all.map(|all| all / PART_OF_WATCHES);
        Ok(Self {
            max_watches: part.map_or(MAX_WATCHES, |part| part.clamp(1, MAX_WATCHES)),
            watcher: Some(Watcher::open()?),
            ..Self::unwatched(root, reach)
        })
    }

    /// Returns a tree that can be scanned, and has no watches.
    pub fn unwatched(root: &Path, reach: Reach) -> Self {
        Self {
            root: root.into(),
            reach,
            max_watches: MAX_WATCHES,
            watcher: None,
            watched: HashMap::new(),
            waiting: VecDeque::new(),
            allowance: Allowance::new(Instant::now()),
            waited: thread_time(),
            announced: false,
            warned_of_limit: false,
            warned_of_size: false,
        }
    }

    /// Returns the part of the tree that is watched.
    pub const fn reach(&self) -> &Reach {
        &self.reach
    }

    /// Returns the directory of the tree.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns all existing cgroups that may be containers.
    pub fn scan(&mut self) -> Cgroups {
        let mut found = Cgroups::new();
        self.visit(String::new(), &mut found);
        found
    }

    /// Returns those of the given cgroups that exist, with their ids.
    pub fn living<'a>(&self, paths: impl Iterator<Item = &'a str>) -> Cgroups {
        let entry = |path: &str| {
            let directory = fs::symlink_metadata(self.directory(path)).ok()?;
            directory.is_dir().then(|| (path.into(), directory.ino()))
        };
        paths.filter_map(entry).collect()
    }

    /// Waits for the next change. No change is lost if the future is dropped.
    pub async fn next(&mut self) -> Change {
        loop {
            if let Some(change) = self.waiting.pop_front() {
                return change;
            }
            self.settle();
            let pause = self.allowance.pause(Instant::now());
            if !pause.is_zero() {
                self.watcher = None;
                self.watched.clear();
                sleep(pause).await;
            }
            let Some(watcher) = &mut self.watcher else {
                return self.listen_again();
            };
            match watcher.stream.next().await {
                Some(Ok(event)) => {
                    self.announced = true;
                    self.take(event);
                }
                Some(Err(error)) => {
                    warn!("watching cgroups: {error}");
                    return Change::Lost;
                }
                // The stream does not end while its descriptor is open.
                None => std::future::pending().await,
            }
        }
    }

    /// Returns the next change if it is known already, without waiting, so that changes which come
    /// together are decided together.
    pub fn ready(&mut self) -> Option<Change> {
        loop {
            if let Some(change) = self.waiting.pop_front() {
                return Some(change);
            }
            match self.watcher.as_mut()?.stream.next().now_or_never()?? {
                Ok(event) => {
                    self.announced = true;
                    self.take(event);
                }
                Err(error) => {
                    warn!("watching cgroups: {error}");
                    return Some(Change::Lost);
                }
            }
        }
    }

    /// Charges the work since the last wait, if announcements caused it.
    fn settle(&mut self) {
        let now = thread_time();
        if std::mem::take(&mut self.announced) {
            let spent = now.saturating_sub(self.waited);
            self.allowance.charge(Instant::now(), spent);
        }
        self.waited = now;
    }

    /// Ends the pause of a storm: requests a scan, and watches again from then on.
    fn listen_again(&mut self) -> Change {
        self.announced = true;
        match Watcher::open() {
            Ok(watcher) => self.watcher = Some(watcher),
            // It is tried again at the end of the next storm, or with a new configuration. Until
            // then cgroups are scanned periodically.
            Err(error) => self.warn_of_limit(&error.to_string()),
        }
        Change::Lost
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
        let (has, leads) = (self.reach.has(&path), self.reach.leads(&path));
        if !has && !leads {
            return;
        }
        if event
            .mask
            .intersects(EventMask::DELETE | EventMask::MOVED_FROM)
        {
            self.waiting.push_back(Change::Vanished(path));
            return;
        }
        // This finds cgroups that were created below it before it was watched.
        let mut found = Cgroups::new();
        // The id of a cgroup is the inode number of its directory.
        if let Ok(directory) = fs::symlink_metadata(self.directory(&path)) {
            if has {
                found.insert(path.clone(), directory.ino());
            }
            if leads {
                self.visit(path, &mut found);
            }
        }
        let appeared = found
            .into_iter()
            .map(|(path, id)| Change::Appeared(path, id));
        self.waiting.extend(appeared);
    }

    /// Visits the cgroups below a path level by level, so that deep ones, such as users' cgroups,
    /// are left out if there are too many.
    fn visit(&mut self, path: String, found: &mut Cgroups) {
        let (mut directories, mut bytes) = (0, 0);
        let mut open = VecDeque::from([path]);
        while let Some(path) = open.pop_front() {
            let directory = self.directory(&path);
            // The directory is watched before it is listed, so that no cgroup is missed in between.
            self.watch(&path, &directory);
            let Ok(entries) = fs::read_dir(&directory) else {
                // The cgroup was removed in the meantime; the watch on its parent reports that.
                continue;
            };
            for entry in entries.flatten() {
                if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    continue;
                }
                let name = entry.file_name();
                let Some(name) = name.to_str() else { continue };
                let below = format!("{path}/{name}");
                let (has, leads) = (self.reach.has(&below), self.reach.leads(&below));
                directories += 1;
                bytes += if has || leads { below.len() } else { 0 };
                if directories > MAX_DIRECTORIES || bytes > MAX_BYTES {
                    self.give_up(&path);
                    return;
                }
                if has {
                    found.insert(below.clone(), entry.ino());
                }
                if leads {
                    open.push_back(below);
                }
            }
        }
    }

    fn give_up(&mut self, path: &str) {
        if !std::mem::replace(&mut self.warned_of_size, true) {
            warn!(
                "there are more cgroups than are looked through, some of them in {}; name \
                 containers so that fewer may be meant",
                printable(path)
            );
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
        if self.watched.len() >= self.max_watches {
            self.warn_of_limit(&format!("{} are watched already", self.max_watches));
            return;
        }
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        match watcher.watches.add(directory, mask) {
            Ok(watch) => {
                self.watched.insert(watch, path.into());
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.warn_of_limit(&error.to_string()),
        }
    }

    fn warn_of_limit(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.warned_of_limit, true) {
            warn!(
                "cannot watch all cgroups: {reason}; some are found by looking now and then. An \
                 eighth of fs.inotify.max_user_watches is used, {MAX_WATCHES} at most"
            );
        }
    }
}
