// SPDX-License-Identifier: GPL-2.0-only

//! Files of one thread, used in turn as in Filebench.

use std::{collections::VecDeque, path::PathBuf};

use crate::fileset::{File, FileSet};

/// A thread's files: those that exist, and those that do not.
#[derive(Debug)]
pub(super) struct Rotation {
    present: VecDeque<PathBuf>,
    absent: VecDeque<PathBuf>,
}

impl Rotation {
    /// Returns the share of a thread. No two threads have a file in common, unless there are fewer
    /// files than threads.
    pub(super) fn new(set: &FileSet, thread: u64, threads: u64) -> Self {
        let groups = threads.min(set.files().len() as u64);
        let share = set.share(thread % groups, groups);
        let (present, absent): (Vec<File>, Vec<File>) =
            share.into_iter().partition(|file| file.present);
        let paths = |files: Vec<File>| files.into_iter().map(|file| file.path).collect();
        Self {
            present: paths(present),
            absent: paths(absent),
        }
    }

    /// Returns the next file that exists.
    pub(super) fn next(&mut self) -> Option<&PathBuf> {
        let path = self.present.pop_front()?;
        self.present.push_back(path);
        self.present.back()
    }

    /// Returns the file to delete next.
    pub(super) fn remove(&mut self) -> Option<&PathBuf> {
        let path = self.present.pop_front()?;
        self.absent.push_back(path);
        self.absent.back()
    }

    /// Returns the file to create next: the one that was absent for longest.
    pub(super) fn add(&mut self) -> Option<&PathBuf> {
        let path = self.absent.pop_front()?;
        self.present.push_back(path);
        self.present.back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Load, Profile};

    #[test]
    fn files_take_turns_and_change_sides() {
        let set = &Load::new(Profile::Webserver, "/x").files(3).sets()[0];
        let mut rotation = Rotation::new(set, 0, 1);
        let first = rotation.next().cloned();
        let second = rotation.next().cloned();
        assert_ne!(first, second);
        rotation.next();
        assert_eq!(rotation.remove().cloned(), first);
        assert_eq!(rotation.next().cloned(), second);
        assert_eq!(rotation.add().cloned(), first);
        assert_eq!(rotation.add(), None);
    }

    #[test]
    fn many_threads_share_few_files() {
        let set = &Load::new(Profile::Scan, "/x").sets()[0];
        let mut last = Rotation::new(set, 7, 8);
        assert_eq!(last.next(), Some(&set.files()[0].path));
    }
}
