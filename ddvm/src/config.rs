// SPDX-License-Identifier: GPL-2.0-only

//! The file of a host, `/etc/doubledecker/host.toml`, parsed. `docs/users/ddhostd.md` describes it.

use crate::{
    selector::{Pattern, Selector},
    ssd::{DEADLINES, Listed, MAX_DEVICES, MAX_PATH_LEN, Ssd, wait},
    tier::{self, InvalidSize, Sizes},
    vmm::Vmm,
};
use ddabi::pool::{DEFAULT_WEIGHT, MAX_WEIGHT};
use ddconf::{
    Problem, Reader, Section,
    address::{DDHOSTD_PORT, address},
    reader::Value,
};
use ddnl::{Vm, VmChange};
use std::{fs, net::SocketAddr, ops::Range, path::Path, path::PathBuf};
use toml::de::DeTable;

/// Path of the file.
pub const PATH: &str = "/etc/doubledecker/host.toml";
/// Default path of the daemon's status socket.
pub const SOCKET: &str = "/run/doubledecker/host.sock";

/// The content of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Rights of VMs without an entry.
    pub unlisted: Unlisted,
    /// Sizes of the memory tier.
    pub memory: Sizes,
    /// Settings of the SSD tier.
    pub ssd: Ssd,
    /// Path of the status socket; without it there is none.
    pub status_socket: Option<PathBuf>,
    /// Address at which metrics are served; without it they are not served.
    pub metrics: Option<SocketAddr>,
    /// The entries; the first one that matches a VM counts.
    pub entries: Vec<Entry>,
}

/// Rights of VMs without an entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unlisted {
    /// The VMs use the cache with this weight.
    Allow(u32),
    /// The VMs do not use the cache: their weight is 0.
    Deny,
}

/// An entry: VMs and their weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The line in which it begins, from 1.
    pub line: usize,
    /// The VMs.
    pub selector: Selector,
    /// The weights of each of them.
    pub weights: Weights,
}

/// Weights of a VM, 0 to 10000.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Weights {
    /// In the memory tier.
    pub memory: u32,
    /// In the SSD tier; if absent, the weight in the memory tier applies.
    pub ssd: Option<u32>,
}

impl Weights {
    /// Returns the same weight for both tiers.
    pub const fn both(weight: u32) -> Self {
        Self {
            memory: weight,
            ssd: None,
        }
    }

    /// Returns the weight in the SSD tier.
    pub fn ssd(self) -> u32 {
        self.ssd.unwrap_or(self.memory)
    }

    /// Returns whether a VM has these weights.
    pub fn are_those_of(self, vm: &Vm) -> bool {
        vm.weight == self.memory && vm.ssd_weight == self.ssd()
    }

    /// Returns the change that gives a VM these weights.
    pub fn change(self, vm: &Vm) -> VmChange {
        // The module makes the weight in the SSD tier follow the other one until it is set.
        let follows = self.ssd.is_none() && vm.ssd_weight == vm.weight;
        VmChange {
            weight: Some(self.memory),
            ssd_weight: (!follows).then(|| self.ssd()),
        }
    }
}

impl Config {
    /// Parses the text of a file for a machine with `memory` bytes of memory. Returns all problems,
    /// not only the first.
    pub fn parse(text: &str, memory: u64) -> Result<Self, Vec<Problem>> {
        ddconf::parse(text, |reader, table| top(reader, table, Some(memory)))
    }

    /// Parses the text of a file that may be meant for another machine: sizes that this one cannot
    /// have are not a problem.
    pub fn parse_for_any(text: &str) -> Result<Self, Vec<Problem>> {
        ddconf::parse(text, |reader, table| top(reader, table, None))
    }

    /// Reads a file for the machine that `meminfo` describes. The error has all problems, one per
    /// line.
    pub fn load(path: &Path, meminfo: &Path) -> Result<Self, String> {
        let memory = tier::memory(meminfo)
            .map_err(|error| format!("cannot read {}: {error}", meminfo.display()))?;
        Self::read(path, |text| Self::parse(text, memory))
    }

