// SPDX-License-Identifier: GPL-2.0-only

//! The text of the file of a host, with changes that keep its comments and its order.

use crate::{
    config::{Config, Weights},
    selector::{Pattern, Selector},
    ssd::{IndexMemory, Rate, wait_word},
    tier::Sizes,
    vmm::Vmm,
};
use ddabi::ssd::Waiting;
use std::path::{Path, PathBuf};
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, Value};

/// A valid text, being changed.
#[derive(Debug)]
pub struct Document {
    /// Path of the file, for messages.
    path: PathBuf,
    memory: u64,
    document: DocumentMut,
}

impl Document {
    /// Parses the text of the file with this path on a machine with `memory` bytes of memory.
    pub fn parse(path: &Path, text: &str, memory: u64) -> Result<Self, String> {
        let document = text.parse();
        let mut parsed = Self {
            path: path.into(),
            memory,
            document: DocumentMut::new(),
        };
        // `check` reports all problems; the editor's parser stops at the first.
        parsed.check(text)?;
        parsed.document = document.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(parsed)
    }

    /// Returns the text.
    pub fn text(&self) -> String {
        self.document.to_string()
    }

    /// Returns what the text says. Fails if a change has made it invalid.
    pub fn config(&self) -> Result<Config, String> {
        self.check(&self.text())
    }

    fn check(&self, text: &str) -> Result<Config, String> {
        let config = Config::parse_for_any(text);
        config.map_err(|problems| ddconf::list(&self.path, &problems))
    }

    /// Sets the weights of a VM by its name, and that in the SSD tier only if it is given. `vmm`
    /// has the names of the VM, or is `None` if the VM is not registered. `cgroup` restricts the
    /// weights to VMs in this cgroup.
    ///
    /// An entry for exactly this name is changed. A new one is placed before the first entry that
    /// matches the VM, and is restricted to the same cgroup and uuid as that one, because any user
    /// who may open /dev/kvm can start a VM with this name.
    pub fn set_weights(
        &mut self,
        name: &str,
        vmm: Option<&Vmm>,
        cgroup: Option<&Pattern>,
        weights: Weights,
    ) -> Result<(), String> {
        let config = self.config()?;
        let exact = Pattern::exactly(name)?;
        let matches = |selector: &Selector| match vmm {
            Some(vmm) => selector.matches(vmm),
            None => selector.may_match(name),
        };
        let selectors = || config.entries.iter().map(|entry| &entry.selector);
        let first = selectors().position(matches);
        let guard = first.map(|first| config.entries[first].selector.clone());
        let guard = guard.unwrap_or_default();
        let own = selectors().position(|one| {
            let is_restricted = match cgroup {
                Some(_) => one.cgroup.as_ref() == cgroup,
                None => one.cgroup.is_some() || guard.cgroup.is_none(),
            };
            let has_uuid = one.uuid.is_some() || guard.uuid.is_none();
            one.name.as_ref() == Some(&exact) && matches(one) && is_restricted && has_uuid
        });
        let entries = self.entries()?;
        let mut entry = match own {
            Some(own) if Some(own) == first => {
                if let Some(entry) = entries.get_mut(own) {
                    set_both(entry, weights);
                }
                return Ok(());
            }
            Some(own) => {
                let entry = entries.get(own).cloned().unwrap_or_default();
                entries.remove(own);
                entry
            }
            None => {
                let mut entry = self.new_table(first.is_none());
                set(&mut entry, "name", exact.text().into());
                for (key, pattern) in [
                    ("uuid", guard.uuid.as_ref()),
                    ("cgroup", cgroup.or(guard.cgroup.as_ref())),
                ] {
                    if let Some(pattern) = pattern {
                        set(&mut entry, key, pattern.text().into());
                    }
                }
                entry
            }
        };
        set_both(&mut entry, weights);
        let entries = self.entries()?;
        let end = entries.len();
        insert(entries, first.unwrap_or(end), entry);
        Ok(())
    }

