// SPDX-License-Identifier: GPL-2.0-only

//! Tests of `ddctl policy`, with a socket in place of policyd's.

use crate::world::World;
use std::{fs, io::Write, os::unix::net::UnixListener, thread};

pub(crate) const REPORT: &str = r#"{"module":true,"store_bytes":1073741824,"feasible":false,
"memory":{"total_bytes":1,"available_bytes":1,"pressure_percent":null,"reclaimed_bytes":0,
"offloaded_bytes":0},"containers":[
{"cgroup":"/web","name":"web\u001b[2J","class":"gold","enrolled":true,"verdict":"met","reason":"r",
"weight":6000,"share_bytes":644245094,"used_bytes":600000000,
"need_bytes":500000000,"character":"file","goals":[
{"figure":"latency","target":20.0,"measured":12.5},
{"figure":"io_pressure","target":5.0,"measured":null}],
"memory_bytes":1,"anon_bytes":1,"limits":{}},
{"cgroup":"/db","name":"db","class":"priority 7","enrolled":true,"verdict":"needs_memory",
"reason":"r","weight":10,"share_bytes":null,"used_bytes":null,"need_bytes":null,
"character":"anonymous","goals":[],"memory_bytes":1,"anon_bytes":1,"limits":{"low":3}}]}"#;

/// Starts a daemon that sends the same text to each reader.
pub(crate) fn daemon(world: &World, text: &'static str) {
    let path = world.file_path("/run/doubledecker/policyd.sock");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let listener = UnixListener::bind(path).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let line = format!("{}\n", text.replace('\n', ""));
            let _ = stream.unwrap().write_all(line.as_bytes());
        }
    });
}

#[test]
fn reports_are_shown() {
    let world = World::guest();
    daemon(&world, REPORT);
    insta::assert_snapshot!(world.run("policy"));
    let json: serde_json::Value =
        serde_json::from_str(&world.outcome("policy --json").out).unwrap();
    assert_eq!(json["containers"][1]["limits"]["low"], 3);
}

#[test]
fn silence_is_reported() {
    let world = World::guest();
    let outcome = world.outcome("policy");
    assert_eq!(outcome.code, 5);
    assert!(
        outcome.err.contains("cannot ask policyd"),
        "{}",
        outcome.err
    );
    daemon(&world, "{\"strange\": 1}");
    let outcome = world.outcome("policy");
    assert_eq!(outcome.code, 6, "{}", outcome.err);
}

/// Fields of another version may have another meaning.
#[test]
fn a_report_of_another_version_is_refused() {
    let world = World::guest();
    daemon(
        &world,
        "{\"schema_version\":2,\"store_bytes\":1,\"containers\":[]}",
    );
    let outcome = world.outcome("policy");
    assert_eq!(outcome.code, 6);
    assert_eq!(
        outcome.err,
        "Error: policyd sent a report of version 2 of the schema\nHint: install the tools and the \
         daemon of the same release\n"
    );
}
