// SPDX-License-Identifier: GPL-2.0-only

//! Compares the messages of requests with `docs/netlink/*.yaml`: the number of the command, and
//! each attribute with its value.

use ddabi::{
    genl::{AUTOMATIC, GUEST_FAMILY, HOST_FAMILY, Mode},
    policy::Policy,
    pool::{SsdAdmit, Store},
    ssd::Waiting,
};
use ddnl::{
    ConfigChange, FlushTarget, NewPool, PoolChange, Side, VmChange,
    call::{self, Call},
    exchange::Exchange,
    family::Family,
};
use std::{collections::BTreeMap, fs, path::PathBuf};
use yaml_rust2::{Yaml, YamlLoader};

/// A value of an attribute.
#[derive(Debug, Eq, PartialEq)]
enum Value {
    Number(u64),
    Text(String),
}

use Value::{Number, Text};

fn specification(family: &str) -> Yaml {
    let path = format!("../docs/netlink/{family}.yaml");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = fs::read_to_string(path).unwrap();
    YamlLoader::load_from_str(&text).unwrap().remove(0)
}

/// Returns the attributes of a specification: name, number and type.
fn known(specification: &Yaml) -> impl Iterator<Item = (&str, i64, &str)> {
    let list = specification["attribute-sets"][0]["attributes"].as_vec();
    list.unwrap().iter().map(|one| {
        let text = |key: &str| one[key].as_str().unwrap();
        (text("name"), one["value"].as_i64().unwrap(), text("type"))
    })
}

/// Returns the command of a datagram and its attributes, by their names in the specification.
fn told(specification: &Yaml, datagram: &[u8]) -> (String, BTreeMap<String, Value>) {
    const HEADERS: usize = 20;
    let list = specification["operations"]["list"].as_vec().unwrap();
    let command = list
        .iter()
        .find(|one| one["value"].as_i64() == Some(datagram[16].into()))
        .unwrap();
    let word = |at: usize| u16::from_ne_bytes(datagram[at..at + 2].try_into().unwrap());
    let (mut values, mut at) = (BTreeMap::new(), HEADERS);
    while at < datagram.len() {
        let (length, number) = (usize::from(word(at)), word(at + 2));
        let body = &datagram[at + 4..at + length];
        let (name, _, kind) = known(specification)
            .find(|(_, known, _)| *known == i64::from(number))
            .unwrap();
        let value = match kind {
            "u32" => Number(u32::from_ne_bytes(body.try_into().unwrap()).into()),
            "u64" => Number(u64::from_ne_bytes(body.try_into().unwrap())),
            "string" => Text(String::from_utf8_lossy(body).trim_end_matches('\0').into()),
            other => panic!("{name}: {other}"),
        };
        let request = ["do", "dump"].map(|how| &command[how]["request"]["attributes"]);
        let is_allowed = |list: &&Yaml| {
            let names = list.as_vec().into_iter().flatten();
            names.filter_map(Yaml::as_str).any(|other| other == name)
        };
        assert!(request.iter().any(is_allowed), "{name}");
        assert_eq!(values.insert(name.to_owned(), value), None, "{name}");
        at += length.next_multiple_of(4);
    }
    (command["name"].as_str().unwrap().into(), values)
}

#[track_caller]
fn check<T>(side: Side, call: &Call<T>, command: &str, expected: &[(&str, Value)]) {
    let family = Family {
        side,
        id: 31,
        version: 1,
        events: None,
    };
    let specification = specification(match side {
        Side::Host => HOST_FAMILY,
        Side::Guest => GUEST_FAMILY,
    });
    let (_, datagram) = Exchange::begin(&family, 7, call);
    let (name, values) = told(&specification, &datagram);
    assert_eq!(name, command);
    let values: Vec<(&str, &Value)> = values
        .iter()
        .map(|(name, value)| (&**name, value))
        .collect();
    let mut expected: Vec<(&str, &Value)> = expected
        .iter()
        .map(|(name, value)| (*name, value))
        .collect();
    expected.sort_by_key(|(name, _)| *name);
    assert_eq!(values, expected);
}