    /// Reads a file that may be meant for another machine. The error has all problems, one per
    /// line.
    pub fn load_for_any(path: &Path) -> Result<Self, String> {
        Self::read(path, Self::parse_for_any)
    }

    fn read(
        path: &Path,
        parse: impl FnOnce(&str) -> Result<Self, Vec<Problem>>,
    ) -> Result<Self, String> {
        let text = fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        parse(&text).map_err(|problems| ddconf::list(path, &problems))
    }

    /// Returns the first entry that matches a VM, and its number from 0.
    pub fn entry(&self, vmm: &Vmm) -> Option<(usize, &Entry)> {
        let mut entries = self.entries.iter().enumerate();
        entries.find(|(_, entry)| entry.selector.matches(vmm))
    }

    /// Returns the weights of a VM.
    pub fn weights(&self, vmm: &Vmm) -> Weights {
        match (self.entry(vmm), self.unlisted) {
            (Some((_, entry)), _) => entry.weights,
            (None, Unlisted::Allow(weight)) => Weights::both(weight),
            (None, Unlisted::Deny) => Weights::both(0),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            unlisted: Unlisted::Allow(DEFAULT_WEIGHT),
            memory: Sizes::default(),
            ssd: Ssd::default(),
            status_socket: Some(SOCKET.into()),
            metrics: None,
            entries: Vec::new(),
        }
    }
}

/// Reads the top table. `memory` is that of the machine which the file is for, if it is known.
fn top(reader: &mut Reader<'_>, table: &DeTable<'_>, memory: Option<u64>) -> Config {
    let mut section = reader.section(table, "");
    let mut config = Config {
        unlisted: unlisted(&mut section),
        ..Config::default()
    };
    if section.has("status-socket") {
        config.status_socket = section.parsed("status-socket", socket).flatten();
    }
    config.metrics = section.parsed("metrics", |text| address(text, DDHOSTD_PORT));
    if let Some(below) = section.table("memory") {
        config.memory = sizes(section.reader.section(below, " in [memory]"), memory);
    }
    if let Some(below) = section.table("ssd") {
        config.ssd = ssd(section.reader.section(below, " in [ssd]"));
    }
    if let Some(value) = section.value("vm") {
        config.entries = entries(section.reader, value);
    }
    section.end();
    config
}

fn unlisted(section: &mut Section<'_, '_, '_>) -> Unlisted {
    let denied = section.parsed("default", |text| match text {
        "allow" => Ok(false),
        "deny" => Ok(true),
        _ => Err(format!("`{text}` is neither `allow` nor `deny`")),
    });
    let at = section.key("default-weight");
    let weight = section.whole("default-weight", MAX_WEIGHT);
    match (denied, at) {
        (Some(true), Some(at)) => {
            let message = "`default-weight` has no effect with `default = \"deny\"`, which gives \
                           VMs without an entry the weight 0";
            section.problem(at, message);
            Unlisted::Deny
        }
        (Some(true), None) => Unlisted::Deny,
        _ => Unlisted::Allow(weight.unwrap_or(DEFAULT_WEIGHT)),
    }
}

/// Parses the path of a socket. An empty text stands for none.
fn socket(text: &str) -> Result<Option<PathBuf>, String> {
    let path = PathBuf::from(text);
    match text {
        "" => Ok(None),
        _ if path.is_absolute() => Ok(Some(path)),
        _ => Err("must be an absolute path, or empty for none".into()),
    }
}

