// SPDX-License-Identifier: GPL-2.0-only

//! Which cgroups there are, and which come and go.

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

/// The cgroups below a directory that a file may speak of. Paths are relative to the directory and
/// begin with a slash.
///
/// Users make cgroups too, as many as they like: those that cannot be containers are neither kept
/// nor watched, and there are bounds for what is. Announcements and what follows from them are
/// charged to an allowance of processor time. When that is used up, in a storm, nothing is watched
/// for some seconds; then all is looked through.
pub struct Tree {
    root: PathBuf,
    reach: Reach,
    /// Nowhere in a storm.
    ears: Option<Ears>,
    watched: HashMap<WatchDescriptor, String>,
    waiting: VecDeque<Change>,
    allowance: Allowance,
    /// The thread's processor time when it last began to wait for a change.
    waited: Duration,
    /// Announcements came since, and what follows from them is to be charged.
    told: bool,
    /// Watches at most.
    most: usize,
    /// Watches ran out; said once.
    blind: bool,
    /// There are more cgroups than are looked at; said once.
    endless: bool,
}

/// Room for many events of one reading.
const BUFFER: usize = 16 << 10;
/// Watches at most: they are root's, who has others that need some.
const MOST_WATCHES: usize = 4096;
/// Part of all watches that is taken at most.
const PART_OF_WATCHES: usize = 8;
/// Directories that are looked at in one go, at most.
const MOST_DIRECTORIES: usize = 16 << 10;
/// Bytes of paths that are kept in one go, at most.
const MOST_BYTES: usize = 2 << 20;

/// Announcements of the kernel, and what it is asked to announce.
struct Ears {
    watches: Watches,
    stream: EventStream<Vec<u8>>,
}

impl Ears {
    fn open() -> io::Result<Self> {
        let inotify = Inotify::init()?;
        Ok(Self {
            watches: inotify.watches(),
            stream: inotify.into_event_stream(vec![0; BUFFER])?,
        })
    }
}

impl Tree {
    /// Begins to watch; [`Self::scan`] tells what is there.
    pub fn open(root: &Path, reach: Reach) -> io::Result<Self> {
        let all = fs::read_to_string("/proc/sys/fs/inotify/max_user_watches").ok();
        let all: Option<usize> = all.and_then(|text| text.trim().parse().ok());
        let part = all.map(|all| all / PART_OF_WATCHES);
        Ok(Self {
            root: root.into(),
            reach,
            most: part.map_or(MOST_WATCHES, |part| part.clamp(1, MOST_WATCHES)),
            ears: Some(Ears::open()?),
            watched: HashMap::new(),
            waiting: VecDeque::new(),
            allowance: Allowance::new(Instant::now()),
            waited: thread_time(),
            told: false,
            blind: false,
            endless: false,
        })
    }

    /// Which cgroups are looked for.
    pub const fn reach(&self) -> &Reach {
        &self.reach
    }

    /// Where the tree is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// All cgroups there are now that may be containers.
    pub fn scan(&mut self) -> Cgroups {
        let mut found = Cgroups::new();
        self.visit(String::new(), &mut found);
        found
    }

    /// The numbers of cgroups that exist, whatever they are.
    pub fn living<'a>(&self, paths: impl Iterator<Item = &'a str>) -> Cgroups {
        let entry = |path: &str| {
            let directory = fs::symlink_metadata(self.directory(path)).ok()?;
            directory.is_dir().then(|| (path.into(), directory.ino()))
        };
        paths.filter_map(entry).collect()
    }

    /// Waits for the next change. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Change {
        loop {
            if let Some(change) = self.waiting.pop_front() {
                return change;
            }
            self.settle();
            let pause = self.allowance.pause(Instant::now());
            if !pause.is_zero() {
                self.ears = None;
                self.watched.clear();
                sleep(pause).await;
            }
            let Some(ears) = &mut self.ears else {
                return self.listen_again();
            };
            match ears.stream.next().await {
                Some(Ok(event)) => {
                    self.told = true;
                    self.take(event);
                }
                Some(Err(error)) => {
                    warn!("watching cgroups: {error}");
                    return Change::Lost;
                }
                // The stream of a living descriptor does not end.
                None => std::future::pending().await,
            }
        }
    }

    /// The next change if it is known already, without waiting: what comes together is decided
    /// about together.
    pub fn ready(&mut self) -> Option<Change> {
        loop {
            if let Some(change) = self.waiting.pop_front() {
                return Some(change);
            }
            match self.ears.as_mut()?.stream.next().now_or_never()?? {
                Ok(event) => {
                    self.told = true;
                    self.take(event);
                }
                Err(error) => {
                    warn!("watching cgroups: {error}");
                    return Some(Change::Lost);
                }
            }
        }
    }

    /// Charges what was done since the last wait, if an announcement was the reason.
    fn settle(&mut self) {
        let now = thread_time();
        if std::mem::take(&mut self.told) {
            let spent = now.saturating_sub(self.waited);
            self.allowance.charge(Instant::now(), spent);
        }
        self.waited = now;
    }

    /// A storm was waited out: what there is now is to be looked through, and watched from then on.
    fn listen_again(&mut self) -> Change {
        self.told = true;
        match Ears::open() {
            Ok(ears) => self.ears = Some(ears),
            // The next storm's end, or a new configuration, is another try; until then cgroups are
            // looked through now and then.
            Err(error) => self.go_blind(&error.to_string()),
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
        // What was made below it before it was watched is found here.
        let mut found = Cgroups::new();
        // A cgroup's number is that of its directory.
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

    /// Looks through what is below a path, level by level: what is deep, as users' cgroups are,
    /// comes last when there is too much.
    fn visit(&mut self, path: String, found: &mut Cgroups) {
        let (mut directories, mut bytes) = (0, 0);
        let mut open = VecDeque::from([path]);
        while let Some(path) = open.pop_front() {
            let directory = self.directory(&path);
            // First it is watched, then what is in it is listed: nothing falls between.
            self.watch(&path, &directory);
            let Ok(entries) = fs::read_dir(&directory) else {
                // It went while we looked; its parent's watch says so.
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
                if directories > MOST_DIRECTORIES || bytes > MOST_BYTES {
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
        if !std::mem::replace(&mut self.endless, true) {
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
        if self.watched.len() >= self.most {
            self.go_blind(&format!("{} are watched already", self.most));
            return;
        }
        let Some(ears) = &mut self.ears else { return };
        match ears.watches.add(directory, mask) {
            Ok(watch) => {
                self.watched.insert(watch, path.into());
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.go_blind(&error.to_string()),
        }
    }

    fn go_blind(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.blind, true) {
            warn!(
                "cannot watch all cgroups: {reason}; some are found by looking now and then. An \
                 eighth of fs.inotify.max_user_watches is used, {MOST_WATCHES} at most"
            );
        }
    }
}
