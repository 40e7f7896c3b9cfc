// SPDX-License-Identifier: GPL-2.0-only

//! Compares `docs/netlink/*.yaml` with the constants of `ddabi` and of the modules' C shims.

use ddabi::{
    ABI_VERSION, NAME_LEN,
    genl::{
        ATTRIBUTE_MAX, Attribute, EVENTS_GROUP, Event, GUEST_FAMILY, GuestCommand, HOST_FAMILY,
        HostCommand, LinkState, Mode, VERSION,
    },
    policy::Policy,
    pool::{DEFAULT_POOL, DEFAULT_WEIGHT, MAX_POOLS, MAX_WEIGHT, SsdAdmit, Store},
    ssd::DeviceState,
};
use std::{collections::BTreeMap, fmt::Debug, fs, path::PathBuf};
use yaml_rust2::{Yaml, YamlLoader};

/// Lists all variants of an enum. A variant that is added to the enum but not listed is a compile
/// error.
macro_rules! all {
    ($type:ident { $($variant:ident)* }) => {{
        #[expect(dead_code, reason = "only has to compile")]
        fn complete(one: $type) {
            match one { $($type::$variant => {})* }
        }
        [$($type::$variant),*].map(|one| (kebab(one), one as i64))
    }};
}

/// Converts a name such as `PoolList` to `pool-list`.
fn kebab(variant: impl Debug) -> String {
    let mut name = String::new();
    for letter in format!("{variant:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

fn repository(file: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn specification(family: &str) -> Yaml {
    let text = repository(&format!("docs/netlink/{family}.yaml"));
    YamlLoader::load_from_str(&text).unwrap().remove(0)
}

/// Returns the values of the named items of a list.
fn values(list: &Yaml) -> BTreeMap<String, i64> {
    let items = list.as_vec().expect("a list");
    let pair = |item: &Yaml| {
        let name = item["name"].as_str().expect("a name").to_owned();
        (name.clone(), item["value"].as_i64().expect(&name))
    };
    items.iter().map(pair).collect()
}

fn definition<'a>(specification: &'a Yaml, name: &str) -> &'a Yaml {
    let definitions = specification["definitions"].as_vec().unwrap();
    let found = definitions
        .iter()
        .find(|one| one["name"].as_str() == Some(name));
    found.unwrap_or_else(|| panic!("no definition {name}"))
}

fn attributes() -> BTreeMap<String, i64> {
    all!(Attribute {
        AbiVersion ModuleVersion State VmId VmPid PoolId Name CgroupId CgroupPath Weight Store
        Capacity Used Entitlement Floor Mode Batch Stats Counters Event Features Vms Pools FileFd
        Policy Admission Curve Limit Evicted Left SsdWeight Path Device DeviceState SsdStats
        Deadline KeepFree PromoteFree WriteBudget Waiting SsdAdmit Retain
        IndexLimit
    })
    .into()
}

fn host_commands() -> BTreeMap<String, i64> {
    all!(HostCommand {
        Status VmList VmSet PoolList ConfigSet Flush Event SsdAdd SsdRemove SsdList SsdSet
    })
    .into()
}

fn guest_commands() -> BTreeMap<String, i64> {
    all!(GuestCommand { Status PoolList PoolAdd PoolSet PoolRemove Flush Migrate Event }).into()
}

const FAMILIES: [&str; 2] = [HOST_FAMILY, GUEST_FAMILY];

#[test]
fn families_and_groups() {
    for family in FAMILIES {
        let specification = specification(family);
        assert_eq!(specification["name"].as_str(), Some(family));
        let groups = specification["mcast-groups"]["list"].as_vec().unwrap();
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0]["name"].as_str(), Some(EVENTS_GROUP));
    }
    // The format has no key for the version, which is 1.
    assert_eq!(VERSION, 1);
}

#[test]
fn commands() {
    for (family, commands) in [
        (HOST_FAMILY, host_commands()),
        (GUEST_FAMILY, guest_commands()),
    ] {
        let list = &specification(family)["operations"]["list"];
        assert_eq!(values(list), commands, "{family}");
    }
}

#[test]
fn commands_are_for_administrators() {
    for family in FAMILIES {
        let specification = specification(family);
        for command in specification["operations"]["list"].as_vec().unwrap() {
            let name = command["name"].as_str().unwrap();
            let flags = command["flags"].as_vec();
            let admin = flags.is_some_and(|flags| flags[0].as_str() == Some("admin-perm"));
            assert_eq!(admin, name != "event", "{family} {name}");
        }
    }
}

#[test]
fn attribute_numbers() {
    assert_eq!(attributes().len(), usize::from(ATTRIBUTE_MAX));
    for family in FAMILIES {
        let specification = specification(family);
        let sets = specification["attribute-sets"].as_vec().unwrap();
        assert_eq!(sets.len(), 1);
        assert_eq!(values(&sets[0]["attributes"]), attributes(), "{family}");
    }
}