fn sizes(mut section: Section<'_, '_, '_>, memory: Option<u64>) -> Sizes {
    let place =
        |section: &mut Section<'_, '_, '_>, key| section.value(key).map(|value| value.span());
    let capacity = place(&mut section, "capacity");
    let floor = place(&mut section, "floor");
    let batch = place(&mut section, "eviction-batch");
    let keep_free = place(&mut section, "keep-free");
    let sizes = Sizes {
        capacity: section.parsed("capacity", str::parse),
        floor: section.parsed("floor", str::parse),
        batch: section.parsed("eviction-batch", str::parse),
        keep_free: section.parsed("keep-free", str::parse),
        promote_free: section.parsed("promote-free", str::parse),
    };
    let checked = match memory {
        Some(memory) => sizes.change(memory, None).map(drop),
        None => sizes.check(),
    };
    if let Err(wrong) = checked {
        let place = match wrong {
            InvalidSize::Capacity(..) => capacity,
            InvalidSize::Floor(..) => floor,
            InvalidSize::Batch => batch,
            InvalidSize::KeepFree(..) => keep_free,
        };
        let message = format!("{}: {}", wrong.message(), wrong.advice());
        section.problem(place.unwrap_or_default(), message);
    }
    section.end();
    sizes
}

fn ssd(mut section: Section<'_, '_, '_>) -> Ssd {
    let at = section.value("deadline-ms").map(|value| value.span());
    let deadline = section.whole("deadline-ms", *DEADLINES.end());
    if deadline.is_some_and(|ms| ms < *DEADLINES.start()) {
        let message = format!("`deadline-ms` must be at least {}", DEADLINES.start());
        section.problem(at.unwrap_or_default(), message);
    }
    let wait = section.parsed("wait", wait);
    let retain = section.flag("retain");
    let index_memory = section.parsed("index-memory", str::parse);
    let mut devices = Vec::new();
    if let Some(value) = section.value("device") {
        devices = listed(section.reader, value);
    }
    section.end();
    Ssd {
        deadline,
        wait,
        retain,
        index_memory,
        devices,
    }
}

fn listed(reader: &mut Reader<'_>, value: &Value<'_>) -> Vec<Listed> {
    let Some(items) = value.get_ref().as_array() else {
        let message = "`device` is a list: begin each device with `[[ssd.device]]`";
        reader.problem(value.span(), message);
        return Vec::new();
    };
    let mut devices: Vec<Listed> = Vec::new();
    for item in items {
        let Some(table) = item.get_ref().as_table() else {
            reader.problem(item.span(), "a device is a table of keys and values");
            continue;
        };
        let at = item.span();
        let Some(device) = device(reader.section(table, " in [[ssd.device]]"), &at) else {
            continue;
        };
        if let Some(twin) = devices.iter().find(|one| one.path == device.path) {
            let message = format!("{} is in line {} already", device.path, twin.line);
            reader.problem(at, message);
        } else if devices.len() == MAX_DEVICES {
            let message = format!("the SSD tier has at most {MAX_DEVICES} devices");
            reader.problem(at, message);
        }
        devices.push(device);
    }
    devices
}

fn device(mut section: Section<'_, '_, '_>, at: &Range<usize>) -> Option<Listed> {
    if !section.has("path") {
        section.problem(at.clone(), "this device has no `path`");
    }
    let path = section.parsed("path", |text| {
        let path = Path::new(text);
        let is_plain = path.is_absolute() && path.file_name().is_some();
        match is_plain && text.len() <= MAX_PATH_LEN && !text.contains('\0') {
            true => Ok(text.to_owned()),
            false => Err(format!(
                "must be the absolute path of a block device, of at most {MAX_PATH_LEN} bytes"
            )),
        }
    });
    let write_budget = section.parsed("write-budget", str::parse);
    let line = section.reader.line(at);
    section.end();
    path.map(|path| Listed {
        line,
        path,
        write_budget,
    })
}

