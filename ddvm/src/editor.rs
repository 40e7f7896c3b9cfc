// SPDX-License-Identifier: GPL-2.0-only

//! Changes of the file of a host, also by several programs at a time.

use crate::{config::Config, document::Document};
use rustix::fs::{FlockOperation, OFlags, flock};
use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
    path::{Path, PathBuf},
};
use tempfile::NamedTempFile;

/// Path of the file that is locked while the file of a host is replaced. It is not beside that
/// file, where other users could open it and keep the lock.
pub const LOCK: &str = "/run/doubledecker/host.toml.lock";

/// A change, which may be made again on another text.
type Change<'a> = Box<dyn Fn(&mut Document) -> Result<(), String> + 'a>;

/// The file, being changed. Nothing is written before [`Editor::save`].
pub struct Editor<'a> {
    path: PathBuf,
    memory: u64,
    /// The text as it was read.
    text: String,
    document: Document,
    changes: Vec<Change<'a>>,
}

/// The first lines of a file that did not exist.
const HEADING: &str =
    "# Weights of VMs and sizes of the memory tier of this host, kept by ddhostd.\n";

impl<'a> Editor<'a> {
    /// Opens a file on a machine with `memory` bytes of memory. A file that is missing is empty.
    pub fn open(path: &Path, memory: u64) -> Result<Self, String> {
        // A symbolic link is followed, because it would be replaced by a file otherwise.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.into());
        let text = read(&path)?;
        let document = Document::parse(&path, &text, memory)?;
        Ok(Self {
            path,
            memory,
            text,
            document,
            changes: Vec::new(),
        })
    }

    /// Makes a change, and again when the file is saved if another program has changed it.
    pub fn change<R>(
        &mut self,
        change: impl Fn(&mut Document) -> Result<R, String> + 'a,
    ) -> Result<R, String> {
        let result = change(&mut self.document)?;
        let again = move |document: &mut Document| change(document).map(drop);
        self.changes.push(Box::new(again));
        Ok(result)
    }

    /// Writes the file in one step, if it is valid. Returns its path and its content. `lock` is the
    /// path of a file, which is created if it is missing: of several programs, only one at a time
    /// reads and writes the file.
    pub fn save(mut self, lock: &Path) -> Result<(PathBuf, Config), String> {
        let _lock =
            take(lock).map_err(|error| format!("cannot lock {}: {error}", lock.display()))?;
        let text = read(&self.path)?;
        if text != self.text {
            self.document = Document::parse(&self.path, &text, self.memory)?;
            for change in &self.changes {
                change(&mut self.document)?;
            }
        }
        let config = self.document.config()?;
        write(&self.path, &self.document.text())
            .map_err(|error| format!("cannot write {}: {error}", self.path.display()))?;
        Ok((self.path, config))
    }
}

fn read(path: &Path) -> Result<String, String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(HEADING.into()),
        read => read.map_err(|error| format!("cannot read {}: {error}", path.display())),
    }
}

/// Waits for a lock, which is held until the file is closed.
fn take(path: &Path) -> io::Result<File> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    let file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(path)?;
    flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

