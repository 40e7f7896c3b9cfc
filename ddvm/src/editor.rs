// SPDX-License-Identifier: GPL-2.0-only

//! Changes of the file of a host that keep its comments and its order.

use crate::{
    config::{Config, Weights},
    selector::Selector,
    ssd::{Rate, wait_word},
    tier::Sizes,
    vmm::Vmm,
};
use ddabi::ssd::Waiting;
use std::{
    fs::{self, Permissions},
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};
use tempfile::NamedTempFile;
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, Value};

/// The file, being changed. Nothing is written before [`Editor::save`].
#[derive(Debug)]
pub struct Editor {
    path: PathBuf,
    memory: u64,
    document: DocumentMut,
}

/// The first lines of a file that did not exist.
const HEADING: &str =
    "# Weights of VMs and sizes of the memory tier of this host, kept by ddhostd.\n";

impl Editor {
    /// Opens a file on a machine with `memory` bytes of memory. A file that is missing is empty.
    pub fn open(path: &Path, memory: u64) -> Result<Self, String> {
        // A symbolic link is followed, because it would be replaced by a file otherwise.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.into());
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => HEADING.into(),
            Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
        };
        parse(&path, &text, memory)?;
        let document = text
            .parse()
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self {
            path,
            memory,
            document,
        })
    }

    /// Sets the weights of a VM by its name, and that in the SSD tier only if it is given. They are
    /// written into the entry for exactly this name, or into a new one, which is placed before the
    /// first entry that matches the VM.
    pub fn set_weights(&mut self, name: &str, vmm: &Vmm, weights: Weights) -> Result<(), String> {
        let config = parse(&self.path, &self.document.to_string(), self.memory)?;
        let exact = Selector::of_name(name)?;
        let own = config
            .entries
            .iter()
            .position(|entry| entry.selector == exact);
        let first = config.entry(vmm).map(|(at, _)| at);
        let entries = self.entries()?;
        match (own, first) {
            (Some(own), Some(first)) if own <= first => {
                if let Some(entry) = entries.get_mut(own) {
                    set_both(entry, weights);
                }
            }
            (own, first) => {
                let end = entries.len();
                let mut entry = match own.map(|own| (own, entries.get(own).cloned())) {
                    Some((own, Some(entry))) => {
                        entries.remove(own);
                        entry
                    }
                    _ => {
                        let mut entry = self.new_table(first.is_none());
                        set(&mut entry, "name", globset::escape(name).into());
                        entry
                    }
                };
                set_both(&mut entry, weights);
                insert(self.entries()?, first.unwrap_or(end), entry);
            }
        }
        Ok(())
    }

    /// Sets the sizes that are given. Fails if the file would become invalid, for example because
    /// of a floor that it has.
    pub fn set_sizes(&mut self, sizes: &Sizes) -> Result<(), String> {
        if !self.document.contains_key("memory") {
            let table = self.new_table(true);
            self.document.insert("memory", Item::Table(table));
        }
        let memory = self.document.get_mut("memory");
        let Some(memory) = memory.and_then(Item::as_table_like_mut) else {
            return Err("`memory` is not a table".into());
        };
        for (key, size) in [
            ("capacity", text(sizes.capacity)),
            ("floor", text(sizes.floor)),
            ("eviction-batch", text(sizes.batch)),
            ("keep-free", text(sizes.keep_free)),
            ("promote-free", text(sizes.promote_free)),
        ] {
            if let Some(value) = size {
                set_like(memory, key, value);
            }
        }
        parse(&self.path, &self.document.to_string(), self.memory).map(drop)
    }

    /// Sets how many milliseconds guests wait for a device of the SSD tier.
    pub fn set_deadline(&mut self, ms: u32) -> Result<(), String> {
        self.set_ssd("deadline-ms", i64::from(ms).into())
    }

    /// Sets where readers wait for a device of the SSD tier.
    pub fn set_wait(&mut self, waiting: Waiting) -> Result<(), String> {
        self.set_ssd("wait", wait_word(waiting).into())
    }

    /// Sets a key of the SSD tier.
    fn set_ssd(&mut self, key: &str, value: Value) -> Result<(), String> {
        if !self.document.contains_key("ssd") {
            let table = self.new_table(true);
            self.document.insert("ssd", Item::Table(table));
        }
        set_like(self.ssd()?, key, value);
        Ok(())
    }

    /// Sets the write budget of a device of the SSD tier, if it is given: in its entry, or in a new
    /// one behind the others. `is_it` tells whether a path is that of the device.
    pub fn set_device(
        &mut self,
        path: &str,
        is_it: impl Fn(&str) -> bool,
        write_budget: Option<Rate>,
    ) -> Result<(), String> {
        let budget = text(write_budget);
        let at = self.device(is_it)?;
        if at.is_none() {
            let is_first = self.devices()?.is_none();
            let is_last = !self.document.contains_key("ssd");
            let mut entry = self.new_table(is_last);
            set(&mut entry, "path", path.into());
            if is_first {
                let ssd = self.document.entry("ssd").or_insert_with(|| {
                    let mut table = Table::new();
                    table.set_implicit(true);
                    Item::Table(table)
                });
                let missing = || "`ssd` is not a table".to_owned();
                let ssd = ssd.as_table_like_mut().ok_or_else(missing)?;
                ssd.insert("device", Item::ArrayOfTables(ArrayOfTables::new()));
            }
            if let Some(devices) = self.devices()? {
                devices.push(entry);
            }
        }
        if let Some((devices, value)) = self.devices()?.zip(budget) {
            let at = at.unwrap_or(devices.len() - 1);
            if let Some(entry) = devices.get_mut(at) {
                set(entry, "write-budget", value);
            }
        }
        parse(&self.path, &self.document.to_string(), self.memory).map(drop)
    }

    /// Removes the entry of a device of the SSD tier, if there is one.
    pub fn remove_device(&mut self, is_it: impl Fn(&str) -> bool) -> Result<(), String> {
        let at = self.device(is_it)?;
        if let Some((devices, at)) = self.devices()?.zip(at) {
            devices.remove(at);
        }
        Ok(())
    }

    /// Returns the number of a device's entry, from 0.
    fn device(&mut self, is_it: impl Fn(&str) -> bool) -> Result<Option<usize>, String> {
        let Some(devices) = self.devices()? else {
            return Ok(None);
        };
        let path = |entry: &Table| entry.get("path")?.as_str().map(str::to_owned);
        let mut paths = devices.iter().map(path);
        Ok(paths.position(|path| path.is_some_and(|path| is_it(&path))))
    }

    fn ssd(&mut self) -> Result<&mut dyn toml_edit::TableLike, String> {
        let ssd = self.document.get_mut("ssd");
        let ssd = ssd.and_then(Item::as_table_like_mut);
        ssd.ok_or_else(|| "`ssd` is not a table".into())
    }

    /// Returns the entries of devices, if there are any.
    fn devices(&mut self) -> Result<Option<&mut ArrayOfTables>, String> {
        let path = self.path.display().to_string();
        let ssd = self.document.get_mut("ssd");
        let Some(devices) = ssd.and_then(|ssd| ssd.get_mut("device")) else {
            return Ok(None);
        };
        devices.as_array_of_tables_mut().map(Some).ok_or_else(|| {
            format!(
                "{path}: `device` is written in one line: write devices as `[[ssd.device]]` tables"
            )
        })
    }

    /// Writes the file in one step, if it is valid. Returns its path and its content.
    pub fn save(self) -> Result<(PathBuf, Config), String> {
        let text = self.document.to_string();
        let config = parse(&self.path, &text, self.memory)?;
        write(&self.path, &text)
            .map_err(|error| format!("cannot write {}: {error}", self.path.display()))?;
        Ok((self.path, config))
    }

    /// Returns a table that is set apart by an empty line. Comments at the end of the file stay
    /// before a table that is added there.
    fn new_table(&mut self, is_last: bool) -> Table {
        let mut table = Table::new();
        let mut prefix = String::new();
        if is_last {
            prefix.push_str(self.document.trailing().as_str().unwrap_or_default());
            self.document.set_trailing("");
        }
        prefix.push('\n');
        table.decor_mut().set_prefix(prefix);
        table
    }

    fn entries(&mut self) -> Result<&mut ArrayOfTables, String> {
        let path = self.path.display().to_string();
        let entries = self
            .document
            .entry("vm")
            .or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
        entries.as_array_of_tables_mut().ok_or_else(|| {
            format!("{path}: `vm` is written in one line: write its entries as `[[vm]]` tables")
        })
    }
}