fn entries(reader: &mut Reader<'_>, value: &Value<'_>) -> Vec<Entry> {
    let Some(items) = value.get_ref().as_array() else {
        let message = "`vm` is a list: begin each entry with `[[vm]]`";
        reader.problem(value.span(), message);
        return Vec::new();
    };
    let mut entries: Vec<Entry> = Vec::new();
    for item in items {
        let Some(table) = item.get_ref().as_table() else {
            reader.problem(item.span(), "an entry is a table of keys and values");
            continue;
        };
        let at = item.span();
        let Some(entry) = entry(reader.section(table, " in [[vm]]"), &at) else {
            continue;
        };
        if let Some(twin) = entries.iter().find(|one| one.selector == entry.selector) {
            let text = entry.selector.text();
            let line = twin.line;
            let message =
                format!("the entry in line {line} is for {text} already, and comes first");
            reader.problem(at, message);
        }
        entries.push(entry);
    }
    entries
}

fn entry(mut section: Section<'_, '_, '_>, at: &Range<usize>) -> Option<Entry> {
    let selects = ["name", "uuid", "cgroup"].map(|key| section.has(key));
    let selector = Selector {
        name: section.parsed("name", Pattern::name),
        uuid: section.parsed("uuid", Pattern::uuid),
        cgroup: section.parsed("cgroup", Pattern::cgroup),
    };
    let has_weight = section.has("weight");
    let weight = section.whole("weight", MAX_WEIGHT);
    let ssd = section.whole("ssd-weight", MAX_WEIGHT);
    if !selects.contains(&true) {
        let message = "this entry has no `name`, `uuid` or `cgroup`";
        section.problem(at.clone(), message);
    }
    if !has_weight {
        section.problem(at.clone(), "this entry has no `weight`");
    }
    let line = section.reader.line(at);
    section.end();
    (!selector.is_empty()).then(|| Entry {
        line,
        selector,
        weights: Weights {
            memory: weight.unwrap_or_default(),
            ssd,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ssd::Rate, tier::Threshold};
    use ddabi::ssd::Waiting;

    const MEMORY: u64 = 8 << 30;

    fn problems(text: &str) -> String {
        let problems = Config::parse(text, MEMORY).unwrap_err();
        ddconf::list(Path::new("host.toml"), &problems)
    }

    fn vm(name: &str) -> Vmm {
        Vmm {
            name: Some(name.into()),
            ..Vmm::default()
        }
    }

    #[test]
    fn an_empty_file_has_defaults() {
        assert_eq!(Config::parse("", MEMORY), Ok(Config::default()));
    }

    #[test]
    fn the_first_entry_that_matches_counts() {
        let text = "default-weight = 50\n[memory]\ncapacity = \"25%\"\n\
                    [[vm]]\nname = \"web-*\"\nweight = 300\n\
                    [[vm]]\nname = \"web-1\"\nweight = 1\n";
        let config = Config::parse(text, MEMORY).unwrap();
        assert_eq!(config.weights(&vm("web-1")), Weights::both(300));
        assert_eq!(config.weights(&vm("mail")), Weights::both(50));
        assert_eq!(config.entry(&vm("web-1")).unwrap().1.line, 4);
        let config = Config::parse("default = \"deny\"", MEMORY).unwrap();
        assert_eq!(config.weights(&vm("web-1")), Weights::both(0));
    }

    #[test]
    fn every_problem_is_reported_with_its_place() {
        let text = "defualt = \"deny\"\nmetrics = \"everywhere\"\nstatus-socket = \"x\"\n\
                    [memory]\ncapacity = \"512\"\nflor = 1\n\
                    [[vm]]\nweight = 10001\n\
                    [[vm]]\nname = \"a[\"\n  colour = 1\nweight = 1\n\
                    [[vm]]\nname = \"a\"\n";
        let wanted = "\
host.toml: line 1, column 1: unknown key `defualt`; did you mean `default`?
host.toml: line 2, column 11: `metrics`: `everywhere` is not an IP address, such as 127.0.0.1 or 127.0.0.1:19470
host.toml: line 3, column 17: `status-socket`: must be an absolute path, or empty for none
host.toml: line 5, column 12: `capacity`: `512` has no unit: write it like 512M, 2G or 25%
host.toml: line 6, column 1: unknown key `flor` in [memory]; did you mean `floor`?
host.toml: line 7, column 1: this entry has no `name`, `uuid` or `cgroup`
host.toml: line 8, column 10: `weight` must be a whole number from 0 to 10000
host.toml: line 10, column 8: `name`: error parsing glob 'a[': unclosed character class; missing ']'
host.toml: line 11, column 3: unknown key `colour` in [[vm]]; known are cgroup, name, ssd-weight, uuid, weight
host.toml: line 13, column 1: this entry has no `weight`";
        assert_eq!(problems(text), wanted);
    }

    #[test]
    fn the_ssd_tier_has_devices() {
        let device = |number: usize| format!("[[ssd.device]]\npath = \"/dev/mapper/{number}\"\n");
        let text = format!(
            "[memory]\nkeep-free = \"auto\"\npromote-free = \"1%\"\n[ssd]\ndeadline-ms = 50\nwait = \"guest\"\nretain = true\nindex-memory = \"2%\"\n{}\
             write-budget = \"0.5dwpd\"\n{}",
            device(1),
            device(2)
        );
        let config = Config::parse(&text, MEMORY).unwrap();
        let listed = |line, number: usize, write_budget| Listed {
            line,
            path: format!("/dev/mapper/{number}"),
            write_budget,
        };
        let devices = vec![listed(9, 1, Some(Rate::Size(0.5))), listed(12, 2, None)];
        let deadline = Some(50);
        let wait = Some(Waiting::Guest);
        let ssd = Ssd {
            deadline,
            wait,
            retain: Some(true),
            index_memory: Some("2%".parse().unwrap()),
            devices,
        };
        assert_eq!(config.ssd, ssd);
        assert_eq!(config.memory.keep_free, Some(Threshold::Automatic));
        let text: String = (0..=MAX_DEVICES).map(device).collect();
        let problems = problems(&text);
        let message = "line 33, column 1: the SSD tier has at most 16 devices";
        assert!(problems.contains(message), "{problems}");
    }

    /// They also apply to devices that `ddctl ssd add` has added without `--save`.
    #[test]
    fn settings_of_the_ssd_tier_need_no_device_in_the_file() {
        for text in [
            "[memory]\npromote-free = \"1G\"\n",
            "[ssd]\ndeadline-ms = 50\n",
            "[ssd]\nwait = \"guest\"\n",
            "[ssd]\nretain = true\n",
            "[ssd]\nindex-memory = \"none\"\n",
        ] {
            let config = Config::parse(text, MEMORY);
            assert!(config.is_ok_and(|it| it != Config::default()), "{text}");
        }
    }

    /// A file that is used on several machines need not fit all of them.
    #[test]
    fn sizes_of_another_machine_are_distinguished_from_mistakes() {
        let sizes = |sizes: &str| format!("[memory]\n{sizes}[[vm]]\nname = \"a\"\nweight = 1\n");
        for elsewhere in [
            "capacity = \"9G\"\n",
            "capacity = \"25%\"\nfloor = \"3G\"\n",
            "capacity = \"1G\"\nfloor = \"25%\"\n",
            "capacity = \"1G\"\nkeep-free = \"10%\"\n",
            "eviction-batch = \"0.00001%\"\n",
        ] {
            let text = sizes(elsewhere);
            assert!(Config::parse(&text, MEMORY).is_err(), "{text}");
            let config = Config::parse_for_any(&text).unwrap();
            assert_eq!(config.entries.len(), 1);
        }
        for wrong in [
            "capacity = \"1G\"\nfloor = \"2G\"\n",
            "capacity = \"1G\"\nkeep-free = \"1G\"\n",
            "eviction-batch = \"0\"\n",
            "capacity = \"1G\"\nfloor = \"1%\"\neviction-batch = \"0\"\n",
        ] {
            assert!(Config::parse_for_any(&sizes(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn keys_without_effect_are_refused() {
        for (text, message) in [
            (
                "default = \"deny\"\ndefault-weight = 5\n",
                "line 2, column 1: `default-weight` has no effect with `default = \"deny\"`",
            ),
            (
                "default = \"maybe\"\n",
                "line 1, column 11: `default`: `maybe` is neither `allow` nor `deny`",
            ),
            (
                "[memory]\ncapacity = \"1G\"\nfloor = \"2G\"\n",
                "line 3, column 9: the floor of 2.00 GiB is above the capacity of 1.00 GiB",
            ),
            (
                "[memory]\ncapacity = \"9G\"\n",
                "line 2, column 12: a capacity of 9.00 GiB is more than this machine's memory",
            ),
            (
                "[memory]\neviction-batch = \"0\"\n",
                "line 2, column 18: the eviction batch is out of range",
            ),
            (
                "[[vm]]\nname = \"a\"\nweight = 1\n[[vm]]\nweight = 2\nname = \"a\"\n",
                "line 4, column 1: the entry in line 1 is for name `a` already, and comes first",
            ),
            (
                "[memory]\ncapacity = \"1G\"\nkeep-free = \"600M\"\n",
                "line 3, column 13: 600.0 MiB to be kept free is more than half of the capacity of 1.00 GiB",
            ),
            (
                "[ssd]\ndeadline-ms = 0\n",
                "line 2, column 15: `deadline-ms` must be at least 1",
            ),
            (
                "[ssd]\ndeadline-ms = 10001\n",
                "line 2, column 15: `deadline-ms` must be a whole number from 0 to 10000",
            ),
            (
                "[ssd]\nwait = \"never\"\n",
                "line 2, column 8: `wait`: write `auto`, `host` or `guest`",
            ),
            (
                "[ssd]\nretain = \"on\"\n",
                "line 2, column 10: `retain` must be true or false",
            ),
            (
                "[ssd]\nindex-memory = \"4K\"\n",
                "line 2, column 16: `index-memory`: `4K` is less than 64KiB: write it like 4G, 2% or none",
            ),
            (
                "[ssd]\ndevice = 1\n",
                "line 2, column 10: `device` is a list: begin each device with `[[ssd.device]]`",
            ),
            (
                "[[ssd.device]]\nwrite-budget = \"20M\"\n",
                "line 1, column 1: this device has no `path`",
            ),
            (
                "[[ssd.device]]\npath = \"sdb\"\n",
                "line 2, column 8: `path`: must be the absolute path of a block device",
            ),
            (
                "[[ssd.device]]\npath = \"/dev/x\"\nwrite-budget = \"much\"\n",
                "line 3, column 16: `write-budget`: `much` is not a size",
            ),
            (
                "[[ssd.device]]\npath = \"/dev/x\"\nreserve = \"1G\"\n",
                "line 3, column 1: unknown key `reserve` in [[ssd.device]]; known are path, write-budget",
            ),
            (
                "[[ssd.device]]\npath = \"/dev/x\"\n[[ssd.device]]\npath = \"/dev/x\"\n",
                "line 3, column 1: /dev/x is in line 1 already",
            ),
            (
                "default = \"deny\"\n\ndefault = \"allow\"\n",
                "line 3, column 1: `default` is in line 1 already",
            ),
            (
                "[memory]\n[memory]\n",
                "line 2, column 2: `[memory]` is in line 1 already",
            ),
            ("vm = 1\n", "line 1, column 6: `vm` is a list"),
            ("vm = [1]\n", "line 1, column 7: an entry is a table"),
        ] {
            let problems = problems(text);
            assert!(problems.contains(message), "{problems}");
            assert_eq!(problems.lines().count(), 1, "{problems}");
        }
    }
}