/// The documentation of each attribute begins with its type.
#[test]
fn attribute_types() {
    let source = repository("ddabi/src/genl.rs");
    let body = source.split_once("pub enum Attribute {").unwrap().1;
    let body = body.split_once("\n}").unwrap().0;
    let mut documented = BTreeMap::new();
    let mut kind = String::new();
    for line in body.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("/// ") {
            if kind.is_empty() {
                kind = text.split([':', ',']).next().unwrap().to_owned();
            }
        } else if let Some((name, _)) = line.split_once(" = ") {
            documented.insert(kebab_of(name), std::mem::take(&mut kind));
        }
    }
    for family in FAMILIES {
        let specification = specification(family);
        let list = specification["attribute-sets"][0]["attributes"].as_vec();
        let types: BTreeMap<String, String> = list
            .unwrap()
            .iter()
            .map(|one| {
                let text = |key: &str| one[key].as_str().unwrap().to_owned();
                (text("name"), text("type"))
            })
            .collect();
        assert_eq!(types, documented, "{family}");
    }
}

fn kebab_of(name: &str) -> String {
    kebab(format_args!("{name}"))
}

#[test]
fn operations_name_known_attributes() {
    for family in FAMILIES {
        let specification = specification(family);
        for command in specification["operations"]["list"].as_vec().unwrap() {
            let places = [
                &command["do"]["request"],
                &command["do"]["reply"],
                &command["dump"]["request"],
                &command["dump"]["reply"],
                &command["event"],
            ];
            for name in places
                .iter()
                .filter_map(|place| place["attributes"].as_vec())
                .flatten()
            {
                let name = name.as_str().unwrap();
                assert!(attributes().contains_key(name), "{family}: {name}");
            }
        }
    }
}

#[test]
fn enums() {
    let enums: [(&str, BTreeMap<String, i64>); 7] = [
        (
            "link-state",
            all!(LinkState { Alone Attached Refused }).into(),
        ),
        ("mode", all!(Mode { Weighted GlobalFifo }).into()),
        ("store", all!(Store { None Memory Ssd Hybrid }).into()),
        ("ssd-admit", all!(SsdAdmit { All Second }).into()),
        (
            "policy",
            all!(Policy { Adaptive Fifo Workingset Tinylfu S3 Mru }).into(),
        ),
        (
            "device-state",
            all!(DeviceState { Active Suspect Failed Leaving }).into(),
        ),
        (
            "event",
            all!(Event { VmCame VmWent PoolCame PoolWent HostFound HostLost Rollback }).into(),
        ),
    ];
    for family in FAMILIES {
        let specification = specification(family);
        for (name, entries) in &enums {
            let definition = definition(&specification, name);
            assert_eq!(values(&definition["entries"]), *entries, "{family} {name}");
        }
    }
}

#[test]
fn limits() {
    for family in FAMILIES {
        let specification = specification(family);
        for (name, value) in [
            ("abi-version", i64::from(ABI_VERSION)),
            ("name-len", i64::try_from(NAME_LEN).unwrap()),
            ("max-weight", MAX_WEIGHT.into()),
            ("default-weight", DEFAULT_WEIGHT.into()),
            ("default-pool", DEFAULT_POOL.into()),
            ("max-pools", MAX_POOLS.into()),
        ] {
            let definition = definition(&specification, name);
            assert_eq!(definition["value"].as_i64(), Some(value), "{family} {name}");
        }
    }
}

/// The C shims repeat the numbers that they need.
#[test]
fn shims() {
    let header = repository("shim/genl.h");
    let attributes = attributes();
    for line in header.lines().map(str::trim) {
        let Some((name, value)) = line
            .strip_prefix("DD_A_")
            .and_then(|line| line.trim_end_matches(',').split_once(" = "))
        else {
            continue;
        };
        let value: i64 = value.parse().unwrap();
        match name {
            "MAX" => assert_eq!(value, ATTRIBUTE_MAX.into()),
            name => {
                let name = name.to_ascii_lowercase().replace('_', "-");
                assert_eq!(attributes.get(&name), Some(&value), "{name}");
            }
        }
    }
    for (family, module) in [(HOST_FAMILY, "host-module"), (GUEST_FAMILY, "guest-module")] {
        let shim = repository(&format!("{module}/shim/genl.c"));
        assert!(shim.contains(&format!("#define DD_FAMILY \"{family}\"")));
        let specification = specification(family);
        let commands = specification["operations"]["list"].as_vec().unwrap();
        let kind = |kind: &str| -> Vec<i64> {
            let of_kind = commands.iter().filter(|one| !one[kind].is_badvalue());
            of_kind.map(|one| one["value"].as_i64().unwrap()).collect()
        };
        assert_eq!(numbers(&shim, "#define DD_DO(x)"), kind("do"), "{family}");
        assert_eq!(
            numbers(&shim, "#define DD_DUMP(x)"),
            kind("dump"),
            "{family}"
        );
        assert_eq!(
            numbers(&shim, "#define DD_EVENT"),
            kind("event"),
            "{family}"
        );
    }
}

/// Returns the numbers in a line of C.
fn numbers(text: &str, start: &str) -> Vec<i64> {
    let line = text.lines().find_map(|line| line.strip_prefix(start));
    let words = line.expect(start).split(|c: char| !c.is_ascii_digit());
    words.filter_map(|word| word.parse().ok()).collect()
}