/// Replaces a file, or creates it with its directory, so that readers find the old or the new one,
/// also after a power failure. A file that exists keeps its owner and its mode.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory)?;
    let mut file = NamedTempFile::new_in(directory)?;
    file.write_all(text.as_bytes())?;
    match fs::metadata(path) {
        Ok(old) => {
            let new = file.as_file().metadata()?;
            if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
                fchown(file.as_file(), Some(old.uid()), Some(old.gid()))?;
            }
            file.as_file().set_permissions(old.permissions())?;
        }
        Err(_) => {
            let permissions = Permissions::from_mode(0o644);
            file.as_file().set_permissions(permissions)?;
        }
    }
    file.as_file().sync_all()?;
    file.persist(path)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Weights;
    use std::{os::unix::fs::symlink, sync::Barrier, thread};
    use tempfile::TempDir;

    const MEMORY: u64 = 8 << 30;

    fn set(editor: &mut Editor<'_>, name: &'static str, weight: u32) {
        let weights = Weights::both(weight);
        editor
            .change(move |file| file.set_weights(name, None, None, weights))
            .unwrap();
    }

    #[test]
    fn a_file_that_is_missing_is_made() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("etc/host.toml");
        let mut editor = Editor::open(&path, MEMORY).unwrap();
        set(&mut editor, "web", 5);
        editor.save(&directory.path().join("run/lock")).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(
            text,
            format!("{HEADING}\n[[vm]]\nname = \"web\"\nweight = 5\n")
        );
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o644);
        // Other users cannot keep the lock.
        assert_eq!(mode(&directory.path().join("run/lock")), 0o600);
    }

    #[test]
    fn links_and_modes_are_kept() {
        let directory = TempDir::new().unwrap();
        let [path, link, lock] =
            ["host.toml", "link", "lock"].map(|name| directory.path().join(name));
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        // Only root can change the owner.
        let is_root = fchown(File::open(&path).unwrap(), Some(7), Some(8)).is_ok();
        symlink(&path, &link).unwrap();
        let mut editor = Editor::open(&link, MEMORY).unwrap();
        set(&mut editor, "web", 5);
        assert_eq!(editor.save(&lock).unwrap().0, path.canonicalize().unwrap());
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o640);
        if is_root {
            assert_eq!((metadata.uid(), metadata.gid()), (7, 8));
        }
    }

    /// `ddctl` reads the file before it changes the module, which can take long.
    #[test]
    fn changes_of_another_program_are_kept() {
        let directory = TempDir::new().unwrap();
        let [path, lock] = ["host.toml", "lock"].map(|name| directory.path().join(name));
        let [mut one, mut other] = [(); 2].map(|()| Editor::open(&path, MEMORY).unwrap());
        set(&mut one, "web", 5);
        set(&mut other, "mail", 6);
        other.save(&lock).unwrap();
        one.save(&lock).unwrap();
        let config = Config::parse(&fs::read_to_string(&path).unwrap(), MEMORY).unwrap();
        assert_eq!(config.entries.len(), 2);
        // A change that is not possible any more leaves the file alone.
        let mut editor = Editor::open(&path, MEMORY).unwrap();
        set(&mut editor, "web", 7);
        fs::write(&path, "vm = []\n").unwrap();
        let error = editor.save(&lock).unwrap_err();
        assert!(error.contains("`vm` is written in one line"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "vm = []\n");
    }

    #[test]
    fn programs_that_save_at_once_wait_for_each_other() {
        const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let directory = TempDir::new().unwrap();
        let [path, lock] = ["host.toml", "lock"].map(|name| directory.path().join(name));
        let all_open = Barrier::new(NAMES.len());
        thread::scope(|scope| {
            for name in NAMES {
                let (path, lock, all_open) = (&path, &lock, &all_open);
                scope.spawn(move || {
                    let mut editor = Editor::open(path, MEMORY).unwrap();
                    set(&mut editor, name, 5);
                    all_open.wait();
                    editor.save(lock).unwrap();
                });
            }
        });
        let config = Config::parse(&fs::read_to_string(&path).unwrap(), MEMORY).unwrap();
        assert_eq!(config.entries.len(), NAMES.len());
    }

    #[test]
    fn a_broken_file_is_left_alone() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("host.toml");
        for (text, message) in [
            ("wieght = 1\n", "line 1, column 1: unknown key `wieght`"),
            (
                "vm = [{ name = \"a\", weight = 1 }]\n",
                "`vm` is written in one line",
            ),
            (
                "ssd = { device = [{ path = \"/dev/a\" }] }\n",
                "`device` is written in one line",
            ),
        ] {
            fs::write(&path, text).unwrap();
            let opened = Editor::open(&path, MEMORY);
            let changed = opened.and_then(|mut editor| {
                editor.change(|file| {
                    file.set_device("/dev/b", |_| false, None)?;
                    file.set_weights("web", None, None, Weights::both(5))
                })
            });
            let error = changed.unwrap_err();
            assert!(error.contains(message), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