    /// Sets the sizes that are given. Fails if this machine cannot have the sizes of the file then,
    /// for example because of a floor that it has.
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
        let config = Config::parse(&self.text(), self.memory);
        config
            .map(drop)
            .map_err(|problems| ddconf::list(&self.path, &problems))
    }

    /// Sets how many milliseconds guests wait for a device of the SSD tier.
    pub fn set_deadline(&mut self, ms: u32) -> Result<(), String> {
        self.set_ssd("deadline-ms", i64::from(ms).into())
    }

    /// Sets where readers wait for a device of the SSD tier.
    pub fn set_wait(&mut self, waiting: Waiting) -> Result<(), String> {
        self.set_ssd("wait", wait_word(waiting).into())
    }

    /// Sets whether pages that guests read stay on the devices of the SSD tier.
    pub fn set_retain(&mut self, retain: bool) -> Result<(), String> {
        self.set_ssd("retain", retain.into())
    }

    /// Sets the memory that the index may take before pages leave the SSD tier.
    pub fn set_index_memory(&mut self, limit: IndexMemory) -> Result<(), String> {
        self.set_ssd("index-memory", limit.to_string().into())
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
        self.config().map(drop)
    }

    /// Removes the entry of a device of the SSD tier. Returns whether there was one.
    pub fn remove_device(&mut self, is_it: impl Fn(&str) -> bool) -> Result<bool, String> {
        let at = self.device(is_it)?;
        if let Some((devices, at)) = self.devices()?.zip(at) {
            devices.remove(at);
        }
        Ok(at.is_some())
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

#[cfg(test)]
mod tests {
    use super::*;
    use ddconf::size::Size;

    const MEMORY: u64 = 8 << 30;
    const SLICE: &str = "/machine.slice";

    fn vm(name: &str, cgroup: &str) -> Vmm {
        Vmm {
            name: Some(name.into()),
            cgroup: Some(cgroup.into()),
            ..Vmm::default()
        }
    }

    /// Returns a text after a change.
    fn edit(text: &str, change: impl FnOnce(&mut Document)) -> String {
        let mut document = Document::parse(Path::new("host.toml"), text, MEMORY).unwrap();
        change(&mut document);
        document.config().unwrap();
        document.text()
    }

    fn with_weight(text: &str, name: &str, weight: u32) -> String {
        let vm = vm(name, "/machine.slice/a.scope");
        let weights = Weights::both(weight);
        let new = edit(text, |document| {
            document
                .set_weights(name, Some(&vm), None, weights)
                .unwrap();
        });
        let config = Config::parse(&new, MEMORY).unwrap();
        assert_eq!(config.weights(&vm), weights, "{new}");
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
            edit(text, |document| {
                document.set_weights("web", None, None, weights).unwrap();
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
        let set = |document: &mut Document| document.set_sizes(&sizes).unwrap();
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
        let text = edit("", |document| document.set_sizes(&sizes).unwrap());
        assert_eq!(
            text,
            "\n[memory]\nkeep-free = \"16MiB\"\npromote-free = \"auto\"\n"
        );
    }

    #[test]
    fn devices_are_kept_and_removed() {
        let add = |text: &str, path: &str, budget: Option<&str>| {
            edit(text, |document| {
                let budget = budget.map(|budget| budget.parse().unwrap());
                document
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
            edit(text, |document| {
                document.remove_device(|other| other == path).unwrap();
            })
        };
        assert_eq!(remove(&two, "/dev/b"), one);
        assert_eq!(remove(&remove(&two, "/dev/b"), "/dev/a"), TEXT);
        assert_eq!(remove(&two, "/dev/c"), two);
        assert_eq!(remove(TEXT, "/dev/c"), TEXT);
    }

    #[test]
    fn the_deadline_is_kept_beside_devices() {
        let deadline = |text: &str| edit(text, |document| document.set_deadline(50).unwrap());
        assert_eq!(deadline(""), "\n[ssd]\ndeadline-ms = 50\n");
        let host = |text: &str| edit(text, |document| document.set_wait(Waiting::Host).unwrap());
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

    const GUARDED: &str = "[[vm]]\nname = \"web\"\ncgroup = \"/machine.slice\"\nweight = 3\n";

    /// Any user who may open /dev/kvm can start a VM with the name of another one.
    #[test]
    fn a_namesake_elsewhere_does_not_get_the_weight() {
        let stranger = vm("web", "/user.slice/user-1000.slice/a.scope");
        let glob = GUARDED.replace("web", "w*");
        let uuid =
            "[[vm]]\nname = \"web\"\nweight = 4\n[[vm]]\ncgroup = \"/machine.slice\"\nweight = 3\n";
        for (text, guard, weight) in [
            (GUARDED, GUARDED.to_owned(), 100),
            (
                &glob,
                format!("{}{glob}", GUARDED.replace("[[vm]]", "\n[[vm]]")),
                100,
            ),
            (&uuid.replace("web", "web2"), String::new(), 100),
        ] {
            let new = with_weight(text, "web", 9);
            let config = Config::parse(&new, MEMORY).unwrap();
            assert_eq!(config.weights(&stranger), Weights::both(weight), "{new}");
            if !guard.is_empty() {
                assert_eq!(new, guard.replacen("weight = 3", "weight = 9", 1));
            }
        }
    }

    #[test]
    fn the_guard_of_a_uuid_is_copied_too() {
        let text = "[[vm]]\nuuid = \"6B*\"\nweight = 3\n";
        let vm = Vmm {
            uuid: Some("6b0a".into()),
            ..vm("web", "/a")
        };
        let new = edit(text, |document| {
            let weights = Weights::both(9);
            document
                .set_weights("web", Some(&vm), None, weights)
                .unwrap();
        });
        let entry = "\n[[vm]]\nname = \"web\"\nuuid = \"6B*\"\nweight = 9\n";
        assert_eq!(new, format!("{entry}{text}"));
    }

    /// An entry with a guard is preferred to one without, and is moved before it.
    #[test]
    fn an_entry_with_a_guard_is_moved_with_it() {
        let open = "[[vm]]\nname = \"w*\"\nweight = 1\n";
        let new = with_weight(&format!("{open}{GUARDED}"), "web", 9);
        assert_eq!(new, format!("{}{open}", GUARDED.replace('3', "9")));
    }

    #[test]
    fn weights_of_vms_to_come_are_restricted_to_a_cgroup() {
        let cgroup = Pattern::cgroup(SLICE).unwrap();
        let later = |text: &str, cgroup: Option<&Pattern>| {
            edit(text, |document| {
                let weights = Weights::both(9);
                document.set_weights("web", None, cgroup, weights).unwrap();
            })
        };
        let entry = GUARDED.replace('3', "9");
        let new = format!("\n{entry}");
        assert_eq!(later("", Some(&cgroup)), new);
        assert_eq!(later(&new, Some(&cgroup)), new);
        // The cgroup of the VM is not known yet: the entry with its name is meant.
        assert_eq!(later(GUARDED, None), entry);
        let glob = GUARDED.replace("web", "w*");
        assert_eq!(later(&glob, None), format!("{new}{glob}"));
        // Entries for the name in other cgroups stay as they are.
        for other in ["", "cgroup = \"/user.slice\"\n"] {
            let other = format!("[[vm]]\nname = \"web\"\n{other}weight = 1\n");
            assert_eq!(later(&other, Some(&cgroup)), format!("{new}{other}"));
        }
        let uuid = "[[vm]]\nuuid = \"6b*\"\nweight = 1\n";
        assert_eq!(later(uuid, Some(&cgroup)), format!("{uuid}{new}"));
    }
}