fn parse(path: &Path, text: &str, memory: u64) -> Result<Config, String> {
    Config::parse(text, memory).map_err(|problems| ddconf::list(path, &problems))
}

/// Returns the value of an optional setting in the file.
fn text(it: Option<impl ToString>) -> Option<Value> {
    it.map(|it| Value::from(it.to_string()))
}

/// Sets the weights of an entry.
fn set_both(entry: &mut Table, weights: Weights) {
    set(entry, "weight", i64::from(weights.memory).into());
    if let Some(ssd) = weights.ssd {
        set(entry, "ssd-weight", i64::from(ssd).into());
    }
}

/// Sets a value and keeps the comment behind it.
fn set(table: &mut Table, key: &str, value: Value) {
    set_like(table, key, value);
}

fn set_like(table: &mut dyn toml_edit::TableLike, key: &str, mut value: Value) {
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) => {
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        None => {
            table.insert(key, Item::Value(value));
        }
    }
}

/// Inserts an entry at an index, which may be the length.
fn insert(entries: &mut ArrayOfTables, at: usize, mut entry: Table) {
    let all: Vec<Table> = entries.iter().cloned().collect();
    // Of tables with equal positions, the first in the array is written first.
    if let Some(position) = all.get(at).and_then(Table::position) {
        entry.set_position(position);
    }
    entries.clear();
    for table in all[..at].iter().chain([&entry]).chain(&all[at..]) {
        entries.push(table.clone());
    }
}