#[test]
fn requests_to_the_host() {
    let change = ConfigChange {
        capacity: Some(1 << 40),
        floor: Some(77),
        mode: Some(Mode::GlobalFifo),
        batch: Some(512),
        deadline: Some(5000),
        waiting: Some(Waiting::Guest),
        retain: Some(true),
        keep_free: Some(99),
        promote_free: Some(AUTOMATIC),
        index_limit: Some(1 << 20),
    };
    let all = [
        ("capacity", Number(1 << 40)),
        ("floor", Number(77)),
        ("mode", Number(1)),
        ("batch", Number(512)),
        ("deadline", Number(5000)),
        ("retain", Number(1)),
        ("waiting", Number(2)),
        ("keep-free", Number(99)),
        ("promote-free", Number(AUTOMATIC)),
        ("index-limit", Number(1 << 20)),
    ];
    check(
        Side::Host,
        &call::host::configure(&change),
        "config-set",
        &all,
    );
    check(
        Side::Host,
        &call::host::configure(&ConfigChange::default()),
        "config-set",
        &[],
    );
    let change = VmChange {
        weight: Some(60),
        ssd_weight: Some(20),
    };
    let weight = call::host::set_vm(3, change).unwrap();
    check(
        Side::Host,
        &weight,
        "vm-set",
        &[
            ("vm-id", Number(3)),
            ("weight", Number(60)),
            ("ssd-weight", Number(20)),
        ],
    );
    let add = call::host::add_device("/dev/nvme0n1").unwrap();
    let path = Text("/dev/nvme0n1".into());
    check(Side::Host, &add, "ssd-add", &[("path", path)]);
    call::host::add_device("nvme0n1").unwrap_err();
    check(
        Side::Host,
        &call::host::remove_device(2),
        "ssd-remove",
        &[("device", Number(2))],
    );
    check(
        Side::Host,
        &call::host::set_write_budget(2, 5120),
        "ssd-set",
        &[("device", Number(2)), ("write-budget", Number(5120))],
    );
    check(Side::Host, &call::host::devices(), "ssd-list", &[]);
    for (vm, pool) in [(None, None), (Some(3), None), (Some(3), Some(5))] {
        let number = |number: Option<u32>| number.map(|number| Number(number.into()));
        let values = [("vm-id", number(vm)), ("pool-id", number(pool))];
        let values = values
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        let values: Vec<(&str, Value)> = values.collect();
        check(
            Side::Host,
            &call::host::flush(FlushTarget { vm, pool }),
            "flush",
            &values,
        );
    }
}

#[test]
fn questions() {
    check(Side::Host, &call::host::status(), "status", &[]);
    check(Side::Host, &call::host::vms(), "vm-list", &[]);
    check(Side::Host, &call::host::pools(None), "pool-list", &[]);
    let pools = call::host::pools(Some(9));
    check(Side::Host, &pools, "pool-list", &[("vm-id", Number(9))]);
    check(Side::Guest, &call::guest::status(), "status", &[]);
    check(Side::Guest, &call::guest::pools(), "pool-list", &[]);
}

#[test]
fn requests_to_the_guest() {
    let pool = NewPool {
        cgroup: "/web".into(),
        name: "shop".into(),
        weight: 60,
        ssd_weight: Some(80),
        store: Store::Memory,
        policy: Some(Policy::Tinylfu),
        ssd_admit: Some(SsdAdmit::Second),
    };
    let values = [
        ("cgroup-path", Text("/web".into())),
        ("name", Text("shop".into())),
        ("weight", Number(60)),
        ("ssd-weight", Number(80)),
        ("store", Number(Store::Memory as u64)),
        ("policy", Number(Policy::Tinylfu as u64)),
        ("ssd-admit", Number(SsdAdmit::Second as u64)),
    ];
    let call = call::guest::add_pool(&pool).unwrap();
    check(Side::Guest, &call, "pool-add", &values);
    let change = PoolChange {
        weight: Some(7),
        ssd_weight: Some(9),
        store: Some(Store::None),
        policy: Some(Policy::S3),
        ssd_admit: Some(SsdAdmit::All),
    };
    let values = [
        ("pool-id", Number(4)),
        ("weight", Number(7)),
        ("ssd-weight", Number(9)),
        ("store", Number(Store::None as u64)),
        ("policy", Number(Policy::S3 as u64)),
        ("ssd-admit", Number(SsdAdmit::All as u64)),
    ];
    let check = |call: &Call<()>, command: &str, expected: &[(&str, Value)]| {
        check(Side::Guest, call, command, expected);
    };
    check(
        &call::guest::set_pool(4, change).unwrap(),
        "pool-set",
        &values,
    );
    let none = call::guest::set_pool(4, PoolChange::default()).unwrap();
    check(&none, "pool-set", &[("pool-id", Number(4))]);
    check(
        &call::guest::remove_pool(4),
        "pool-remove",
        &[("pool-id", Number(4))],
    );
    check(&call::guest::flush(None), "flush", &[]);
    check(
        &call::guest::flush(Some(4)),
        "flush",
        &[("pool-id", Number(4))],
    );
    let values = [("file-fd", Number(5)), ("pool-id", Number(4))];
    check(&call::guest::migrate(5, 4), "migrate", &values);
}