/// Replaces a file, or creates it with its directory, so that readers find the old or the new one.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory)?;
    let permissions = match fs::metadata(path) {
        Ok(metadata) => metadata.permissions(),
        Err(_) => Permissions::from_mode(0o644),
    };
    let mut file = NamedTempFile::new_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(permissions)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ddconf::size::Size;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    const MEMORY: u64 = 8 << 30;

    fn vm(name: &str) -> Vmm {
        Vmm {
            name: Some(name.into()),
            ..Vmm::default()
        }
    }

    /// Returns a text after a change.
    fn edit(text: &str, change: impl FnOnce(&mut Editor)) -> String {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("host.toml");
        fs::write(&path, text).unwrap();
        let mut editor = Editor::open(&path, MEMORY).unwrap();
        change(&mut editor);
        editor.save().unwrap();
        fs::read_to_string(&path).unwrap()
    }

    fn with_weight(text: &str, name: &str, weight: u32) -> String {
        let new = edit(text, |editor| {
            editor
                .set_weights(name, &vm(name), Weights::both(weight))
                .unwrap();
        });
        let config = Config::parse(&new, MEMORY).unwrap();
        assert_eq!(config.weights(&vm(name)), Weights::both(weight), "{new}");
        new
    }

    const TEXT: &str = "# Ours.\ndefault = \"deny\" # strict\n\n[memory]\ncapacity = \"1G\" # small\n\
                        \n# The shop.\n[[vm]]\nname = \"web\" # runs nginx\nweight = 300 # much\n\
                        \n# All others.\n[[vm]]\nname = \"*\"\nweight = 1\n";

    #[test]
    fn a_weight_is_changed_in_its_place() {
        let wanted = TEXT.replace("300", "20");
        assert_eq!(with_weight(TEXT, "web", 20), wanted);
    }

    #[test]
    fn a_weight_of_its_own_in_the_ssd_tier_is_kept() {
        let weights = |memory, ssd| Weights { memory, ssd };
        let with = |text: &str, weights| {
            edit(text, |editor| {
                editor.set_weights("web", &vm("web"), weights).unwrap();
            })
        };
        let text = with(TEXT, weights(20, Some(5)));
        let wanted = TEXT.replace("300 # much\n", "20 # much\nssd-weight = 5\n");
        assert_eq!(text, wanted);
        assert_eq!(with(&text, weights(30, None)), wanted.replace("20", "30"));
    }

    #[test]
    fn a_new_entry_comes_before_the_first_that_matches() {
        let entry = "\n[[vm]]\nname = \"mail\"\nweight = 7\n";
        let at = TEXT.find("\n# All others.").unwrap();
        let wanted = format!("{}{entry}{}", &TEXT[..at], &TEXT[at..]);
        assert_eq!(with_weight(TEXT, "mail", 7), wanted);
        // Without a match it comes last.
        let text = &TEXT[..at];
        assert_eq!(with_weight(text, "mail", 7), format!("{text}{entry}"));
        let text = format!("{text}\n# [[vm]]\n# An example.\n");
        assert_eq!(with_weight(&text, "mail", 7), format!("{text}{entry}"));
        let text = "# Nothing yet.\n";
        assert_eq!(with_weight(text, "mail", 7), format!("{text}{entry}"));
        assert_eq!(
            with_weight("", "a*[", 7),
            "\n[[vm]]\nname = \"a[*][[]\"\nweight = 7\n"
        );
    }

    #[test]
    fn an_entry_behind_another_one_is_moved() {
        let text = "[[vm]]\nname = \"w*\"\nweight = 1\n\n# The shop.\n[[vm]]\nname = \"web\"\nweight = 2\n";
        let wanted = "\n# The shop.\n[[vm]]\nname = \"web\"\nweight = 3\n[[vm]]\nname = \"w*\"\nweight = 1\n";
        assert_eq!(with_weight(text, "web", 3), wanted);
    }

    #[test]
    fn sizes_are_changed_in_their_places() {
        let sizes = Sizes {
            capacity: Some(Size::Percent(25.0)),
            batch: Some(Size::Bytes(4 << 20)),
            ..Sizes::default()
        };
        let wanted = TEXT.replace(
            "\"1G\" # small\n",
            "\"25%\" # small\neviction-batch = \"4MiB\"\n",
        );
        let set = |editor: &mut Editor| editor.set_sizes(&sizes).unwrap();
        assert_eq!(edit(TEXT, set), wanted);
        let memory = "\n[memory]\ncapacity = \"25%\"\neviction-batch = \"4MiB\"\n";
        assert_eq!(edit("# A.\n", set), format!("# A.\n{memory}"));
    }

    #[test]
    fn thresholds_are_kept() {
        let sizes = Sizes {
            keep_free: Some("16M".parse().unwrap()),
            promote_free: Some("auto".parse().unwrap()),
            ..Sizes::default()
        };
        let text = edit("", |editor| editor.set_sizes(&sizes).unwrap());
        assert_eq!(
            text,
            "\n[memory]\nkeep-free = \"16MiB\"\npromote-free = \"auto\"\n"
        );
    }

    #[test]
    fn devices_are_kept_and_removed() {
        let add = |text: &str, path: &str, budget: Option<&str>| {
            edit(text, |editor| {
                let budget = budget.map(|budget| budget.parse().unwrap());
                editor
                    .set_device(path, |other| other == path, budget)
                    .unwrap();
            })
        };
        let one = add(TEXT, "/dev/a", None);
        assert_eq!(one, format!("{TEXT}\n[[ssd.device]]\npath = \"/dev/a\"\n"));
        let two = add(&one, "/dev/b", Some("20M"));
        let second = "\n[[ssd.device]]\npath = \"/dev/b\"\nwrite-budget = \"20MiB\"\n";
        assert_eq!(two, format!("{one}{second}"));
        let changed = add(
            &two.replace("20MiB\"", "20MiB\" # cheap"),
            "/dev/b",
            Some("none"),
        );
        assert_eq!(changed, two.replace("20MiB\"", "none\" # cheap"));
        assert_eq!(add(&two, "/dev/b", None), two);
        let remove = |text: &str, path: &str| {
            edit(text, |editor| {
                editor.remove_device(|other| other == path).unwrap();
            })
        };
        assert_eq!(remove(&two, "/dev/b"), one);
        assert_eq!(remove(&remove(&two, "/dev/b"), "/dev/a"), TEXT);
        assert_eq!(remove(&two, "/dev/c"), two);
        assert_eq!(remove(TEXT, "/dev/c"), TEXT);
    }

    #[test]
    fn the_deadline_is_kept_beside_devices() {
        let deadline = |text: &str| edit(text, |editor| editor.set_deadline(50).unwrap());
        assert_eq!(deadline(""), "\n[ssd]\ndeadline-ms = 50\n");
        let host = |text: &str| edit(text, |editor| editor.set_wait(Waiting::Host).unwrap());
        assert_eq!(
            host(&deadline("")),
            "\n[ssd]\ndeadline-ms = 50\nwait = \"host\"\n"
        );
        let text =
            "# The tier.\n[ssd]\ndeadline-ms = 5 # short\n\n[[ssd.device]]\npath = \"/dev/a\"\n";
        assert_eq!(deadline(text), text.replace("= 5 ", "= 50 "));
        let devices = "[[ssd.device]]\npath = \"/dev/a\"\n";
        let config = Config::parse(&deadline(devices), MEMORY).unwrap();
        assert_eq!(
            (config.ssd.deadline, config.ssd.devices.len()),
            (Some(50), 1)
        );
    }

    #[test]
    fn a_file_that_is_missing_is_made() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("etc/host.toml");
        let mut editor = Editor::open(&path, MEMORY).unwrap();
        editor
            .set_weights("web", &vm("web"), Weights::both(5))
            .unwrap();
        editor.save().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(
            text,
            format!("{HEADING}\n[[vm]]\nname = \"web\"\nweight = 5\n")
        );
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
    }

    #[test]
    fn links_and_modes_are_kept() {
        let directory = TempDir::new().unwrap();
        let [path, link] = ["host.toml", "link"].map(|name| directory.path().join(name));
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        symlink(&path, &link).unwrap();
        let mut editor = Editor::open(&link, MEMORY).unwrap();
        editor
            .set_weights("web", &vm("web"), Weights::both(5))
            .unwrap();
        assert_eq!(editor.save().unwrap().0, path.canonicalize().unwrap());
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
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
                editor.set_device("/dev/b", |_| false, None)?;
                editor.set_weights("web", &vm("web"), Weights::both(5))
            });
            let error = changed.unwrap_err();
            assert!(error.contains(message), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
